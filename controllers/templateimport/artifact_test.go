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

// shop is a template with three disks, a volume of this cluster and one that no template clones.
const shop = `{"apiVersion":"template.kubevirt.io/v1alpha1","kind":"VirtualMachineTemplate","metadata":{"name":"shop","namespace":"elsewhere","labels":{"a":"b"}},"spec":{` +
	`"parameters":[{"name":"NAME","generate":"expression","from":"shop-[a-z0-9]{5}"}],"message":"it is ${NAME}",` +
	`"virtualMachine":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"${NAME}"},"spec":{"runStrategy":"Always",` +
	`"instancetype":{"name":"u1.medium","revisionName":"u1-elsewhere"},` +
	`"dataVolumeTemplates":[` +
	`{"metadata":{"name":"${NAME}-root"},"spec":{"source":{"pvc":{"name":"gold","namespace":"elsewhere"}},"storage":{"storageClassName":"fast","resources":{"requests":{"storage":"1Mi"}}}}},` +
	`{"metadata":{"name":"${NAME}-logs"},"spec":{"source":{"pvc":{"name":"logs"}},"pvc":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Mi"}}}}},` +
	`{"metadata":{"name":"${NAME}-tools"},"spec":{"sourceRef":{"kind":"DataSource","name":"tools"},"storage":{}}}],` +
	`"template":{"spec":{"architecture":"ARCHITECTURE","domain":{"devices":{}},"volumes":[{"name":"root","dataVolume":{"name":"${NAME}-root"}},{"name":"logs","dataVolume":{"name":"${NAME}-logs"}},` +
	`{"name":"tools","dataVolume":{"name":"${NAME}-tools"}},{"name":"shared","persistentVolumeClaim":{"claimName":"common"}}]}}}}}}`

// booted is a raw disk.
func booted(size int) []byte { return append([]byte("boot"), make([]byte, size-4)...) }

// variant is the template for an architecture.
func variant(architecture string) artifactstest.Variant {
	return artifactstest.Variant{
		Object: strings.Replace(shop, "ARCHITECTURE", architecture, 1),
		Disks:  []artifactstest.Disk{{Name: "root", Raw: booted(1 << 20)}, {Name: "logs", Raw: booted(2 << 20)}, {Name: "shared", Raw: booted(1<<20 + 512)}},
	}
}

// newShop is a cluster with an import of an artifact of a registry.
func newShop(t *testing.T, reference string, registry *artifactstest.Registry, change ...func(*v1beta1.VirtualMachineTemplateImportSpec)) *cluster {
	t.Helper()
	return newShopAt(t, began, reference, registry, change...)
}

// newShopAt is a cluster of newShop at a time.
func newShopAt(t *testing.T, now time.Time, reference string, registry *artifactstest.Registry, change ...func(*v1beta1.VirtualMachineTemplateImportSpec)) *cluster {
	t.Helper()
	c := newClusterAt(t, now, nil, func(r *v1beta1.VirtualMachineTemplateImport) {
		r.Spec.Source = v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: reference, CertConfigMap: "authority"}}
		for _, how := range change {
			how(&r.Spec)
		}
	})
	must(t, c.server.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "authority"}, Data: map[string]string{"ca.crt": string(registry.Authority)}}))
	return c
}

// shopped are the objects after the import.
var shopped = []string{"ConfigMap of nothing", "DataVolume of VirtualMachineTemplate", "DataVolume of VirtualMachineTemplate", "DataVolume of VirtualMachineTemplate", "VirtualMachineTemplate of nothing"}

