package bench

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// fedora is the example of VEP 76.
const fedora = `
virtualMachine:
  metadata: {name: "${NAME}"}
  spec:
    dataVolumeTemplates:
    - metadata: {name: "${NAME}"}
      spec:
        storage: {resources: {requests: {storage: 30Gi}}}
        sourceRef: {kind: DataSource, name: "${DATA_SOURCE_NAME}", namespace: "${DATA_SOURCE_NAMESPACE}"}
    runStrategy: Halted
    instancetype: {name: "${INSTANCETYPE}"}
    preference: {name: fedora}
    template:
      spec:
        architecture: amd64
        domain: {devices: {interfaces: [{masquerade: {}, name: default}]}}
        terminationGracePeriodSeconds: 180
        networks: [{name: default, pod: {}}]
        volumes:
        - {dataVolume: {name: "${NAME}"}, name: disk-1}
        - cloudInitNoCloud:
            userData: "#cloud-config\nuser: fedora\npassword: ${CLOUD_USER_PASSWORD}\nchpasswd: { expire: False }\n"
          name: cloudinitdisk
parameters:
- {name: NAME, description: VM name, from: "fedora-[a-z0-9]{16}", generate: expression}
- {name: INSTANCETYPE, description: VM instance type, value: u1.medium}
- {name: DATA_SOURCE_NAME, description: Name of the DataSource to clone, value: fedora}
- {name: DATA_SOURCE_NAMESPACE, description: Namespace of the DataSource, value: kubevirt-os-images}
- {name: CLOUD_USER_PASSWORD, description: Randomized password, from: "[a-z0-9]{4}-[a-z0-9]{4}-[a-z0-9]{4}", generate: expression}
`

// BenchmarkRender renders the example of VEP 76, each time with another name.
func BenchmarkRender(b *testing.B) {
	data, err := yaml.YAMLToJSON([]byte(fedora))
	if err != nil {
		b.Fatal(err)
	}
	spec := &v1beta1.VirtualMachineTemplateSpec{}
	if err := json.Unmarshal(data, spec); err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a benchmark
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		name := "vm-" + strconv.Itoa(i)
		rendered, findings := templates.Render(spec, map[string]string{"NAME": name}, templates.Options{Random: random})
		if rendered == nil || rendered.VirtualMachine.Name != name {
			b.Fatal(findings)
		}
	}
}
