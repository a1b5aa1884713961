package main

// newestPackages are the packages with the newest version of each kind.
var newestPackages = []string{
	"kubevirt.io/api/core/v1",
	"kubevirt.io/api/instancetype/v1beta1",
	"kubevirt.io/api/snapshot/v1beta1",
	"kubevirt.io/api/export/v1",
	"kubevirt.io/api/pool/v1beta1",
	"kubevirt.io/api/clone/v1beta1",
	"kubevirt.io/api/migrations/v1alpha1",
	"kubevirt.io/api/plugin/v1alpha1",
	"kubevirt.io/api/backup/v1alpha1",
	"kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1",
}

// notInstalled are kinds that controller-gen finds but no operator installs, or that nothing here needs.
var notInstalled = map[string]string{
	"datavolumetemplatespecs.kubevirt.io": "a part of the VirtualMachine, not a resource",
	"objecttransfers.cdi.kubevirt.io":     "never released by CDI",
}