// TestArtifact holds what an import of an artifact creates on its way, and what is left.
func TestArtifact(t *testing.T) {
	registry := artifactstest.NewTLS(t)
	reference, index := registry.Push(t, "templates/shop:v1", variant("amd64"))
	c := newShop(t, reference, registry)
	c.phase = cdiv1beta1.ImportInProgress
	c.drive(t, unbounded(), func() bool { return c.stored(t).Status.Progress != "" && c.stored(t).Status.Progress != "0%" })
	volumes := &cdiv1beta1.DataVolumeList{}
	must(t, c.server.List(t.Context(), volumes))
	if len(volumes.Items) != transfer.MaxDecompressed {
		t.Errorf("CDI imports %d disks at the same time", len(volumes.Items))
	}
	for _, o := range c.objects(t) {
		if secret, is := o.(*corev1.Secret); is && secret.Data["plan.json"] != nil {
			plan, err := transfer.Parse(secret.Data["plan.json"])
			must(t, err)
			if len(plan.Files) != 3 || len(plan.Disks) != 3 || !strings.HasPrefix(plan.Files[0].Blob, registry.Host+"/templates/shop@sha256:") || plan.Disks[1].Size() != 2<<20 || plan.AuthoritiesFile == "" {
				t.Errorf("got the plan %s", secret.Data["plan.json"])
			}
		}
	}
	c.phase = ""
	for i := range volumes.Items {
		volumes.Items[i].Status.Phase = cdiv1beta1.Succeeded
		must(t, c.server.Status().Update(t.Context(), &volumes.Items[i]))
	}
	registry.Push(t, "templates/shop:v1", variant("arm64")) // the tag moves
	c.drive(t, unbounded())
	if diff := cmp.Diff(shopped, c.left(t)); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
	status := c.stored(t).Status
	if s := status.Source; s == nil || s.Digest != index.Digest.String() || s.Validator == "" || s.Validator == s.Digest || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("got the status %+v, %+v", status, status.Source)
	}
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "quay"}, template))
	raw := string(template.Spec.VirtualMachine.Raw)
	for _, part := range []string{
		`"source":{"pvc":{"name":"quay-root","namespace":"catalogue"}}`, `"source":{"pvc":{"name":"quay-logs","namespace":"catalogue"}}`, `"claimName":"quay-shared"`,
		`"sourceRef":{"kind":"DataSource","name":"tools"}`, `"instancetype":{"name":"u1.medium"}`, `"architecture":"amd64"`, `"storageClassName":"fast"`,
	} {
		if !strings.Contains(raw, part) {
			t.Errorf("the template has no %s: %s", part, raw)
		}
	}
	if template.Spec.Message != "it is ${NAME}" || len(template.Spec.Parameters) != 1 || template.Labels["a"] != "" {
		t.Errorf("got %+v", template)
	}
	want := []string{
		"Foreign: root: its storage class fast is that of the artifact: spec.storage.class can name another one",
		"Foreign: tools: its source is not in the artifact, and must exist in this cluster",
		"Shared: shared: all virtual machines of the template use the imported disk, because the template clones none",
		"Dropped: instancetype: its revision is one of another cluster",
	}
	if diff := cmp.Diff(want, status.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestArtifactKills holds that an import of an artifact converges after a kill at each write, whether its answer arrives or not.
func TestArtifactKills(t *testing.T) {
	t.Parallel()
	registry := artifactstest.NewTLS(t)
	reference, _ := registry.Push(t, "templates/shop:v1", variant("amd64"))
	k := &killed{begin: func(t *testing.T) *cluster { return newShop(t, reference, registry) }, want: shopped, least: 18, once: true}
	k.converges(t)
}

// TestArtifactEnds holds why imports of artifacts fail, and that nothing of them is left.
func TestArtifactEnds(t *testing.T) {
	qcow2 := variant("amd64")
	qcow2.Disks[1].Raw = append([]byte("QFI\xfb\x00\x00\x00\x03"), qcow2.Disks[1].Raw[8:]...)
	missing := variant("amd64")
	missing.Disks = missing.Disks[1:]
	unknown := variant("amd64")
	unknown.Disks = append(unknown.Disks, artifactstest.Disk{Name: "other", Raw: booted(1 << 20)})
	small := variant("amd64")
	small.Disks[0].Raw = booted(511)
	for name, test := range map[string]struct {
		pushed          []artifactstest.Variant
		answer          map[string]http.HandlerFunc
		change          func(*v1beta1.VirtualMachineTemplateImportSpec)
		reason, message string
		platforms       []v1beta1.ImportChoice
	}{
		"several architectures": {
			pushed: []artifactstest.Variant{variant("amd64"), variant("arm64")}, reason: v1beta1.ReasonChoiceRequired, message: "spec.source.oci.platform: the artifact has several architectures: choose one of amd64, arm64",
			platforms: []v1beta1.ImportChoice{{ID: "amd64"}, {ID: "arm64"}},
		},
		"another of several architectures": {
			pushed: []artifactstest.Variant{variant("amd64"), variant("arm64")}, change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.OCI.Platform = "s390x" },
			reason: v1beta1.ReasonChoiceRequired, message: `the artifact has no "s390x"`, platforms: []v1beta1.ImportChoice{{ID: "amd64"}, {ID: "arm64"}},
		},
		"no such architecture": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.OCI.Platform = "s390x" }, reason: v1beta1.ReasonChoiceRequired, message: `the artifact has no "s390x"`,
		},
		"a field of appliances": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.VirtualSystem = "v" }, reason: v1beta1.ReasonInvalidConfiguration, message: "spec.virtualSystem: the artifact is a template",
		},
		"no registry": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.OCI.Reference = "oci://shop:v1" }, reason: v1beta1.ReasonInvalidConfiguration, message: "spec.source.oci.reference: it names no registry",
		},
		"no tag": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.OCI.Reference = "oci://quay.io/shop" }, reason: v1beta1.ReasonInvalidConfiguration, message: "neither a tag nor a digest",
		},
		"a registry that is not permitted": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) {
				s.Source.OCI.Reference = "oci://169.254.169.254/templates/shop:v1"
			}, reason: "SourceNotPermitted", message: "not public",
		},
		"a realm that is not permitted": {
			answer: map[string]http.HandlerFunc{"/v2/": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="https://169.254.169.254/token",service="a"`)
				w.WriteHeader(http.StatusUnauthorized)
			}}, reason: "SourceNotPermitted", message: "permitted",
		},
		"a redirect that is not permitted": {
			answer: map[string]http.HandlerFunc{"/blobs/": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://10.0.0.1/blob", http.StatusTemporaryRedirect)
			}}, reason: "SourceNotPermitted", message: "not public",
		},
		"another manifest": {
			answer: map[string]http.HandlerFunc{"/manifests/sha256:": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), 1000)) }},
			reason: v1beta1.ReasonVerificationFailed, message: "Mismatch",
		},
		"no Secret": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.OCI.SecretRef = "login" }, reason: "CredentialsMissing", message: "spec.source.oci: there is no Secret login",
		},
		"a disk with the header of qcow2": {pushed: []artifactstest.Variant{qcow2}, reason: v1beta1.ReasonNotImportable, message: "spec.source.oci: logs: "},
		"a volume without a disk":         {pushed: []artifactstest.Variant{missing}, reason: v1beta1.ReasonNotImportable, message: "no disk for the volume root"},
		"a disk without a volume":         {pushed: []artifactstest.Variant{unknown}, reason: v1beta1.ReasonNotImportable, message: "the disk other, and its virtual machine has no volume"},
		"a small disk":                    {pushed: []artifactstest.Variant{small}, reason: v1beta1.ReasonNotImportable, message: "the disk root has 511 bytes, and CDI imports at least 512"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := artifactstest.NewTLS(t)
			if test.pushed == nil {
				test.pushed = []artifactstest.Variant{variant("amd64")}
			}
			reference, _ := registry.Push(t, "templates/shop:v1", test.pushed...)
			for part, answer := range test.answer {
				registry.Answer(part, answer)
			}
			c := newShop(t, reference, registry, func(s *v1beta1.VirtualMachineTemplateImportSpec) {
				if test.change != nil {
					test.change(s)
				}
			})
			c.drive(t, unbounded())
			c.plays(t)
			if ended := c.completed(t); ended.Status != metav1.ConditionFalse || ended.Reason != test.reason || !strings.Contains(ended.Message, test.message) {
				t.Errorf("Completed is %+v", ended)
			}
			var offered []v1beta1.ImportChoice
			if choices := c.stored(t).Status.Choices; choices != nil {
				offered = choices.Platforms
			}
			if diff := cmp.Diff(test.platforms, offered); diff != "" {
				t.Errorf("platforms (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"ConfigMap of nothing"}, c.left(t)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestArtifactOfMachine holds the template of a virtual machine in a registry.
func TestArtifactOfMachine(t *testing.T) {
	registry := artifactstest.NewTLS(t)
	reference, _ := registry.Push(t, "machines/db:v1", artifactstest.Variant{
		Object: `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"db"},"spec":{"template":{"spec":{"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"db-root"}}]}}}}`,
		Disks:  []artifactstest.Disk{{Name: "root", Raw: booted(1 << 20)}},
	})
	c := newShop(t, reference, registry)
	c.drive(t, unbounded())
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "quay"}, template))
	if raw := string(template.Spec.VirtualMachine.Raw); !strings.Contains(raw, `"source":{"pvc":{"name":"quay-root","namespace":"catalogue"}}`) || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("%+v: got the template %s", c.completed(t), raw)
	}
}

