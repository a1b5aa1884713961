package templates

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/vmdk"
)

// importServer is the program that the pods of imports run.
const importServer = "virtward-import-server"

// harbour is the descriptor of an appliance with a disk.
const harbour = `<Envelope xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"><References><File ovf:id="f" ovf:href="harbour-disk1.vmdk"/></References>
<DiskSection><Info/><Disk ovf:diskId="d" ovf:fileRef="f" ovf:capacity="3" ovf:capacityAllocationUnits="byte * 2^20" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/></DiskSection>
<NetworkSection><Info/><Network ovf:name="Shore"/></NetworkSection>
<VirtualSystem ovf:id="harbour"><Info/><Name>Harbour Light</Name><OperatingSystemSection ovf:id="96"><Info/></OperatingSystemSection><VirtualHardwareSection><Info/>
<Item><InstanceID>1</InstanceID><ResourceType>3</ResourceType><VirtualQuantity>2</VirtualQuantity></Item>
<Item><AllocationUnits>byte * 2^20</AllocationUnits><InstanceID>2</InstanceID><ResourceType>4</ResourceType><VirtualQuantity>512</VirtualQuantity></Item>
<Item><Address>0</Address><InstanceID>3</InstanceID><ResourceSubType>lsilogic</ResourceSubType><ResourceType>6</ResourceType></Item>
<Item><AddressOnParent>0</AddressOnParent><HostResource>ovf:/disk/d</HostResource><InstanceID>4</InstanceID><Parent>3</Parent><ResourceType>17</ResourceType></Item>
<Item><Connection>Shore</Connection><InstanceID>5</InstanceID><ResourceSubType>VmxNet3</ResourceSubType><ResourceType>10</ResourceType></Item>
</VirtualHardwareSection></VirtualSystem></Envelope>`

// appliance is an OVA with a manifest, and the content of its disk.
func appliance(t *testing.T) (file, content []byte) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	content = make([]byte, 3<<20)
	for i := range 1 << 20 {
		content[i+1<<19] = byte(random.IntN(256)) //nolint:gosec // a byte
	}
	var disk, out bytes.Buffer
	must(t, vmdk.Write(&disk, bytes.NewReader(content), int64(len(content)), "harbour-disk1.vmdk"))
	manifest := fmt.Sprintf("SHA256(harbour.ovf)= %x\nSHA256(harbour-disk1.vmdk)= %x\n", sha256.Sum256([]byte(harbour)), sha256.Sum256(disk.Bytes()))
	w := tar.NewWriter(&out)
	for _, f := range [][2]string{{"harbour.ovf", harbour}, {"harbour.mf", manifest}, {"harbour-disk1.vmdk", disk.String()}} {
		must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o600, Typeflag: tar.TypeReg, Size: int64(len(f[1]))}))
		_, err := io.WriteString(w, f[1])
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes(), content
}

// TestImportProcess imports an appliance with the chart's Deployment: its process, with the rights of its account, and the real program
// of the pod. What runs pods and CDI's importers is simulated.
func TestImportProcess(t *testing.T) {
	program, err := filepath.Abs(filepath.Join("..", "..", "bin", importServer))
	must(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Skipf("bin/%s is not built: run make build", importServer)
	}
	f := newFixture(t)
	_, err = f.InstallVirtward(t.Context(), map[string]any{"templates": map[string]any{
		"mode": "manage", "imports": map[string]any{"enabled": true, "sources": map[string]any{"networks": []any{"127.0.0.0/8"}}},
	}}, controlplane.Workload{})
	must(t, err)
	for _, deployment := range []string{controlplane.VirtwardTemplates, controlplane.VirtwardImports} {
		controller, err := f.RunVirtward(t.Context(), controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: deployment})
		must(t, err)
		t.Cleanup(func() {
			if log, err := os.ReadFile(controller.Log()); err == nil && t.Failed() {
				t.Logf("%s:\n%s", deployment, log)
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	appliances := simulators.StartAppliances(ctx, f.ControlPlane, program, t.TempDir())
	f.cdi.Follow(appliances.Verdict)
	file, content := appliance(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"harbour-1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(web.Close)
	i := &importing{fixture: f, appliances: appliances, url: web.URL + "/harbour.ova", file: file, content: content}
	t.Run("users", i.users)
	t.Run("definition", i.definition)
	t.Run("import", i.imports)
	t.Run("artifact", i.artifact)
	t.Run("claim", i.claim)
	t.Run("staged", i.staged)
	t.Run("pushed", i.pushed)
	t.Run("account", i.account)
}

// importing has an appliance on a web server.
type importing struct {
	*fixture

	appliances *simulators.Appliances
	url        string
	file       []byte
	content    []byte
}

// of is an import of the appliance.
func (i *importing) of(name string, change ...func(*v1beta1.VirtualMachineTemplateImportSpec)) *v1beta1.VirtualMachineTemplateImport {
	made := &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: name}}
	made.Spec.Source.HTTP = &v1beta1.ImportHTTP{URL: i.url}
	for _, c := range change {
		c(&made.Spec)
	}
	return made
}

// user is a client of a user with rules in the namespace of templates.
func (i *importing) user(t *testing.T, name string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: name}, Rules: rules}
	must(t, i.Client().Create(t.Context(), role))
	must(t, i.Client().Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}))
	config, err := i.UserConfig(name)
	must(t, err)
	direct, err := client.New(config, client.Options{Scheme: i.Client().Scheme()})
	must(t, err)
	return direct
}

