package validators

import (
	"fmt"
	"testing"
)

func TestDataVolumeTemplates(t *testing.T) {
	const vm = `{metadata: {namespace: shop}, spec: {runStrategy: Always,
  template: {spec: {domain: {}, volumes: [{name: a, dataVolume: {name: d1}}, {name: b, persistentVolumeClaim: {claimName: d2}}]}},
  dataVolumeTemplates: [%s]}}`
	of := func(templates string) string { return fmt.Sprintf(vm, templates) }
	runCases(t, dataVolumeTemplateRules(), OnVM, []ruleCase{
		{name: "none", vm: of("")},
		{name: "one of each kind", vm: of(`
  {metadata: {name: d1, namespace: shop}, spec: {storage: {}, source: {http: {url: "http://x"}}}},
  {metadata: {name: d2}, spec: {pvc: {dataSource: {kind: P, name: p}}}}`)},
		{name: "a source and a sourceRef, which KubeVirt takes", vm: of(`{metadata: {name: d1}, spec: {storage: {}, source: {blank: {}}, sourceRef: {kind: DataSource, name: x}}}`)},
		{
			name: "no name", vm: of(`{spec: {storage: {}, source: {blank: {}}}}`),
			want: []string{`dvt-name: spec.dataVolumeTemplates[0].metadata.name: Required value: a volume refers to the DataVolume by its name`},
		},
		{
			name: "both targets, of the second", vm: of(`{metadata: {name: d1}, spec: {storage: {}, source: {blank: {}}}}, {metadata: {name: d2}, spec: {storage: {}, pvc: {}, source: {blank: {}}}}`),
			want: []string{`dvt-storage-or-pvc: spec.dataVolumeTemplates[1].spec: Invalid value: storage and pvc are both set`},
		},
		{
			name: "no target", vm: of(`{metadata: {name: d1}, spec: {}}`),
			want: []string{`dvt-storage-or-pvc: spec.dataVolumeTemplates[0].spec: Invalid value: neither storage nor pvc is set`},
		},
		{
			name: "nothing to fill it with", vm: of(`{metadata: {name: d1}, spec: {pvc: {}}}`),
			want: []string{`dvt-source: spec.dataVolumeTemplates[0].spec.source: Invalid value: null: nothing says what to fill the volume with: set source, sourceRef, or the dataSourceRef of spec.pvc`},
		},
		{
			name: "filled twice", vm: of(`{metadata: {name: d1}, spec: {storage: {dataSourceRef: {kind: P, name: p}}, sourceRef: {kind: DataSource, name: x}}}`),
			want: []string{`dvt-source: spec.dataVolumeTemplates[0].spec.sourceRef: Invalid value: spec.storage already has a dataSource or dataSourceRef`},
		},
		{
			name: "an empty source", vm: of(`{metadata: {name: d1}, spec: {storage: {}, source: {}}}`),
			want: []string{`dvt-source-one: spec.dataVolumeTemplates[0].spec.source: Invalid value: has no kind, such as http, registry, pvc or blank`},
		},
		{
			name: "two sources", vm: of(`{metadata: {name: d1}, spec: {storage: {}, source: {blank: {}, http: {url: "http://x"}}}}`),
			want: []string{`dvt-source-one: spec.dataVolumeTemplates[0].spec.source: Invalid value: has 2 kinds (http, blank)`},
		},
		{
			name: "unused", vm: of(`{metadata: {name: d3}, spec: {storage: {}, source: {blank: {}}}}`),
			want: []string{`dvt-referenced: spec.dataVolumeTemplates[0]: Required value: no volume uses the DataVolume "d3"`},
		},
		{
			name: "of another namespace", vm: of(`{metadata: {name: d1, namespace: bank}, spec: {storage: {}, source: {blank: {}}}}`),
			want: []string{`dvt-namespace: spec.dataVolumeTemplates[0].metadata.namespace: Invalid value: "bank": must be the namespace of the VM, "shop", or empty`},
		},
		{
			name: "of another namespace, as before",
			vm:   of(`{metadata: {name: d1, namespace: bank}, spec: {storage: {}, source: {blank: {}}}}`),
			old:  of(`{metadata: {name: d1, namespace: bank}, spec: {storage: {}, source: {blank: {}}}}`),
		},
	})
}
