package exports

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/ovf/servers"
)

func sample(namespaces ...string) *v1beta1.VirtualMachineTemplateExport {
	of := &v1beta1.VirtualMachineTemplateExport{ObjectMeta: metav1.ObjectMeta{Namespace: "templates", Name: "mill", UID: "1"}}
	of.Spec.TemplateRef.Name, of.Spec.SourceNamespaces = "mill", namespaces
	return of
}

// templateOf is a template with a volume of a DataVolume template.
func templateOf(spec string) *v1beta1.VirtualMachineTemplate {
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "templates", Name: "mill"}}
	template.Spec.VirtualMachine = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"dataVolumeTemplates":[{"metadata":{"name":"${NAME}-a"},"spec":%s}],
"template":{"spec":{"domain":{"devices":{}},"volumes":[{"name":"a","dataVolume":{"name":"${NAME}-a"}},{"name":"script","cloudInitNoCloud":{"userData":"password: x"}}]}}}}`, spec)}
	template.Spec.Parameters = []v1beta1.Parameter{{Name: "NAME", Required: true}, {Name: "FROM", Value: "wheel"}, {Name: "OF", Required: true}}
	return template
}

// TestEvaluate holds where the content of volumes is, and why it cannot be exported.
func TestEvaluate(t *testing.T) {
	for name, c := range map[string]struct {
		spec       string
		namespaces []string
		want       string
	}{
		"a claim":                    {spec: `{"source":{"pvc":{"namespace":"templates","name":"wheel"}}}`, want: "PersistentVolumeClaim templates/wheel"},
		"a claim of the namespace":   {spec: `{"source":{"pvc":{"name":"wheel"}}}`, want: "PersistentVolumeClaim templates/wheel"},
		"a default of a parameter":   {spec: `{"source":{"pvc":{"name":"${FROM}-1"}}}`, want: "PersistentVolumeClaim templates/wheel-1"},
		"a snapshot elsewhere":       {spec: `{"source":{"snapshot":{"namespace":"images","name":"s"}}}`, namespaces: []string{"images"}, want: "VolumeSnapshot images/s"},
		"a DataSource":               {spec: `{"sourceRef":{"kind":"DataSource","name":"debian"}}`, want: "DataSource templates/debian"},
		"a namespace without a name": {spec: `{"source":{"pvc":{"namespace":"images","name":"a"}}}`, want: "SourceNotPermitted: the volume a is cloned from the PersistentVolumeClaim images/a: create an export with images in spec.sourceNamespaces"},
		"a parameter without a value": {
			spec: `{"source":{"pvc":{"name":"${OF}"}}}`,
			want: "NotExportable: spec.virtualMachine.spec.dataVolumeTemplates[0].spec: the content of the volume a depends on the parameter OF, which has no value in the template",
		},
		"a namespace of a parameter": {spec: `{"source":{"pvc":{"namespace":"${OF}","name":"a"}}}`, want: "NotExportable: "},
		"no name":                    {spec: `{"source":{"pvc":{"namespace":"templates"}}}`, want: `NotExportable: spec.virtualMachine.spec.dataVolumeTemplates[0].spec: the content of the volume a: "" is not a name: `},
		"a long name":                {spec: `{"source":{"pvc":{"name":"` + strings.Repeat("a", 254) + `"}}}`, want: "NotExportable: "},
		"a namespace that is none":   {spec: `{"source":{"pvc":{"namespace":"a/b","name":"a"}}}`, want: `NotExportable: spec.virtualMachine.spec.dataVolumeTemplates[0].spec: the content of the volume a: "a/b" is not a name: `},
		"a URL":                      {spec: `{"source":{"http":{"url":"https://example.com/a"}}}`, want: "NotExportable: spec.virtualMachine.spec.dataVolumeTemplates[0].spec.source.http: the content is not in the cluster"},
		"no source":                  {spec: `{}`, want: "NotExportable: spec.virtualMachine.spec.dataVolumeTemplates[0].spec: it has no source"},
		"another kind":               {spec: `{"sourceRef":{"kind":"Image","name":"debian"}}`, want: "NotExportable: "},
		"a blank disk":               {spec: `{"source":{"blank":{}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := Evaluate(sample(c.namespaces...), templateOf(c.spec))
			var got []string
			for _, v := range o.Volumes {
				got = append(got, v.Source.Kind+" "+v.Source.Namespace+"/"+v.Source.Name)
			}
			text := strings.Join(got, ", ")
			if o.Fault != nil {
				text = o.Fault.Reason + ": " + o.Fault.Message
			}
			if !strings.HasPrefix(text, c.want) || c.want == "" && text != "" || o.FileName != "mill.ova" || len(o.Warnings) == 0 {
				t.Errorf("got %q and %+v", text, o)
			}
		})
	}
	large := templateOf(`{"source":{"pvc":{"name":"wheel"}}}`)
	large.Annotations = map[string]string{"a": strings.Repeat("a", 850<<10)}
	if o := Evaluate(sample(), large); o.Fault == nil || o.Fault.Message != "the template with its labels and annotations has more than 836 KiB" {
		t.Errorf("a large template: %+v", o.Fault)
	}
	large = templateOf(`{"source":{"pvc":{"name":"wheel"}}}`)
	large.Spec.Message = strings.Repeat("a", 520<<10)
	if o := Evaluate(sample(), large); o.Fault == nil || o.Fault.Message != "the spec of the template has more than 512 KiB" {
		t.Errorf("a large spec: %+v", o.Fault)
	}
	for name, template := range map[string]*v1beta1.VirtualMachineTemplate{"no machine": {}, "no object": {Spec: v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &runtime.RawExtension{Raw: []byte("[]")}}}} {
		if o := Evaluate(sample(), template); o.Fault == nil || o.Fault.Reason != v1beta1.ReasonNotExportable {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// TestFollow holds what a DataSource refers to.
func TestFollow(t *testing.T) {
	for want, change := range map[string]func(*cdiv1beta1.DataSourceSource){
		"PersistentVolumeClaim images/a": func(s *cdiv1beta1.DataSourceSource) { s.PVC = &cdiv1beta1.DataVolumeSourcePVC{Name: "a"} },
		"VolumeSnapshot other/a": func(s *cdiv1beta1.DataSourceSource) {
			s.Snapshot = &cdiv1beta1.DataVolumeSourceSnapshot{Namespace: "other", Name: "a"}
		},
		"DataSource images/b": func(s *cdiv1beta1.DataSourceSource) {
			s.DataSource = &cdiv1beta1.DataSourceRefSourceDataSource{Name: "b"}
		},
		"refers to nothing": func(*cdiv1beta1.DataSourceSource) {},
	} {
		source := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "debian"}}
		change(&source.Spec.Source)
		got, fault := Follow(source)
		if fault != nil {
			if !strings.HasSuffix(fault.Message, want) {
				t.Errorf("%s: %v", want, fault)
			}
		} else if text := got.Kind + " " + got.Namespace + "/" + got.Name; text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}

// TestPod holds that a pod mounts the clones, and that its plan names the same places.
func TestPod(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	of := sample()
	of.Status.Disks = []v1beta1.ExportDisk{{Volume: "a", Name: CloneName(of, 0)}, {Volume: "b", Name: CloneName(of, 1)}}
	claims := []*corev1.PersistentVolumeClaim{
		{ObjectMeta: metav1.ObjectMeta{Name: CloneName(of, 0)}},
		{ObjectMeta: metav1.ObjectMeta{Name: CloneName(of, 1)}, Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: &block}},
	}
	pod := Pod(of, &servers.Program{Image: "i"}, "0123", "a token for the status", claims)
	c := &pod.Spec.Containers[0]
	if len(pod.Spec.Volumes) != 3 || c.VolumeMounts[1].MountPath != "/export/disks/0" || !c.VolumeMounts[1].ReadOnly || c.VolumeDevices[0].DevicePath != "/export/devices/1" || *pod.Spec.SecurityContext.RunAsUser != 107 {
		t.Errorf("got the pod %+v", pod.Spec)
	}
	if other := Pod(of, &servers.Program{Image: "i", User: 1000}, "0123", "", claims); *other.Spec.SecurityContext.RunAsUser != 1000 || *other.Spec.SecurityContext.FSGroup != 107 {
		t.Errorf("got the user %d", *other.Spec.SecurityContext.RunAsUser)
	}
	template := templateOf(`{}`)
	template.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a"}}
	plan, err := PlanOf(of, template, "a token for the status", claims)
	if err != nil || plan.Disks[0].Path != "/export/disks/0/disk.img" || plan.Disks[1].Path != "/export/devices/1" || plan.Template.ManagedFields != nil || plan.StatusToken == "" {
		t.Fatalf("%v, got %+v", err, plan)
	}
	material := &servers.Material{Suffix: "0123", Certificate: []byte("certificate"), Key: []byte("key"), Token: "token"}
	objects, err := Objects(pod, plan, material, "virtward-system", &Outside{})
	if err != nil || len(objects) != 4 {
		t.Fatalf("%v, %d objects", err, len(objects))
	}
	if _, last := objects[3].(*corev1.Service); !last {
		t.Errorf("the last object is a %T", objects[3])
	}
	secret, _ := objects[0].(*corev1.Secret)
	if read, err := exportserver.Parse(secret.Data[servers.KeyPlan]); err != nil || len(read.Disks) != 2 {
		t.Errorf("the server reads %+v, %v", read, err)
	}
	if links := Links("templates", v1beta1.ExportOVA, material, &Outside{}); links.Internal.URL != "https://virtward-ova-0123.templates.svc:8443/export.ova" || links.Internal.Cert != "certificate" || links.External != nil {
		t.Errorf("got %+v", links)
	}
	outside := &Outside{Domain: "exports.example.com", Class: "public", Annotations: map[string]string{"a": "b"}, Namespaces: []string{"ingress"}, Authority: "authority"}
	if objects, err = Objects(pod, plan, material, "virtward-system", outside); err != nil || len(objects) != 5 {
		t.Fatalf("%v, %d objects", err, len(objects))
	}
	ingress, _ := objects[3].(*networkingv1.Ingress)
	if rule := ingress.Spec.Rules[0]; rule.Host != "0123.exports.example.com" || ingress.Spec.TLS[0].Hosts[0] != rule.Host || *ingress.Spec.IngressClassName != "public" || ingress.Annotations["a"] != "b" ||
		rule.HTTP.Paths[0].Path != "/export.ova" || rule.HTTP.Paths[0].Backend.Service.Name != "virtward-ova-0123" {
		t.Errorf("got the Ingress %+v", ingress)
	}
	policy, _ := objects[2].(*networkingv1.NetworkPolicy)
	if from := policy.Spec.Ingress[0].From; len(from) != 3 || from[2].NamespaceSelector.MatchExpressions[0].Values[0] != "ingress" {
		t.Errorf("got the NetworkPolicy %+v", policy.Spec)
	}
	if links := Links("templates", v1beta1.ExportOVA, material, outside); links.External.URL != "https://0123.exports.example.com/export.ova" || links.External.Cert != "authority" {
		t.Errorf("got %+v", links)
	}
}