func allow(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

// users: an author needs the rights of what is done for them.
func (i *importing) users(t *testing.T) {
	create := allow("create", "template.kubevirt.io", "virtualmachinetemplateimports")
	volumes, made := allow("create", "cdi.kubevirt.io", "datavolumes"), allow("create", "template.kubevirt.io", "virtualmachinetemplates")
	secret, authority := allow("get", "", "secrets", "login"), allow("get", "", "configmaps", "authority")
	claim := func(s *v1beta1.VirtualMachineTemplateImportSpec) {
		s.Source = v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: "upload"}}
	}
	named := func(s *v1beta1.VirtualMachineTemplateImportSpec) {
		s.Source.HTTP.SecretRef, s.Source.HTTP.CertConfigMap = "login", "authority"
	}
	for name, c := range map[string]struct {
		rules  []rbacv1.PolicyRule
		change []func(*v1beta1.VirtualMachineTemplateImportSpec)
		denied string
	}{
		"author":            {rules: []rbacv1.PolicyRule{volumes, made}},
		"without-volumes":   {rules: []rbacv1.PolicyRule{made}, denied: "template-import-datavolumes: metadata.namespace: this appliance is imported for you: you need create on datavolumes.cdi.kubevirt.io in the namespace catalogue"},
		"without-templates": {rules: []rbacv1.PolicyRule{volumes}, denied: "template-import-templates: "},
		"with-secret":       {rules: []rbacv1.PolicyRule{volumes, made, secret, authority}, change: []func(*v1beta1.VirtualMachineTemplateImportSpec){named}},
		"without-secret":    {rules: []rbacv1.PolicyRule{volumes, made, authority}, change: []func(*v1beta1.VirtualMachineTemplateImportSpec){named}, denied: "template-import-secret: spec.source.http.secretRef: this Secret is read for you: you need get on the secret login"},
		"with-claim":        {rules: []rbacv1.PolicyRule{volumes, made, allow("get", "", "persistentvolumeclaims", "upload")}, change: []func(*v1beta1.VirtualMachineTemplateImportSpec){claim}},
		"without-claim":     {rules: []rbacv1.PolicyRule{volumes, made, allow("get", "", "persistentvolumeclaims", "other")}, change: []func(*v1beta1.VirtualMachineTemplateImportSpec){claim}, denied: "template-import-claim: spec.source.pvc.name: this PersistentVolumeClaim is read for you: you need get on the persistentvolumeclaim upload in the namespace catalogue"},
		"without-authority": {rules: []rbacv1.PolicyRule{volumes, made, secret}, change: []func(*v1beta1.VirtualMachineTemplateImportSpec){named}, denied: "template-import-authorities: "},
	} {
		user := i.user(t, name, append(c.rules, create)...)
		err := user.Create(t.Context(), i.of(name, c.change...), client.DryRunAll)
		if c.denied == "" && err != nil || c.denied != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.denied)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// definition: what is not built is rejected, and nothing is changed afterwards.
