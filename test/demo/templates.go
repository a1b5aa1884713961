package main

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
)

// The files of the chapter about templates, and the namespace of the templates.
const (
	imageFile    = "examples/templates/golden-image.yaml"
	shopFile     = "examples/templates/shop.yaml"
	authorsFile  = "examples/templates/authors.yaml"
	databaseFile = "examples/templates/database.yaml"

	commonTemplates = "charts/virtward-common-templates"
	catalogue       = "vm-templates"
)

// installTemplates runs the controller of templates, and simulates the snapshots of KubeVirt and the clones of CDI.
func (s *show) installTemplates(ctx context.Context) error {
	var err error
	if s.snapshots, err = simulators.StartSnapshots(ctx, s.cluster); err != nil {
		return err
	}
	if s.cdi, err = simulators.StartCDI(ctx, s.cluster); err != nil {
		return err
	}
	_, err = s.cluster.RunVirtward(ctx, controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardTemplates})
	return err
}

// stopTemplates ends the simulations.
func (s *show) stopTemplates(ctx context.Context) error {
	var errs []error
	if s.snapshots != nil {
		errs = append(errs, s.snapshots.Stop())
	}
	if s.cdi != nil {
		errs = append(errs, s.cdi.Stop(ctx))
	}
	return errors.Join(errs...)
}

// templates shows templates: installed, approved, used by a user who can do nothing else, and captured from a VM.
func templates(ctx context.Context, s *show) error {
	for _, part := range []func(context.Context) error{s.approvesTemplate, s.usesTemplate, s.isRestricted, s.capturesVM} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// approvesTemplate installs the common templates and approves one.
func (s *show) approvesTemplate(ctx context.Context) error {
	s.prose(`A template is a VirtualMachine with parameters. The admin has a golden image, and installs templates for common
		operating systems. The service accounts of one namespace can clone the image.`)
	if err := s.doesAll(ctx, s.admin, "kubectl apply -f "+imageFile); err != nil {
		return err
	}
	// There is no storage: the volume of the image is bound by hand.
	if err := s.quietly(ctx, s.admin, `kubectl patch pvc fedora -n kubevirt-os-images --subresource status --type merge -p {"status":{"phase":"Bound"}}`); err != nil {
		return err
	}
	const cloners = "system:serviceaccounts:shop"
	s.prompt(s.admin.name, "helm install catalogue "+commonTemplates+" --namespace "+catalogue+" --create-namespace --set access.cloners={"+cloners+"}")
	if err := s.cluster.EnsureNamespace(ctx, catalogue); err != nil {
		return err
	}
	if err := s.cluster.InstallChart(ctx, controlplane.Chart{
		Dir: commonTemplates, Release: "catalogue", Namespace: catalogue,
		Values: map[string]any{"access": map[string]any{"cloners": []any{cloners}}},
	}); err != nil {
		return err
	}
	s.prose(`A template is ready if its VM is valid with the default values, and if the image, the instancetype and the
		preference exist.`)
	if err := s.doesAll(ctx, s.admin, "kubectl wait vmt/fedora -n "+catalogue+" --for condition=Ready"); err != nil {
		return err
	}
	s.prose(`The admin reviews the template for Fedora. The review shows what others can change later, such as the image.`)
	output, err := s.does(ctx, s.admin, "kubectl virtward template approve fedora -n "+catalogue+" --yes")
	if err != nil {
		return err
	}
	if err := says(output, "Digest:   sha256:", "INSTANCETYPE", "An approval does not cover:", "approved the template "+catalogue+"/fedora"); err != nil {
		return err
	}
	if output, err = s.does(ctx, s.admin, "kubectl virtward template list -n "+catalogue); err != nil {
		return err
	}
	return says(strings.Join(strings.Fields(output), " "), "fedora True True -", "debian False (ReferenceMissing) False -")
}

// usesTemplate creates a VM from the approved template, in another namespace.
func (s *show) usesTemplate(ctx context.Context) error {
	s.prose(`VMs in the namespace shop come from approved templates only. Carol can use templates there, and has no permission
		to create VMs.`)
	if err := s.doesAll(ctx, s.admin, "kubectl apply -f "+shopFile); err != nil {
		return err
	}
	if err := s.isRejected(ctx, s.carol, "kubectl auth can-i create virtualmachines -n shop", "no\n"); err != nil {
		return err
	}
	const process = "kubectl virtward template process fedora -n " + catalogue + " -p NAME=web --create --target-namespace shop -o name"
	if err := s.awaitOutput(ctx, s.carol, "kubectl auth can-i create virtualmachinetemplates.subresources.template.kubevirt.io --subresource instantiate -n shop", "yes"); err != nil {
		return err
	}
	output, err := s.key("").does(ctx, s.carol, process)
	if err != nil {
		return err
	}
	if err := says(output, "virtualmachine.kubevirt.io/web", "Log in to web as fedora."); err != nil {
		return err
	}
	if output, err = s.greps(ctx, s.carol, "kubectl get vm web -n shop -o yaml", regexp.MustCompile(`template.kubevirt.io/.*`), true); err != nil {
		return err
	}
	if err := says(output, "template.kubevirt.io/requester: carol", "template.kubevirt.io/template: "+catalogue+"/fedora", "template.kubevirt.io/template-digest: sha256:"); err != nil {
		return err
	}
	s.checked("the VM has annotations with the template, its digest and its requester, which only Virtward can write.")
	return nil
}

// isRestricted shows that the user of templates can do nothing else.
func (s *show) isRestricted(ctx context.Context) error {
	s.prose("Everything else is denied: a VM without a template, a template that is not approved, and a value that adds a field.")
	const create = " -n " + catalogue + " --create --target-namespace shop"
	for _, denied := range []struct {
		line  string
		words []string
	}{
		{"kubectl create -f " + analyticsFile + " -n shop", []string{"Forbidden", "virtualmachines"}},
		{"kubectl virtward template process debian" + create, []string{"approved"}},
		{"kubectl virtward template process fedora -p DISK_SIZE=1Gi" + create, []string{"it must be at least 30Gi"}},
		{`kubectl virtward template process fedora -p INSTANCETYPE={"name":"m1.large"}` + create, []string{"parameters[INSTANCETYPE]", "it must match"}},
		{"kubectl label namespace shop template.virtward.io/approved-only-", []string{"Forbidden"}},
	} {
		if err := s.isRejected(ctx, s.carol, denied.line, denied.words...); err != nil {
			return err
		}
	}
	s.prose(`An editor of VMs can create VMs in other namespaces, but not here. And if a template is edited, its approval ends:`)
	if err := s.isRejected(ctx, s.editor, "kubectl create -f "+analyticsFile+" -n shop", "approved"); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.admin, `kubectl patch vmt fedora -n `+catalogue+` --type=merge -p {"spec":{"message":"Edited."}}`); err != nil {
		return err
	}
	return s.isRejected(ctx, s.carol, "kubectl virtward template process fedora"+create, "approved")
}