// FuzzEvaluate holds that no template panics, and that each volume has a source or the outcome a fault.
func FuzzEvaluate(f *testing.F) {
	for _, spec := range []string{`{"source":{"pvc":{"name":"${FROM}"}}}`, `{"sourceRef":{"kind":"DataSource","name":"${{OF}}"}}`, `{"source":{"pvc":null}}`, `{"source":{"blank":{}}}`, `[]`} {
		f.Add(string(templateOf(spec).Spec.VirtualMachine.Raw), "FROM", "wheel")
	}
	f.Fuzz(func(t *testing.T, machine, parameter, value string) {
		template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "templates", Name: "mill"}}
		template.Spec.VirtualMachine = &runtime.RawExtension{Raw: []byte(machine)}
		template.Spec.Parameters = []v1beta1.Parameter{{Name: parameter, Value: value}}
		o := Evaluate(sample("images"), template)
		if o.Fault != nil {
			if o.Fault.Reason == "" || o.Fault.Message == "" {
				t.Errorf("got the fault %+v", o.Fault)
			}
			return
		}
		for _, v := range o.Volumes {
			if v.Source.Kind == "" || v.Source.Namespace != "templates" && v.Source.Namespace != "images" {
				t.Errorf("got the volume %+v", v)
			}
		}
	})
}