func (i *importing) definition(t *testing.T) {
	for want, change := range map[string]func(*v1beta1.VirtualMachineTemplateImportSpec){
		"set exactly one of http, upload, pvc and oci": func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.HTTP = nil },
		"upload: this version of Virtward imports from http, oci and pvc": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source = v1beta1.ImportSource{Upload: &v1beta1.ImportUpload{}}
		},
		"spec.source.pvc.name in body should match": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source = v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: "../a"}}
		},
		"spec.source.pvc.path: Invalid value: \"/disk.img\": must be the path of a file in the claim, without . and ..": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source = v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: "a", Path: "/disk.img"}}
		},
		"spec.source.pvc.path: Invalid value: \"a/../../b\": must be the path": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source = v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: "a", Path: "a/../../b"}}
		},
		"must be oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source = v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: "oci://user@registry.example.com/a:1"}}
		},
		"checksum: name the digest of an artifact in source.oci.reference": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source = v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: "oci://registry.example.com/a:1"}}
			s.Checksum = "sha256:" + strings.Repeat("0", 64)
		},
		"spec.source.oci.platform in body should match": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source = v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: "oci://registry.example.com/a:1", Platform: "../arm64"}}
		},
		"staging: only a file of source.http, and an OVA of source.oci, are copied into a volume": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source = v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: "a"}}
			s.Staging = &v1beta1.ImportStaging{Size: resource.MustParse("1Gi")}
		},
		"must be from 1Mi to 16Ti": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Staging = &v1beta1.ImportStaging{Size: resource.MustParse("1Ki")}
		},
		"must be a URL with the scheme http or https": func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source.HTTP.URL = "https://user:password@example.com/a.ova"
		},
		"spec.checksum in body should match":                         func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Checksum = "md5:00" },
		`Unsupported value: "Maybe"`:                                 func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Verify = "Maybe" },
		"spec.templateName: Too long: may not be more than 50 bytes": func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.TemplateName = strings.Repeat("a", 51) },
	} {
		err := i.Client().Create(t.Context(), i.of("invalid", change), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

// imports: from the appliance to a virtual machine, with the bytes of the disk.
func (i *importing) imports(t *testing.T) {
	preference := &instancetypev1beta1.VirtualMachineClusterPreference{ObjectMeta: metav1.ObjectMeta{Name: "debian"}}
	must(t, i.Client().Create(t.Context(), preference))
	made := i.of("harbour", func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Verify = v1beta1.ImportVerifyRequire })
	must(t, i.Client().Create(t.Context(), made))
	await.Until(t, func() error {
		must(t, i.Client().Get(t.Context(), client.ObjectKeyFromObject(made), made))
		c := meta.FindStatusCondition(made.Status.Conditions, v1beta1.RequestReady)
		if c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("the import is %+v; faults of the simulation: %q", made.Status, i.appliances.Faults())
		}
		return nil
	})
	if s := made.Status; !s.Source.Verified || s.Progress != "100%" || len(s.Disks) != 1 || s.Disks[0].Name != "harbour-disk-1" {
		t.Errorf("got the status %+v", s)
	}
	i.compare(t, i.appliances.Disk("harbour-disk-1"))
	i.approved(t, "harbour", fmt.Sprintf("%s, digest sha256:%x, verified before the import", i.url, sha256.Sum256(i.file)))
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, i.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: made.Status.TemplateRef.Name}, template))
	rendered, findings := templates.Render(&template.Spec, nil, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
	if len(findings) > 0 {
		t.Fatalf("findings: %v", findings)
	}
	vm := rendered.VirtualMachine
	vm.Namespace = catalogue
	must(t, i.Client().Create(t.Context(), vm))
	if source := vm.Spec.DataVolumeTemplates[0].Spec.Source.PVC; source == nil || source.Name != "harbour-disk-1" || source.Namespace != catalogue {
		t.Errorf("the virtual machine clones %+v", source)
	}
	volume := &cdiv1beta1.DataVolume{}
	must(t, i.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "harbour-disk-1"}, volume))
	if owner := metav1.GetControllerOf(volume); owner == nil || owner.UID != template.UID {
		t.Errorf("the disk belongs to %+v", owner)
	}
	await.Until(t, func() error { // the garbage collector
		left := 0
		for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}} {
			must(t, i.Client().List(t.Context(), list, client.InNamespace(catalogue), client.HasLabels{v1beta1.LabelImportUID}))
			left += meta.LenList(list)
		}
		if left > 0 {
			return fmt.Errorf("%d objects of the import are left", left)
		}
		return nil
	})
	must(t, i.Client().Delete(t.Context(), made))
	i.gone(t, made)
	must(t, i.Client().Get(t.Context(), client.ObjectKeyFromObject(template), template))
}

// approved holds that the review and the approval of a template name the source that was read.
func (i *importing) approved(t *testing.T, name, from string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), i.Binary("kubectl-virtward"), "template", "approve", name, "-n", catalogue, "--yes")
	command.Env = []string{"KUBECONFIG=" + i.Kubeconfig(), "HOME=" + t.TempDir()}
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &errs)
	}
	if !strings.Contains(out.String(), "Source:   "+from+"; imported by "+name+"\n") || !strings.Contains(errs.String(), "approved the template catalogue/"+name+" from "+from+"\n") {
		t.Errorf("want %s; got:\n%s%s", from, &out, &errs)
	}
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, i.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: name}, template))
	if a := template.Status.Approval; a == nil || a.Source == nil || templates.SourceText(a.Source) != from || !meta.IsStatusConditionTrue(template.Status.Conditions, v1beta1.TemplateApproved) {
		t.Errorf("got the status %+v", template.Status)
	}
}

