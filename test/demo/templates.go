package main

import (
	"context"
	"errors"

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
func templates() []step {
	const (
		process = "kubectl virtward template process fedora"
		toShop  = " -n " + catalogue + " --create --target-namespace shop"
		create  = process + " -n " + catalogue + " -p NAME=web --create --target-namespace shop -o name"
		capture = "kubectl virtward template create golden --from-vm=" + namespace + "/database -n " + catalogue + " --watch"
	)
	return []step{
		{
			prose: `A template is a VirtualMachine with parameters. The admin has a golden image, and installs templates for common
				operating systems. The service accounts of one namespace can clone the image.`,
			as: admin, runs: []string{"kubectl apply -f " + imageFile},
		},
		{ // there is no storage: the volume of the image is bound by hand
			as: admin, hidden: true, runs: []string{`kubectl patch pvc fedora -n kubevirt-os-images --subresource status --type merge -p {"status":{"phase":"Bound"}}`},
			do: (*show).installsCatalogue,
		},
		{
			prose: `A template is ready if its VM is valid with the default values, and if the image, the instancetype and the
				preference exist.`,
			as: admin, runs: []string{"kubectl wait vmt/fedora -n " + catalogue + " --for condition=Ready"},
		},
		{
			prose: `The admin reviews the template for Fedora. The review shows what others can change later, such as the image.`,
			as:    admin, runs: []string{"kubectl virtward template approve fedora -n " + catalogue + " --yes"},
			says: []string{"Digest:   sha256:", "INSTANCETYPE", "An approval does not cover:", "approved the template " + catalogue + "/fedora"},
		},
		{
			as: admin, runs: []string{"kubectl virtward template list -n " + catalogue},
			says: []string{"fedora True True -", "debian False (ReferenceMissing) False -"},
		},
		{
			prose: `VMs in the namespace shop come from approved templates only. Carol can use templates there, and has no permission
				to create VMs.`,
			as: admin, runs: []string{"kubectl apply -f " + shopFile},
		},
		{as: carol, rejects: "kubectl auth can-i create virtualmachines -n shop", says: []string{"no\n"}},
		{
			as: carol, await: "kubectl auth can-i create virtualmachinetemplates.subresources.template.kubevirt.io --subresource instantiate -n shop", until: "yes",
			tour: top, runs: []string{create}, says: []string{"virtualmachine.kubevirt.io/web", "Log in to web as fedora."},
		},
		{
			as: carol, runs: []string{"kubectl get vm web -n shop -o yaml"}, grep: "template.kubevirt.io/.*",
			says:    []string{"template.kubevirt.io/requester: carol", "template.kubevirt.io/template: " + catalogue + "/fedora", "template.kubevirt.io/template-digest: sha256:"},
			checked: "the VM has annotations with the template, its digest and its requester, which only Virtward can write.",
		},
		{
			prose: "Everything else is denied: a VM without a template, a template that is not approved, and a value that adds a field.",
			as:    carol, rejects: "kubectl create -f " + analyticsFile + " -n shop", says: []string{"Forbidden", "virtualmachines"},
		},
		{as: carol, rejects: "kubectl virtward template process debian" + toShop, says: []string{"approved"}},
		{as: carol, rejects: process + " -p DISK_SIZE=1Gi" + toShop, says: []string{"it must be at least 30Gi"}},
		{as: carol, rejects: process + ` -p INSTANCETYPE={"name":"m1.large"}` + toShop, says: []string{"parameters[INSTANCETYPE]", "it must match"}},
		{as: carol, rejects: "kubectl label namespace shop template.virtward.io/approved-only-", says: []string{"Forbidden"}},
		{
			prose: `An editor of VMs can create VMs in other namespaces, but not here. And if a template is edited, its approval ends:`,
			as:    editor, rejects: "kubectl create -f " + analyticsFile + " -n shop", says: []string{"approved"},
		},
		{as: admin, runs: []string{"kubectl patch vmt fedora -n " + catalogue + ` --type=merge -p {"spec":{"message":"Edited."}}`}},
		{as: carol, rejects: process + toShop, says: []string{"approved"}},
		{
			prose: `Alice captures a VM with a volume as a template in the catalogue: Virtward snapshots the VM, and clones the volume.
				The snapshots and the clones are simulated.`,
			as: admin, runs: []string{"kubectl apply -f " + databaseFile + " -n " + namespace},
		},
		{as: alice, rejects: capture, says: []string{"forbidden"}},
		{
			prose: "A capture needs the permission to snapshot the VM, and to create a template and its volumes.",
			as:    admin, runs: []string{"kubectl apply -f " + authorsFile},
		},
		{
			as: alice, await: "kubectl auth can-i create virtualmachinetemplaterequests.template.kubevirt.io -n " + catalogue, until: "yes",
			runs: []string{capture}, says: []string{"created the request " + catalogue + "/golden", "virtualmachinetemplate.template.kubevirt.io/golden"},
		},
		{
			as: alice, runs: []string{
				"kubectl wait vmtr/golden -n " + catalogue + " --for condition=Completed",
				"kubectl virtward template process golden -n " + catalogue + " -p NAME=copy --create --target-namespace " + namespace + " -o name",
			},
			says: []string{"virtualmachine.kubevirt.io/copy"},
		},
		{
			as: alice, hidden: true, runs: []string{"kubectl get vm copy -o yaml"},
			says: []string{"dataVolumeTemplates:", "namespace: " + catalogue, "template.kubevirt.io/requester: alice"}, lacks: "only-this-machine",
			checked: "the new VM clones the captured volume, and has no serial number of the captured VM.",
		},
	}
}

// installsCatalogue installs the common templates.
func (s *show) installsCatalogue(ctx context.Context) error {
	const cloners = "system:serviceaccounts:shop"
	s.prompt(admin, "helm install catalogue "+commonTemplates+" --namespace "+catalogue+" --create-namespace --set access.cloners={"+cloners+"}")
	if err := s.cluster.EnsureNamespace(ctx, catalogue); err != nil {
		return err
	}
	return s.cluster.InstallChart(ctx, controlplane.Chart{
		Dir: commonTemplates, Release: "catalogue", Namespace: catalogue,
		Values: map[string]any{"access": map[string]any{"cloners": []any{cloners}}},
	})
}
