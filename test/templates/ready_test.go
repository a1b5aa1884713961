package templates

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
)

// golden is a template that depends on a DataSource of another namespace and on an instancetype.
const golden = `
parameters:
- {name: NAME, generate: expression, from: "vm-[a-z0-9]{5}"}
- {name: USER, required: true}
virtualMachine:
  metadata: {name: "${NAME}"}
  spec:
    runStrategy: Halted
    instancetype: {name: small}
    dataVolumeTemplates:
    - metadata: {name: "${NAME}-root"}
      spec:
        sourceRef: {kind: DataSource, namespace: images, name: linux}
        storage: {}
    template:
      spec:
        domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}
        volumes:
        - {name: root, dataVolume: {name: "${NAME}-root"}}
        - {name: cloudinit, cloudInitNoCloud: {userData: "user: ${USER}"}}
`

// ready: the condition follows the objects that the template depends on.
func (f *fixture) ready(t *testing.T) {
	must(t, f.EnsureNamespace(t.Context(), "images"))
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "linux"}}
	spec, err := yaml.YAMLToJSON([]byte(golden))
	must(t, err)
	must(t, yaml.UnmarshalStrict(spec, &template.Spec))
	must(t, f.Client().Create(t.Context(), template))
	f.templateIs(t, template, metav1.ConditionFalse, v1beta1.ReasonReferenceMissing, "small")

	instancetype := &instancetypev1beta1.VirtualMachineClusterInstancetype{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
	instancetype.Spec.CPU.Guest = 1
	instancetype.Spec.Memory.Guest.Add(quantity("1Gi"))
	must(t, f.Client().Create(t.Context(), instancetype))
	f.templateIs(t, template, metav1.ConditionFalse, v1beta1.ReasonVolumeNotReady, "DataSource images/linux does not exist")

	image := &cdiv1beta1.DataSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "linux"},
		Spec:       cdiv1beta1.DataSourceSpec{Source: cdiv1beta1.DataSourceSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: "images", Name: "linux-1"}}},
	}
	must(t, f.Client().Create(t.Context(), image))
	f.templateIs(t, template, metav1.ConditionFalse, v1beta1.ReasonVolumeNotReady, "the object that DataSource images/linux refers to does not exist")
	f.claim(t, "images", "linux-1", "")
	f.templateIs(t, template, metav1.ConditionFalse, v1beta1.ReasonVolumeNotReady, "the object that DataSource images/linux refers to is not ready")
	claim := &corev1.PersistentVolumeClaim{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: "images", Name: "linux-1"}, claim))
	claim.Status.Phase = corev1.ClaimBound
	must(t, f.Client().Status().Update(t.Context(), claim))
	f.templateIs(t, template, metav1.ConditionTrue, v1beta1.ReasonTemplateReady, "depends on required parameters: USER")
	if v := template.Status.Volumes; len(v) != 1 || v[0].Kind != "DataSource" || v[0].SourceNamespace != "images" || v[0].SourceName != "linux" || !meta.IsStatusConditionTrue(v[0].Conditions, "Ready") {
		t.Errorf("volumes: %+v", v)
	}
	if p := template.Status.Parameters; fmt.Sprint(p.Required, p.Optional) != "[USER] [NAME]" {
		t.Errorf("parameters: %+v", p)
	}

	must(t, f.Client().Delete(t.Context(), image))
	f.templateIs(t, template, metav1.ConditionFalse, v1beta1.ReasonVolumeNotReady, "DataSource images/linux does not exist")
	template.Spec.VirtualMachine = &runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"${NAME}"},"spec":{"runStrategy":"Halted"}}`)}
	must(t, f.Client().Update(t.Context(), template))
	f.templateIs(t, template, metav1.ConditionFalse, v1beta1.ReasonDenied, "spec.virtualMachine.spec.template")
}

// templateIs waits until the condition Ready of a template has a status, a reason and a text in its message.
func (f *fixture) templateIs(t testing.TB, template *v1beta1.VirtualMachineTemplate, status metav1.ConditionStatus, reason, text string) {
	t.Helper()
	await.Until(t, func() error {
		must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(template), template))
		c := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateReady)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, text) || c.ObservedGeneration != template.Generation {
			return fmt.Errorf("Ready is %+v; want %s, %s: %s", c, status, reason, text)
		}
		return nil
	})
}