// shop is a template of a registry whose virtual machines clone a disk.
const shop = `{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","metadata":{"name":"shop"},"spec":{"parameters":[{"name":"NAME","required":true}],` +
	`"virtualMachine":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"${NAME}"},"spec":{"runStrategy":"Halted",` +
	`"dataVolumeTemplates":[{"metadata":{"name":"${NAME}-root"},"spec":{"source":{"pvc":{"name":"gold","namespace":"elsewhere"}},"storage":{"resources":{"requests":{"storage":"3Mi"}}}}}],` +
	`"template":{"spec":{"architecture":"ARCHITECTURE","domain":{"devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}}]},"memory":{"guest":"64Mi"}},` +
	`"volumes":[{"name":"root","dataVolume":{"name":"${NAME}-root"}}]}}}}}}`

// artifact: from a registry with TLS and a password to a template that is ready, with the bytes of the disk.
func (i *importing) artifact(t *testing.T) {
	registry := artifactstest.NewTLS(t)
	registry.User, registry.Password = "reader", "s3cret"
	variant := func(architecture string) artifactstest.Variant {
		return artifactstest.Variant{Object: strings.Replace(shop, "ARCHITECTURE", architecture, 1), Disks: []artifactstest.Disk{{Name: "root", Raw: i.content}}}
	}
	reference, index := registry.Push(t, "templates/shop:v1", variant("amd64"), variant("arm64"))
	registry.BreakAfter.Store(400_000)
	named := metav1.ObjectMeta{Namespace: catalogue, Name: "registry"}
	must(t, i.Client().Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"ca.crt": string(registry.Authority)}}))
	must(t, i.Client().Create(t.Context(), &corev1.Secret{ObjectMeta: named, StringData: map[string]string{"accessKeyId": registry.User, "secretKey": registry.Password}}))
	must(t, i.Client().Create(t.Context(), &rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{allow("get", "", "secrets", "registry"), allow("get", "", "configmaps", "registry")}}))
	must(t, i.Client().Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "registry"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardImports}},
	}))
	made := i.of("shop", func(s *v1beta1.VirtualMachineTemplateImportSpec) {
		s.Verify = v1beta1.ImportVerifyRequire
		s.Source = v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: reference, Platform: "arm64", SecretRef: "registry", CertConfigMap: "registry"}}
	})
	must(t, i.Client().Create(t.Context(), made))
	await.Until(t, func() error {
		must(t, i.Client().Get(t.Context(), client.ObjectKeyFromObject(made), made))
		c := meta.FindStatusCondition(made.Status.Conditions, v1beta1.RequestReady)
		if c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("the import is %+v; faults of the simulation: %q", made.Status, i.appliances.Faults())
		}
		return nil
	})
	if s := made.Status; !s.Source.Verified || s.Source.Digest != index.Digest.String() || len(s.Disks) != 1 || s.Disks[0].Name != "shop-root" || s.Disks[0].Size != int64(len(i.content)) {
		t.Errorf("got the status %+v, %+v", s, s.Source)
	}
	i.approved(t, "shop", reference+"@"+index.Digest.String()+", verified before the import")
	if !bytes.Equal(i.appliances.Disk("shop-root"), i.content) {
		t.Errorf("the disk has other bytes: %d", len(i.appliances.Disk("shop-root")))
	}
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, i.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "shop"}, template))
	rendered, findings := templates.Render(&template.Spec, map[string]string{"NAME": "till"}, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
	if len(findings) > 0 {
		t.Fatalf("findings: %v", findings)
	}
	if source := rendered.VirtualMachine.Spec.DataVolumeTemplates[0].Spec.Source.PVC; source == nil || source.Name != "shop-root" || source.Namespace != catalogue || rendered.VirtualMachine.Spec.Template.Spec.Architecture != "arm64" {
		t.Errorf("the virtual machine clones %+v", source)
	}
}

