package webhooks

import (
	"context"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/test/build"
)

// TestInferredObjectsAreNotDisclosed marks every value of an object behind a volume. No response, warning, cause, audit
// annotation, patch or log line may have the mark: the requester may not have the permission to read these objects.
func TestInferredObjectsAreNotDisclosed(t *testing.T) {
	const mark = "s3cret"
	object := func(kind, version, namespace, name, labels, spec string) string {
		return `{"apiVersion":"` + version + `","kind":"` + kind + `","metadata":{"name":"` + name + `","namespace":"` + namespace + `","labels":` + labels + `},"spec":` + spec + `}`
	}
	const cdi = "cdi.kubevirt.io/v1beta1"
	all := `{"instancetype.kubevirt.io/default-instancetype":"s3cret-it","instancetype.kubevirt.io/default-preference":"s3cret-pf"}`
	claim := func(labels string) string {
		return object("PersistentVolumeClaim", "v1", "default", "root", labels, "{}")
	}
	fromClaim := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}
	fromClaim.PersistentVolumeClaim.ClaimName = "root"
	fromVolume := v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}
	preference := `{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineClusterPreference","metadata":{"name":"s3cret-pf"},"spec":{"devices":{"preferredDiskBus":"sata"}}}`
	instancetype := `{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineClusterInstancetype","metadata":{"name":"s3cret-it"},"spec":{"cpu":{"guest":64,"model":"Haswell"},"memory":{"guest":"9Gi"}}}`
	for name, c := range map[string]struct {
		volume  v1.VolumeSource
		objects []string
		policy  string
		// says is a part of the message.
		says string
	}{
		"neither exists": {fromClaim, []string{claim(all)}, "", "there is no object of the inferred name"},
		"of a kind that does not exist": {fromClaim, []string{claim(`{"instancetype.kubevirt.io/default-instancetype":"s3cret-it","instancetype.kubevirt.io/default-instancetype-kind":"s3cret-kind",` +
			`"instancetype.kubevirt.io/default-preference":"s3cret-pf","instancetype.kubevirt.io/default-preference-kind":"s3cret-kind"}`)}, "", "the inferred kind does not exist"},
		"both determine what is denied":          {fromClaim, []string{claim(all), preference, instancetype}, "", "the inferred preference sets domain.devices.disks[0].disk.bus"},
		"an instancetype that cannot be decoded": {fromClaim, []string{claim(all), preference, strings.Replace(instancetype, `"guest":64`, `"guest":"s3cret"`, 1)}, "", "the inferred object cannot be read"},
		"a policy that quotes it": {fromClaim, []string{claim(all), preference, instancetype}, `{enforcement: Deny, validations: [{expression: "false", fieldPath: "spec.instancetype.name",
			messageExpression: "'not ' + provenance['spec.domain.memory.guest'] + ', nor ' + vm.spec.domain.memory.guest"}]}`, "not instancetype/(inferred), nor 9Gi"},
		"a DataVolume of another kind of source": {fromVolume, []string{object("DataVolume", cdi, "default", "root", "{}", `{"sourceRef":{"kind":"s3cret","name":"s3cret"}}`)}, "", "is not a DataSource"},
		"a DataVolume of a claim elsewhere":      {fromVolume, []string{object("DataVolume", cdi, "default", "root", "{}", `{"source":{"pvc":{"namespace":"s3cret","name":"s3cret"}}}`)}, "", "the object behind the volume"},
		"a DataVolume of a claim here":           {fromVolume, []string{object("DataVolume", cdi, "default", "root", "{}", `{"source":{"pvc":{"namespace":"default","name":"s3cret"}}}`)}, "", "the object behind the volume"},
		"a DataVolume of a DataSource": {fromVolume, []string{
			object("DataVolume", cdi, "default", "root", "{}", `{"sourceRef":{"kind":"DataSource","name":"s3cret"}}`),
			object("DataSource", cdi, "default", "s3cret", "{}", `{"source":{"snapshot":{"namespace":"default","name":"s3cret"}}}`),
		}, "", "the object behind the volume"},
		"a DataVolume that cannot be decoded": {fromVolume, []string{object("DataVolume", cdi, "default", "root", "{}", `{"sourceRef":"s3cret"}`)}, "", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			vm := build.VMOf(build.VMI("db").Architecture("arm64").Disk("root", "")).Obj()
			vm.Spec.Template.Spec.Domain.Memory = nil
			vm.Spec.Template.Spec.Volumes[0].VolumeSource = c.volume
			vm.Spec.Instancetype = &v1.InstancetypeMatcher{InferFromVolume: "root"}
			vm.Spec.Preference = &v1.PreferenceMatcher{InferFromVolume: "root"}
			var log strings.Builder
			objects := make([]*unstructured.Unstructured, len(c.objects))
			for i, text := range c.objects {
				objects[i] = parsed(t, text)
			}
			v := newValidator(t, objects...)
			v.Log = funcr.New(func(_, line string) { log.WriteString(line) }, funcr.Options{Verbosity: 9})
			v = NewValidator(*v)
			if c.policy != "" {
				under(t, v, c.policy)
			}
			m := newMutator(t)
			m.Evaluator.References, m.Log = v.Evaluator.References, v.Log
			m = NewMutator(*m)
			said := ""
			for _, review := range []interface {
				Review(ctx context.Context, body []byte) ([]byte, error)
			}{v, m} {
				answer, err := review.Review(t.Context(), reviewOf(t, apikinds.VirtualMachine, vm))
				if err != nil {
					t.Fatal(err)
				}
				said += string(answer)
			}
			said += log.String()
			if strings.Contains(said, mark) {
				t.Errorf("it discloses the inferred object:\n%s", said)
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, said)
			}
		})
	}
}
