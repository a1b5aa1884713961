package templateimport_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
	"github.com/virtward/virtward/sources/signatures"
	sign "github.com/virtward/virtward/sources/signatures/signaturestest"
)

// pushed are the objects after an import of an OVA of a registry.
var pushed = []string{"ConfigMap of nothing", "DataVolume of VirtualMachineTemplate", "VirtualMachineTemplate of nothing"}

// planned is the plan of the pod of an import; nil without one.
func (c *cluster) planned(t *testing.T) *transfer.Plan {
	t.Helper()
	for _, o := range c.objects(t) {
		if secret, is := o.(*corev1.Secret); is && secret.Data["plan.json"] != nil {
			plan, err := transfer.Parse(secret.Data["plan.json"])
			must(t, err)
			return plan
		}
	}
	return nil
}

// TestPushedAppliance holds that an OVA of a registry is imported with the choices of a descriptor: the whole layer is compared, the pod
// gets the digests of the disks that were computed then, and a tag that moves changes nothing.
func TestPushedAppliance(t *testing.T) {
	for name, listed := range map[string]bool{"with a manifest": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			registry := artifactstest.NewTLS(t)
			file := ova(t, descriptor, listed, false)
			reference, manifest := registry.PushOVA(t, "appliances/quay:v1", "Quay.ova", file)
			c := newShop(t, reference, registry, func(s *v1beta1.VirtualMachineTemplateImportSpec) {
				s.Verify, s.NetworkMappings = v1beta1.ImportVerifyRequire, []v1beta1.NetworkMapping{{Source: "lan", Target: "lab/shore"}}
			})
			c.phase = cdiv1beta1.ImportInProgress
			registry.Requests()
			c.drive(t, unbounded(), func() bool { return c.stored(t).Status.Source != nil })
			for _, request := range registry.Requests() {
				if strings.Contains(request, "/blobs/") && !strings.Contains(request, " bytes=") {
					t.Errorf("before the verification: %s", request)
				}
			}
			c.drive(t, unbounded(), func() bool { return c.stored(t).Status.Progress == "25%" })
			registry.PushOVA(t, "appliances/quay:v1", "Quay.ova", ova(t, strings.Replace(descriptor, ">64<", ">128<", 1), listed, false)) // the tag moves
			s := c.stored(t).Status
			if s.Source.File != "Quay.ova" || s.Source.Digest != manifest.Digest.String() || s.Source.Validator != s.Source.Digest || s.Source.Size != int64(len(file)) || !s.Source.Verified {
				t.Errorf("got the status %+v", s.Source)
			}
			at := bytes.Index(file, []byte("KDMV"))
			plan := c.planned(t)
			part := plan.Disks[0].Parts[0]
			disk := "sha256:" + sumOf(string(file[at:int64(at)+part.Size]))
			if len(s.Disks) != 1 || len(s.Disks[0].Digests) != 1 || s.Disks[0].Digests[0] != disk {
				t.Errorf("got the disks %+v", s.Disks)
			}
			want := []transfer.File{{Blob: registry.Host + "/appliances/quay@sha256:" + sumOf(string(file)), Size: int64(len(file))}}
			if diff := cmp.Diff(want, plan.Files); diff != "" || part.Offset != int64(at) || part.Digest != disk {
				t.Errorf("got %+v, files (-want +got):\n%s", part, diff)
			}
			dv := &cdiv1beta1.DataVolume{}
			must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "quay-disk-1"}, dv))
			dv.Status.Phase = cdiv1beta1.Succeeded
			must(t, c.server.Status().Update(t.Context(), dv))
			c.drive(t, unbounded())
			if diff := cmp.Diff(pushed, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
				t.Errorf("%+v; afterwards (-want +got):\n%s", c.completed(t), diff)
			}
			template := &v1beta1.VirtualMachineTemplate{}
			must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "quay"}, template))
			if raw := string(template.Spec.VirtualMachine.Raw); !strings.Contains(raw, `"pvc":{"name":"quay-disk-1","namespace":"catalogue"}`) || !strings.Contains(raw, `"networkName":"lab/shore"`) {
				t.Errorf("got the template %s", raw)
			}
		})
	}
}