// claim: from an OVA that CDI wrote into a claim, with zeros behind it, to a template that is ready, with the bytes of the disk. The
// account mounts the claim only after the namespace permits it.
func (i *importing) claim(t *testing.T) {
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256(i.file))
	for name, c := range map[string]struct {
		mode corev1.PersistentVolumeMode
		file string
		path string
	}{
		"files":  {corev1.PersistentVolumeFilesystem, "disk.img", ""},
		"named":  {corev1.PersistentVolumeFilesystem, "harbour.tar", "harbour.tar"},
		"device": {corev1.PersistentVolumeBlock, "device", ""},
	} {
		t.Run(name, func(t *testing.T) {
			named := metav1.ObjectMeta{Namespace: catalogue, Name: "upload-" + name}
			folder := t.TempDir()
			must(t, os.WriteFile(filepath.Join(folder, c.file), append(bytes.Clone(i.file), make([]byte, 3<<20)...), 0o600))
			i.appliances.Claim(client.ObjectKey{Namespace: catalogue, Name: named.Name}, folder)
			must(t, i.Client().Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: named, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &c.mode,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}}))
			made := i.of("claim-"+name, func(s *v1beta1.VirtualMachineTemplateImportSpec) {
				s.Source = v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: named.Name, Path: c.path}}
				s.Verify, s.Checksum = v1beta1.ImportVerifyRequire, sum
			})
			if name == "files" {
				i.forbidden(t, made.DeepCopy())
			}
			must(t, i.Client().Create(t.Context(), &rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{allow("get", "", "persistentvolumeclaims", named.Name)}}))
			must(t, i.Client().Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardImports}},
			}))
			must(t, i.Client().Create(t.Context(), made))
			await.Until(t, func() error {
				must(t, i.Client().Get(t.Context(), client.ObjectKeyFromObject(made), made))
				c := meta.FindStatusCondition(made.Status.Conditions, v1beta1.RequestReady)
				if c == nil || c.Status != metav1.ConditionTrue {
					return fmt.Errorf("the import is %+v; faults of the simulation: %q", made.Status, i.appliances.Faults())
				}
				return nil
			})
			if s := made.Status; !s.Source.Verified || s.Source.Validator == "" || len(s.Disks) != 1 || s.Disks[0].Name != "claim-"+name+"-disk-1" || len(s.Disks[0].Digests) != 1 {
				t.Errorf("got the status %+v", s)
			}
			i.compare(t, i.appliances.Disk("claim-"+name+"-disk-1"))
		})
	}
}

// forbidden: without a Role of the namespace, an import from a claim fails, and the account creates no pod with it.
func (i *importing) forbidden(t *testing.T, of *v1beta1.VirtualMachineTemplateImport) {
	t.Helper()
	of.Name = "forbidden"
	must(t, i.Client().Create(t.Context(), of))
	await.Until(t, func() error {
		must(t, i.Client().Get(t.Context(), client.ObjectKeyFromObject(of), of))
		c := meta.FindStatusCondition(of.Status.Conditions, v1beta1.RequestCompleted)
		if c == nil || c.Reason != v1beta1.ReasonCredentialsForbidden || !strings.HasPrefix(c.Message, "spec.source.pvc.name: Virtward may not mount the PersistentVolumeClaim: ") {
			return fmt.Errorf("the import is %+v", of.Status)
		}
		return nil
	})
}

// staged: from a web server that sends no parts of a file, and of a compressed file, to a template that is ready, with the bytes of the disk.
func (i *importing) staged(t *testing.T) {
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	_, err := z.Write(i.file)
	must(t, errors.Join(err, z.Close()))
	for name, file := range map[string][]byte{"whole": i.file, "gzip": compressed.Bytes()} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if user, password, _ := r.BasicAuth(); user != "reader" || password != "s3cret" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(file)))
				_, _ = w.Write(file)
			}))
			t.Cleanup(web.Close)
			named := metav1.ObjectMeta{Namespace: catalogue, Name: "staged-" + name}
			must(t, i.Client().Create(t.Context(), &corev1.Secret{ObjectMeta: named, StringData: map[string]string{"accessKeyId": "reader", "secretKey": "s3cret"}}))
			must(t, i.Client().Create(t.Context(), &rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{allow("get", "", "secrets", named.Name)}}))
			must(t, i.Client().Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardImports}},
			}))
			made := i.of(named.Name, func(s *v1beta1.VirtualMachineTemplateImportSpec) {
				s.Source.HTTP.URL, s.Source.HTTP.SecretRef = web.URL+"/harbour.ova", named.Name
				s.Verify, s.Checksum = v1beta1.ImportVerifyRequire, fmt.Sprintf("sha256:%x", sha256.Sum256(file))
				s.Staging = &v1beta1.ImportStaging{Size: resource.MustParse("8Mi")}
			})
			must(t, i.Client().Create(t.Context(), made))
			await.Until(t, func() error {
				must(t, i.Client().Get(t.Context(), client.ObjectKeyFromObject(made), made))
				if !meta.IsStatusConditionTrue(made.Status.Conditions, v1beta1.RequestCompleted) {
					return fmt.Errorf("the import is %+v; faults of the simulation: %q", made.Status, i.appliances.Faults())
				}
				return nil
			})
			if s := made.Status; !s.Source.Verified || s.Source.Size != int64(len(i.file)) || s.Staging == nil || !s.Staging.Complete || len(s.Disks) != 1 || len(s.Disks[0].Digests) != 1 {
				t.Errorf("got the status %+v", s)
			}
			i.compare(t, i.appliances.Disk(named.Name+"-disk-1"))
			if err := i.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: made.Status.Staging.Name}, &cdiv1beta1.DataVolume{}); !apierrors.IsNotFound(err) {
				t.Errorf("the copy is left: %v", err)
			}
		})
	}
}