// TestClaims holds which volumes of claims and of clones an OVA and an artifact have.
func TestClaims(t *testing.T) {
	claimed := func(name string) *v1beta1.VirtualMachineTemplate {
		template := templateOf(`{"source":{"blank":{}}}`)
		template.Spec.VirtualMachine.Raw = fmt.Appendf(nil, `{"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a","disk":{}}]}},"volumes":[{"name":"a","persistentVolumeClaim":{"claimName":%q}}]}}}}`, name)
		return template
	}
	for name, c := range map[string]struct {
		template       *v1beta1.VirtualMachineTemplate
		ova, oci, says string
	}{
		"a claim":                      {template: claimed("wheel"), ova: "PersistentVolumeClaim templates/wheel", oci: "PersistentVolumeClaim templates/wheel"},
		"a claim of a parameter":       {template: claimed("${FROM}-1"), ova: "PersistentVolumeClaim templates/wheel-1", oci: "PersistentVolumeClaim templates/wheel-1"},
		"a parameter without a value":  {template: claimed("${OF}"), ova: "NotExportable", oci: "NotExportable"},
		"a clone of a claim":           {template: templateOf(`{"source":{"pvc":{"name":"wheel"}}}`), ova: "PersistentVolumeClaim templates/wheel", oci: "PersistentVolumeClaim templates/wheel"},
		"a clone of a DataSource":      {template: templateOf(`{"sourceRef":{"kind":"DataSource","name":"debian"}}`), ova: "DataSource templates/debian", says: "the artifact has no disk of the volume a: it has the reference to its source"},
		"a claim of another namespace": {template: templateOf(`{"source":{"pvc":{"namespace":"vault","name":"a"}}}`), ova: "SourceNotPermitted", oci: "SourceNotPermitted"},
	} {
		for format, want := range map[v1beta1.ExportFormat]string{v1beta1.ExportOVA: c.ova, v1beta1.ExportOCI: c.oci} {
			of := sample()
			of.Spec.Format, of.Spec.KeepUserData = format, format == v1beta1.ExportOCI
			o := Evaluate(of, c.template)
			got := ""
			switch {
			case o.Fault != nil:
				got = o.Fault.Reason
			case len(o.Volumes) > 0:
				got = o.Volumes[0].Source.Kind + " " + o.Volumes[0].Source.Namespace + "/" + o.Volumes[0].Source.Name
			}
			if got != want || format == v1beta1.ExportOCI && (o.FileName != "mill.oci.tar" || !strings.Contains(strings.Join(o.Warnings, "\n"), c.says)) {
				t.Errorf("%s, %s: got %q, want %q: %+v", name, format, got, want, o)
			}
		}
	}
}
