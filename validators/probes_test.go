package validators

import "testing"

func TestProbes(t *testing.T) {
	const pod = `"networks":[{"name":"default","pod":{}}]`
	runCases(t, probeRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "one way each", spec: `{` + pod + `,"readinessProbe":{"httpGet":{"port":80}},"livenessProbe":{"exec":{"command":["true"]}}}`},
		{name: "over the agent, without a pod network", spec: `{"readinessProbe":{"guestAgentPing":{}},"livenessProbe":{"exec":{"command":["true"]}}}`},
		{
			name: "no way",
			spec: `{"readinessProbe":{},"livenessProbe":{"initialDelaySeconds":5}}`,
			want: []string{
				`probes-one-handler: spec.livenessProbe: Required value: the probe has no handler`,
				`probes-one-handler: spec.readinessProbe: Required value: the probe has no handler`,
			},
		},
		{
			name: "several ways",
			spec: `{` + pod + `,"readinessProbe":{"httpGet":{"port":80},"tcpSocket":{"port":22}}}`,
			want: []string{`probes-one-handler: spec.readinessProbe: Invalid value: "httpGet, tcpSocket": the probe has several handlers`},
		},
		{
			name: "over the network without a pod network",
			spec: `{"networks":[{"name":"m","multus":{"networkName":"nad","default":true}}],"readinessProbe":{"httpGet":{"port":"web"}},"livenessProbe":{"tcpSocket":{"port":22}}}`,
			want: []string{
				`probes-pod-network: spec.livenessProbe.tcpSocket: Invalid value: "22": the node reaches the guest over the pod network only, and the VM has none`,
				`probes-pod-network: spec.readinessProbe.httpGet: Invalid value: "web": the node reaches the guest over the pod network only, and the VM has none`,
			},
		},
		{name: "a readiness that must hold", spec: `{` + pod + `,"readinessProbe":{"tcpSocket":{"port":22},"successThreshold":2}}`},
		{
			name: "a timing that pods reject",
			spec: `{"readinessProbe":{"guestAgentPing":{},"initialDelaySeconds":-1},"livenessProbe":{"guestAgentPing":{},"successThreshold":2}}`,
			want: []string{
				`probes-pod-timing: spec.livenessProbe.successThreshold: Invalid value: 2: must be 1 in a livenessProbe; KubeVirt accepts this, but the VM's pod will be rejected`,
				`probes-pod-timing: spec.readinessProbe.initialDelaySeconds: Invalid value: -1: must not be negative; KubeVirt accepts this, but the VM's pod will be rejected`,
			},
		},
		{
			name: "ports that pods reject",
			spec: `{` + pod + `,"readinessProbe":{"httpGet":{"port":0}},"livenessProbe":{"tcpSocket":{"port":"Not a port"}}}`,
			want: []string{
				`probes-pod-port: spec.livenessProbe.tcpSocket.port: Invalid value: "Not a port": must be a number from 1 to 65535 or the name of a port; KubeVirt accepts this, but the VM's pod will be rejected`,
				`probes-pod-port: spec.readinessProbe.httpGet.port: Invalid value: "0": must be a number from 1 to 65535 or the name of a port; KubeVirt accepts this, but the VM's pod will be rejected`,
			},
		},
	})
}