// TestPushedApplianceEnds holds why imports of OVAs of a registry fail, and that nothing of them is left.
func TestPushedApplianceEnds(t *testing.T) {
	eula := strings.Replace(descriptor, "<VirtualHardwareSection>", "<EulaSection><License>Pay</License></EulaSection><VirtualHardwareSection>", 1)
	for name, test := range map[string]struct {
		file            []byte
		prepare         func(*artifactstest.Registry)
		change          func(*v1beta1.VirtualMachineTemplateImportSpec)
		reason, message string
	}{
		"a registry without ranges": {
			prepare: func(r *artifactstest.Registry) { r.NoRanges.Store(true) }, reason: "SourceWithoutRanges", message: "spec.source.oci: the registry does not send ranges of blobs",
		},
		"a platform": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.OCI.Platform = "arm64" },
			reason: v1beta1.ReasonInvalidConfiguration, message: "spec.source.oci.platform: the artifact is an OVA",
		},
		"a license": {file: ova(t, eula, true, false), reason: v1beta1.ReasonChoiceRequired, message: "spec.acceptEula: "},
		"no such network": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) {
				s.NetworkMappings = []v1beta1.NetworkMapping{{Source: "wan", Target: "pod"}}
			},
			reason: v1beta1.ReasonInvalidConfiguration, message: "spec.networkMappings[0].source: ",
		},
		"no such option": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.DeploymentOption = "large" }, reason: v1beta1.ReasonChoiceRequired, message: `spec.deploymentOption: the descriptor has no deployment option "large"`,
		},
		"not an archive":   {file: []byte(strings.Repeat("x", 2000)), reason: v1beta1.ReasonNotImportable, message: "NotAnArchive"},
		"another manifest": {file: ova(t, descriptor, true, true), reason: v1beta1.ReasonVerificationFailed, message: "ManifestMismatch: a.vmdk: "},
		"another manifest, although it is not required": {
			file: ova(t, descriptor, true, true), change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Verify = v1beta1.ImportVerifyIfPresent },
			reason: v1beta1.ReasonVerificationFailed, message: "ManifestMismatch: a.vmdk: ",
		},
		"another manifest, which is skipped": {
			file: ova(t, descriptor, true, true), change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Verify = v1beta1.ImportVerifySkip }, reason: v1beta1.ReasonReconciled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			registry := artifactstest.NewTLS(t)
			if test.file == nil {
				test.file = ova(t, descriptor, true, false)
			}
			reference, _ := registry.PushOVA(t, "appliances/quay:v1", "quay.ova", test.file)
			if test.prepare != nil {
				test.prepare(registry)
			}
			c := newShop(t, reference, registry, func(s *v1beta1.VirtualMachineTemplateImportSpec) {
				if s.Verify = v1beta1.ImportVerifyRequire; test.change != nil {
					test.change(s)
				}
			})
			c.drive(t, unbounded())
			c.plays(t)
			if ended := c.completed(t); ended.Reason != test.reason || !strings.Contains(ended.Message, test.message) {
				t.Errorf("Completed is %+v", ended)
			}
			if test.reason == v1beta1.ReasonReconciled {
				if s := c.stored(t).Status; s.Source.Verified || s.Disks[0].Digests != nil {
					t.Errorf("got the status %+v", s)
				}
				return
			}
			if diff := cmp.Diff([]string{"ConfigMap of nothing"}, c.left(t)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPushedApplianceChanged holds that a registry which sends another layer than that of the digest gets nothing imported: with a
// signature also if the manifest of the appliance is skipped.
func TestPushedApplianceChanged(t *testing.T) {
	key := sign.NewKey(t)
	for name, test := range map[string]struct {
		verify v1beta1.ImportVerify
		signed bool
		reason string
	}{
		"required":           {v1beta1.ImportVerifyRequire, false, v1beta1.ReasonVerificationFailed},
		"by default":         {"", false, v1beta1.ReasonVerificationFailed},
		"skipped":            {v1beta1.ImportVerifySkip, false, v1beta1.ReasonReconciled},
		"skipped and signed": {v1beta1.ImportVerifySkip, true, v1beta1.ReasonVerificationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			registry := artifactstest.NewTLS(t)
			file := ova(t, descriptor, false, false)
			reference, manifest := registry.PushOVA(t, "appliances/quay:v1", "quay.ova", file)
			other := bytes.Replace(file, []byte("boot"), []byte("root"), 1)
			if bytes.Equal(other, file) {
				other = bytes.Clone(file)
				other[bytes.Index(other, []byte("KDMV"))+70000]++
			}
			registry.Answer("/blobs/sha256:"+sumOf(string(file)), func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(other))
			})
			c := newShop(t, reference, registry, func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Verify = test.verify })
			if test.signed {
				sign.Refer(t, registry.Plain+"/appliances/quay", manifest.Content, key.Bundle(t, sign.Statement(manifest.Content, "https://sigstore.dev/cosign/sign/v1")))
				rules, err := yaml.Marshal([]signatures.Rule{{Prefix: registry.Host + "/appliances", Keys: []string{string(key.PEM(t))}}})
				must(t, err)
				c.signatures, err = signatures.ParseRequirements(rules)
				must(t, err)
			}
			c.drive(t, unbounded())
			if ended := c.completed(t); ended.Reason != test.reason {
				t.Errorf("Completed is %+v", ended)
			}
		})
	}
}

// TestPushedApplianceSigned holds that nothing of an OVA is read before its signature is verified.
func TestPushedApplianceSigned(t *testing.T) {
	key := sign.NewKey(t)
	registry := artifactstest.NewTLS(t)
	reference, _ := registry.PushOVA(t, "appliances/quay:v1", "quay.ova", ova(t, descriptor, true, false))
	c := newShop(t, reference, registry)
	rules, err := yaml.Marshal([]signatures.Rule{{Prefix: registry.Host + "/appliances", Keys: []string{string(key.PEM(t))}}})
	must(t, err)
	c.signatures, err = signatures.ParseRequirements(rules)
	must(t, err)
	registry.Requests()
	c.drive(t, unbounded())
	if ended := c.completed(t); ended.Reason != v1beta1.ReasonVerificationFailed || !strings.Contains(ended.Message, "has no signature") {
		t.Errorf("Completed is %+v", ended)
	}
	if read := strings.Join(registry.Requests(), "\n"); strings.Contains(read, "/blobs/") {
		t.Errorf("it was read: %s", read)
	}
}

// TestPushedApplianceKills holds that an import of an OVA of a registry converges after a kill at each write.
func TestPushedApplianceKills(t *testing.T) {
	t.Parallel()
	registry := artifactstest.NewTLS(t)
	reference, _ := registry.PushOVA(t, "appliances/quay:v1", "quay.ova", ova(t, descriptor, true, false))
	k := &killed{begin: func(t *testing.T) *cluster { return newShop(t, reference, registry) }, want: pushed, least: 14, once: true}
	k.converges(t, func(t *testing.T, c *cluster) {
		t.Helper()
		if s := c.stored(t).Status; !s.Source.Verified || len(s.Disks[0].Digests) != 1 {
			t.Errorf("got the status %+v", s)
		}
	})
}