// capturesVM makes a template of a VM, and a VM of that template.
func (s *show) capturesVM(ctx context.Context) error {
	s.prose(`Alice captures a VM with a volume as a template in the catalogue: Virtward snapshots the VM, and clones the volume.
		The snapshots and the clones are simulated.`)
	if err := s.doesAll(ctx, s.admin, "kubectl apply -f "+databaseFile+" -n "+namespace); err != nil {
		return err
	}
	if err := s.isRejected(ctx, s.alice, "kubectl virtward template create golden --from-vm="+namespace+"/database -n "+catalogue+" --watch", "forbidden"); err != nil {
		return err
	}
	s.prose("A capture needs the permission to snapshot the VM, and to create a template and its volumes.")
	if err := s.doesAll(ctx, s.admin, "kubectl apply -f "+authorsFile); err != nil {
		return err
	}
	const create = "kubectl virtward template create golden --from-vm=" + namespace + "/database -n " + catalogue
	if err := s.awaitOutput(ctx, s.alice, "kubectl auth can-i create virtualmachinetemplaterequests.template.kubevirt.io -n "+catalogue, "yes"); err != nil {
		return err
	}
	output, err := s.does(ctx, s.alice, create+" --watch")
	if err != nil {
		return err
	}
	if err := says(output, "created the request "+catalogue+"/golden", "virtualmachinetemplate.template.kubevirt.io/golden"); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.alice, "kubectl wait vmtr/golden -n "+catalogue+" --for condition=Completed"); err != nil {
		return err
	}
	if output, err = s.does(ctx, s.alice, "kubectl virtward template process golden -n "+catalogue+" -p NAME=copy --create --target-namespace "+namespace+" -o name"); err != nil {
		return err
	}
	if err := says(output, "virtualmachine.kubevirt.io/copy"); err != nil {
		return err
	}
	if output, err = s.call(ctx, s.alice, "kubectl get vm copy -o yaml"); err != nil {
		return err
	}
	if err := says(output, "dataVolumeTemplates:", "namespace: "+catalogue, "template.kubevirt.io/requester: alice"); err != nil {
		return err
	}
	if strings.Contains(output, "only-this-machine") {
		return errors.New("the copy has the serial number of the captured VM")
	}
	s.checked("the new VM clones the captured volume, and has no serial number of the captured VM.")
	return nil
}