// pushed: from an OVA that is a layer in a registry to a template that is ready, with the bytes of the disk. The registry needs ranges.
func (i *importing) pushed(t *testing.T) {
	registry := artifactstest.NewTLS(t)
	reference, manifest := registry.PushOVA(t, "appliances/harbour:v1", "harbour.ova", i.file)
	registry.BreakAfter.Store(400_000)
	named := metav1.ObjectMeta{Namespace: catalogue, Name: "registry-of-appliances"}
	must(t, i.Client().Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"ca.crt": string(registry.Authority)}}))
	must(t, i.Client().Create(t.Context(), &rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{allow("get", "", "configmaps", named.Name)}}))
	must(t, i.Client().Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardImports}},
	}))
	from := func(s *v1beta1.VirtualMachineTemplateImportSpec) {
		s.Source = v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: reference, CertConfigMap: named.Name}}
		s.NetworkMappings = []v1beta1.NetworkMapping{{Source: "Shore", Target: "lab/shore"}}
	}
	made := i.of("pushed", from)
	must(t, i.Client().Create(t.Context(), made))
	await.Until(t, func() error {
		must(t, i.Client().Get(t.Context(), client.ObjectKeyFromObject(made), made))
		if !meta.IsStatusConditionTrue(made.Status.Conditions, v1beta1.RequestCompleted) {
			return fmt.Errorf("the import is %+v; faults of the simulation: %q", made.Status, i.appliances.Faults())
		}
		return nil
	})
	if s := made.Status; !s.Source.Verified || s.Source.File != "harbour.ova" || s.Source.Digest != manifest.Digest.String() || len(s.Disks) != 1 || len(s.Disks[0].Digests) != 1 {
		t.Errorf("got the status %+v, %+v", s, s.Source)
	}
	i.compare(t, i.appliances.Disk("pushed-disk-1"))
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, i.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "pushed"}, template))
	if raw := string(template.Spec.VirtualMachine.Raw); !strings.Contains(raw, `"networkName":"lab/shore"`) {
		t.Errorf("got the template %s", raw)
	}
	registry.NoRanges.Store(true)
	denied := i.of("denied", from)
	must(t, i.Client().Create(t.Context(), denied))
	await.Until(t, func() error {
		must(t, i.Client().Get(t.Context(), client.ObjectKeyFromObject(denied), denied))
		if c := meta.FindStatusCondition(denied.Status.Conditions, v1beta1.RequestCompleted); c == nil || c.Reason != "SourceWithoutRanges" || c.Message != "spec.source.oci: the registry does not send ranges of blobs: set spec.staging.size, and Virtward copies it into a volume first" {
			return fmt.Errorf("without ranges, the import is %+v", denied.Status.Conditions)
		}
		return nil
	})
}

// compare holds that what CDI read is the disk, with qemu-img where it is installed.
func (i *importing) compare(t *testing.T, file []byte) {
	t.Helper()
	image, err := vmdk.Inspect(bytes.NewReader(file), int64(len(file)))
	must(t, err)
	decoded := make([]byte, image.Size)
	must(t, image.VMDK.Walk(func(offset int64, content []byte) error {
		copy(decoded[offset:], content)
		return nil
	}))
	if !bytes.Equal(decoded, i.content) {
		t.Error("the disk has other bytes")
	}
	qemu, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Log("qemu-img is not installed: only Virtward's own reader compared the disk")
		return
	}
	from, to := filepath.Join(t.TempDir(), "a.vmdk"), filepath.Join(t.TempDir(), "a.raw")
	must(t, os.WriteFile(from, file, 0o600))
	if out, err := exec.CommandContext(t.Context(), qemu, "convert", "-f", "vmdk", "-O", "raw", from, to).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v\n%s", err, out)
	}
	converted, err := os.ReadFile(to)
	must(t, err)
	if !bytes.Equal(converted, i.content) {
		t.Error("qemu-img reads other bytes")
	}
}

