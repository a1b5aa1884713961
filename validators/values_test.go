package validators

import "testing"

func TestFixedValues(t *testing.T) {
	runCases(t, valueRules(), OnSpec, []ruleCase{
		{
			name: "known values, and none",
			spec: `{"dnsPolicy":"Default","tolerations":[{"operator":"Exists","effect":"NoExecute"},{"key":"a"},{"key":"a","operator":"Gt","value":"5"}],
				"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway","nodeAffinityPolicy":"Honor","nodeTaintsPolicy":"Ignore"}],
				"volumes":[{"name":"a","containerDisk":{"image":"a","imagePullPolicy":"Never"}},{"name":"b","containerDisk":{"image":"b"}},{"name":"c","emptyDisk":{"capacity":"1Gi"}}],
				"livenessProbe":{"httpGet":{"port":80}},"readinessProbe":{"httpGet":{"port":80,"scheme":"HTTPS"}},
				"domain":{"firmware":{"kernelBoot":{"container":{"imagePullPolicy":"Always"}}}}}`,
		},
		{
			name: "unknown values",
			spec: `{"tolerations":[{"key":"a","operator":"Is","effect":"Never"}],
				"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway","nodeAffinityPolicy":"honor","nodeTaintsPolicy":""}],
				"volumes":[{"name":"a","containerDisk":{"image":"a","imagePullPolicy":"Sometimes"}}],
				"livenessProbe":{"httpGet":{"port":80,"scheme":"http"}},
				"domain":{"firmware":{"kernelBoot":{"container":{"imagePullPolicy":"always"}}}}}`,
			want: []string{
				`object-fixed-values: spec.domain.firmware.kernelBoot.container.imagePullPolicy: Unsupported value: "always": supported values: "Always", "IfNotPresent", "Never"`,
				`object-fixed-values: spec.livenessProbe.httpGet.scheme: Unsupported value: "http": supported values: "HTTP", "HTTPS"`,
				`object-fixed-values: spec.tolerations[0].effect: Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "PreferNoSchedule"`,
				`object-fixed-values: spec.tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"`,
				`object-fixed-values: spec.topologySpreadConstraints[0].nodeAffinityPolicy: Unsupported value: "honor": supported values: "Honor", "Ignore"`,
				`object-fixed-values: spec.volumes[0].containerDisk.imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"`,
			},
		},
	})
}

func TestDataVolumeValues(t *testing.T) {
	runCases(t, valueRules(), OnVM, []ruleCase{
		{
			name: "known values, and none",
			vm: `{"spec":{"dataVolumeTemplates":[{"spec":{"pvc":{"accessModes":["ReadWriteOnce"],"volumeMode":"Block"}}},
				{"spec":{"storage":{"accessModes":["ReadWriteMany","ReadWriteOncePod"],"volumeMode":"FromStorageProfile"}}},{"spec":{"storage":{}}}]}}`,
		},
		{
			name: "unknown values",
			vm: `{"spec":{"dataVolumeTemplates":[{"spec":{"pvc":{"accessModes":["ReadWriteOnce","RWX"],"volumeMode":"block"}}},
				{"spec":{"storage":{"accessModes":["Any"]}}}]}}`,
			want: []string{
				`dvt-fixed-values: spec.dataVolumeTemplates[0].spec.pvc.accessModes[1]: Unsupported value: "RWX": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
				`dvt-fixed-values: spec.dataVolumeTemplates[0].spec.pvc.volumeMode: Unsupported value: "block": supported values: "Block", "Filesystem", "FromStorageProfile"`,
				`dvt-fixed-values: spec.dataVolumeTemplates[1].spec.storage.accessModes[0]: Unsupported value: "Any": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
			},
		},
	})
}