// TestArtifactVerified holds that all layers are compared before the pod exists.
func TestArtifactVerified(t *testing.T) {
	registry := artifactstest.NewTLS(t)
	reference, _ := registry.Push(t, "templates/shop:v1", variant("amd64"), variant("arm64"))
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		reason string
	}{
		"as pushed": {nil, v1beta1.ReasonReconciled},
		"another":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100)) }, v1beta1.ReasonVerificationFailed},
	} {
		cluster := newShop(t, reference, registry, func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Verify, s.Source.OCI.Platform = v1beta1.ImportVerifyRequire, "arm64"
		})
		cluster.drive(t, unbounded(), func() bool { return cluster.stored(t).Status.Source != nil })
		registry.Answer("/blobs/", c.answer)
		cluster.drive(t, unbounded())
		registry.Answer("/blobs/", nil)
		ended := cluster.completed(t)
		if s := cluster.stored(t).Status.Source; ended.Reason != c.reason || s.Verified != (c.answer == nil) {
			t.Errorf("%s: %+v, %+v", name, ended, s)
		}
	}
}

// TestArtifactSignatures holds that an artifact is signed by one of those whom an admin names, before its manifest and its disks are read.
func TestArtifactSignatures(t *testing.T) {
	key, foreign := sign.NewKey(t), sign.NewKey(t)
	for name, c := range map[string]struct {
		signer          *sign.Key
		broken          bool
		reason, message string
	}{
		"signed":                {signer: &key, reason: v1beta1.ReasonReconciled},
		"not signed":            {reason: v1beta1.ReasonVerificationFailed, message: "has no signature: one by key 1 of "},
		"by another key":        {signer: &foreign, reason: v1beta1.ReasonVerificationFailed, message: "has no valid signature by key 1 of "},
		"signatures are unread": {signer: &key, broken: true, reason: v1beta1.ReasonDeadlineExceeded, message: "it took longer than 1m0s"},
	} {
		registry := artifactstest.NewTLS(t)
		reference, index := registry.Push(t, "templates/shop:v1", variant("amd64"))
		if c.signer != nil {
			sign.Refer(t, registry.Plain+"/templates/shop", index.Content, c.signer.Bundle(t, sign.Statement(index.Content, "https://sigstore.dev/cosign/sign/v1")))
		}
		if c.broken {
			registry.Answer("/referrers/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		}
		cluster := newShop(t, reference, registry)
		rules, err := yaml.Marshal([]signatures.Rule{{Prefix: registry.Host + "/templates", Keys: []string{string(key.PEM(t))}}})
		must(t, err)
		cluster.signatures, err = signatures.ParseRequirements(rules)
		must(t, err)
		registry.Requests()
		if c.broken {
			cluster.drive(t, unbounded(), func() bool {
				return strings.Contains(cluster.completed(t).Message, "the signatures of the artifact cannot be read")
			})
			cluster.clock.SetTime(began.Add(time.Minute))
		}
		cluster.drive(t, unbounded())
		ended := cluster.completed(t)
		if ended.Reason != c.reason || !strings.Contains(ended.Message, c.message) {
			t.Errorf("%s: %+v", name, ended)
		}
		status := cluster.stored(t).Status.Source
		if read := strings.Join(registry.Requests(), "\n"); c.reason != v1beta1.ReasonReconciled && (strings.Contains(read, "/manifests/sha256:") && c.signer != &foreign || status != nil) {
			t.Errorf("%s: it was read: %s, %+v", name, read, status)
		}
		if c.reason == v1beta1.ReasonReconciled && status.Signer != "key 1 of "+registry.Host+"/templates" {
			t.Errorf("%s: %+v", name, status)
		}
	}
}