// account: the account of the process creates nothing but the objects of imports.
func (i *importing) account(t *testing.T) {
	config, err := i.ServiceAccountConfig(t.Context(), controlplane.VirtwardNamespace, controlplane.VirtwardImports)
	must(t, err)
	stolen, err := client.New(config, client.Options{Scheme: i.Client().Scheme()})
	must(t, err)
	of := i.of("stolen", func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.HTTP.SecretRef = "login" })
	of.UID = "a-b"
	image := i.image(t)
	must(t, i.Client().Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "admin"}}))
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		made := imports.Pod(of, &servers.Program{Image: image}, "0123", nil)
		for _, c := range change {
			c(made)
		}
		return made
	}
	volume := func(change func(*cdiv1beta1.DataVolume)) *cdiv1beta1.DataVolume {
		made := imports.DataVolume(of, 0, &v1beta1.ImportDisk{Name: "stolen", Size: 1}, "0123")
		change(made)
		return made
	}
	if err := stolen.Create(t.Context(), pod(), client.DryRunAll); err != nil {
		t.Errorf("the pod of an import: %v", err)
	}
	if err := stolen.Create(t.Context(), volume(func(*cdiv1beta1.DataVolume) {}), client.DryRunAll); err != nil {
		t.Errorf("the DataVolume of an import: %v", err)
	}
	must(t, i.Client().Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "permitted"}, Rules: []rbacv1.PolicyRule{allow("get", "", "persistentvolumeclaims", "permitted")}}))
	must(t, i.Client().Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "permitted"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "permitted"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardImports}},
	}))
	claiming := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		made := imports.Pod(i.of("stolen"), &servers.Program{Image: image}, "0123", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
		made.OwnerReferences, made.Labels, made.Name = pod().OwnerReferences, pod().Labels, pod().Name
		for _, c := range change {
			c(made)
		}
		return made
	}
	if err := stolen.Create(t.Context(), claiming("permitted"), client.DryRunAll); err != nil {
		t.Errorf("the pod of an import from a claim: %v", err)
	}
	staging := of.DeepCopy()
	staging.Spec.Staging = &v1beta1.ImportStaging{Size: resource.MustParse("1Gi")}
	copying := func(change ...func(*corev1.Pod)) *corev1.Pod {
		made := imports.Pod(staging, &servers.Program{Image: image}, imports.StagerSuffix("0123"), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: imports.CopyName(staging)}})
		for _, c := range change {
			c(made)
		}
		return made
	}
	for name, object := range map[string]client.Object{"the pod that copies": copying(), "the volume of a copy": imports.Copy(staging)} {
		if err := stolen.Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	blank := func(name string) *cdiv1beta1.DataVolume {
		made := imports.Copy(staging)
		made.Name = name
		return made
	}
	for name, object := range map[string]client.Object{
		"an empty volume with another name": blank("data"),
		"a copy with an account":            copying(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "admin" }),
		"a copy into another claim":         copying(func(p *corev1.Pod) { p.Spec.Volumes[2].PersistentVolumeClaim.ClaimName = "permitted" }),
		"a copy of another import": copying(func(p *corev1.Pod) {
			p.Spec.Volumes[2].PersistentVolumeClaim.ClaimName = imports.Servers.Prefix + "0123456789"
		}),
		"a claim that no namespace permits":           claiming("data"),
		"a claim of another namespace with this name": claiming("permitted", func(p *corev1.Pod) { p.Namespace = machines }),
		"a claim that it could write": claiming("permitted", func(p *corev1.Pod) {
			p.Spec.Volumes[1].PersistentVolumeClaim.ReadOnly = false
		}),
		"several claims": claiming("permitted", func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, *p.Spec.Volumes[1].DeepCopy())
			p.Spec.Volumes[2].Name, p.Spec.Volumes[2].PersistentVolumeClaim.ClaimName = "second", "data"
		}),
		"another image": pod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.com/other" }),
		"another container": pod(func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
			p.Spec.Containers[1].Name = "b"
		}),
		"an init container":  pod(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "b", Image: image}} }),
		"a command":          pod(func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sh"} }),
		"other arguments":    pod(func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"--plan=/tmp/plan"} }),
		"an account":         pod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "admin" }),
		"a token":            pod(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) }),
		"the host's network": pod(func(p *corev1.Pod) { p.Spec.HostNetwork = true; p.Spec.Containers[0].Ports = nil }),
		"root":               pod(func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = new(false) }),
		"a node":             pod(func(p *corev1.Pod) { p.Spec.NodeName = "control-plane" }),
		"a path of the host": pod(func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}),
		"all keys of a Secret": pod(func(p *corev1.Pod) { p.Spec.Volumes[1].Secret.Items = nil }),
		"another Secret":       pod(func(p *corev1.Pod) { p.Spec.Volumes[0].Secret.SecretName = "login" }),
		"no owner":             pod(func(p *corev1.Pod) { p.OwnerReferences = nil }),
		"another name":         pod(func(p *corev1.Pod) { p.Name = "web" }),
		"kube-system":          pod(func(p *corev1.Pod) { p.Namespace = metav1.NamespaceSystem }),
		"another source":       volume(func(v *cdiv1beta1.DataVolume) { v.Spec.Source.HTTP.URL = "https://example.com/a" }),
		"a clone": volume(func(v *cdiv1beta1.DataVolume) {
			v.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: machines, Name: "a"}}
		}),
		"a Secret":    &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "a"}},
		"a ConfigMap": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "a"}},
	} {
		err := stolen.Create(t.Context(), object, client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "template-import-") {
			t.Errorf("%s: %v", name, err)
		}
	}
	i.pods(t, stolen, image)
	if err := stolen.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "login"}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("it reads Secrets: %v", err)
	}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "others"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	must(t, i.Client().Create(t.Context(), other))
	if err := stolen.Delete(t.Context(), other); !apierrors.IsForbidden(err) {
		t.Errorf("it deletes pods of others: %v", err)
	}
}

// pods: users of the namespace can neither replace the server of an import nor what it runs.
func (i *importing) pods(t *testing.T, account client.Client, image string) {
	t.Helper()
	ended := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer silent.Close()
	defer close(ended)
	of := i.of("waiting", func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.HTTP.URL = silent.URL + "/a.ova" })
	must(t, i.Client().Create(t.Context(), of)) // the controller does not create its pod before the server answers
	defer func() { must(t, i.Client().Delete(t.Context(), of)) }()
	server := imports.Pod(of, &servers.Program{Image: image}, "0123", nil)
	user := i.user(t, "operator", rbacv1.PolicyRule{Verbs: []string{"create", "update", "patch", "get"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/ephemeralcontainers", "pods/exec"}})
	must(t, account.Create(t.Context(), server.DeepCopy()))
	stored := &corev1.Pod{}
	must(t, user.Get(t.Context(), client.ObjectKeyFromObject(server), stored))
	patched := func(change func(*corev1.Pod)) error {
		after := stored.DeepCopy()
		change(after)
		return user.Patch(t.Context(), after, client.MergeFrom(stored), client.DryRunAll)
	}
	if err := patched(func(p *corev1.Pod) { p.Labels["team"] = "a" }); err != nil {
		t.Errorf("a label of the server: %v", err)
	}
	forged := server.DeepCopy()
	forged.Name = imports.Servers.Prefix + "0123456789"
	generated := server.DeepCopy()
	generated.Name, generated.GenerateName = "", imports.Servers.Prefix
	for name, err := range map[string]error{
		"another image":    patched(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.com/other" }),
		"another server":   user.Create(t.Context(), forged, client.DryRunAll),
		"a generated name": user.Create(t.Context(), generated, client.DryRunAll),
		"a container to debug it": user.SubResource("ephemeralcontainers").Patch(t.Context(), stored.DeepCopy(),
			client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"ephemeralContainers":[{"name":"a","image":"a"}]}}`))),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "template-import-") {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "import"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	for _, named := range []metav1.ObjectMeta{{Name: "import"}, {GenerateName: "import-"}} {
		named.Namespace = catalogue
		other.ObjectMeta = named
		if err := user.Create(t.Context(), other, client.DryRunAll); err != nil {
			t.Errorf("another pod, %s%s: %v", named.Name, named.GenerateName, err)
		}
	}
}

// image is that of the server in the Deployment.
func (i *importing) image(t *testing.T) string {
	t.Helper()
	deployment := &appsv1.Deployment{}
	must(t, i.Client().Get(t.Context(), client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardImports}, deployment))
	for _, flag := range deployment.Spec.Template.Spec.Containers[0].Args {
		if image, is := strings.CutPrefix(flag, "--server-image="); is {
			return image
		}
	}
	t.Fatal("the Deployment has no --server-image")
	return ""
}
