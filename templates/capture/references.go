package capture

import (
	"encoding/json"
	"slices"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
)

// Warning names the Secrets, ConfigMaps and ServiceAccounts that a captured template refers to. A capture never copies
// them. It is empty if there are none.
func Warning(spec *v1beta1.VirtualMachineTemplateSpec) string {
	vm := &kubevirtv1.VirtualMachine{}
	if spec.VirtualMachine == nil || json.Unmarshal(spec.VirtualMachine.Raw, vm) != nil || vm.Spec.Template == nil {
		return ""
	}
	names := configurationOf(&vm.Spec.Template.Spec)
	if len(names) == 0 {
		return ""
	}
	return "not copied: " + texts.Shorten(strings.Join(names, ", "), maxListed) + ". Create them where you use the template"
}

// configurationOf returns the sorted Secrets, ConfigMaps and ServiceAccounts of a VirtualMachine.
func configurationOf(spec *kubevirtv1.VirtualMachineInstanceSpec) []string {
	var names []string
	add := func(kind, name string) {
		if name != "" {
			names = append(names, kind+" "+name)
		}
	}
	for i := range spec.Volumes {
		configurationOfVolume(&spec.Volumes[i], add)
	}
	for i := range spec.AccessCredentials {
		c := &spec.AccessCredentials[i]
		if c.SSHPublicKey != nil && c.SSHPublicKey.Source.Secret != nil {
			add("Secret", c.SSHPublicKey.Source.Secret.SecretName)
		}
		if c.UserPassword != nil && c.UserPassword.Source.Secret != nil {
			add("Secret", c.UserPassword.Source.Secret.SecretName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func configurationOfVolume(v *kubevirtv1.Volume, add func(kind, name string)) {
	if c := v.CloudInitNoCloud; c != nil {
		if c.UserDataSecretRef != nil {
			add("Secret", c.UserDataSecretRef.Name)
		}
		if c.NetworkDataSecretRef != nil {
			add("Secret", c.NetworkDataSecretRef.Name)
		}
	}
	if c := v.CloudInitConfigDrive; c != nil {
		if c.UserDataSecretRef != nil {
			add("Secret", c.UserDataSecretRef.Name)
		}
		if c.NetworkDataSecretRef != nil {
			add("Secret", c.NetworkDataSecretRef.Name)
		}
	}
	if v.ContainerDisk != nil {
		add("Secret", v.ContainerDisk.ImagePullSecret)
	}
	if v.Sysprep != nil && v.Sysprep.Secret != nil {
		add("Secret", v.Sysprep.Secret.Name)
	}
	if v.Sysprep != nil && v.Sysprep.ConfigMap != nil {
		add("ConfigMap", v.Sysprep.ConfigMap.Name)
	}
	if v.Secret != nil {
		add("Secret", v.Secret.SecretName)
	}
	if v.ConfigMap != nil {
		add("ConfigMap", v.ConfigMap.Name)
	}
	if v.ServiceAccount != nil {
		add("ServiceAccount", v.ServiceAccount.ServiceAccountName)
	}
}

// KeepReferences prepares the references of a VirtualMachine to an instancetype and a preference for a template. Revisions
// exist only in the namespace of the VirtualMachine, and so do namespaced kinds. The error is an *Error.
func KeepReferences(request *v1beta1.VirtualMachineTemplateRequest, spec *kubevirtv1.VirtualMachineSpec) error {
	elsewhere := request.Namespace != request.Spec.VirtualMachineRef.Namespace
	if in := spec.Instancetype; in != nil && elsewhere && isNamespaced(in.Kind) {
		return onlyThere("instancetype", in.Name)
	}
	if preference := spec.Preference; preference != nil && elsewhere && isNamespaced(preference.Kind) {
		return onlyThere("preference", preference.Name)
	}
	if spec.Instancetype != nil {
		spec.Instancetype.RevisionName, spec.Instancetype.InferFromVolume, spec.Instancetype.InferFromVolumeFailurePolicy = "", "", nil
	}
	if spec.Preference != nil {
		spec.Preference.RevisionName, spec.Preference.InferFromVolume, spec.Preference.InferFromVolumeFailurePolicy = "", "", nil
	}
	return nil
}

func onlyThere(what, name string) error {
	return fault(v1beta1.ReasonInvalidConfiguration, "the %s %s is in the namespace of the VirtualMachine: set instancetypePolicy to Expand, or use a cluster-wide one", what, name)
}

// isNamespaced reports whether the kind of an instancetype or a preference is that of a namespaced one. KubeVirt takes it
// in any case, and as a plural.
func isNamespaced(kind string) bool {
	kind = strings.TrimSuffix(strings.ToLower(kind), "s")
	return kind == strings.ToLower(apikinds.VirtualMachineInstancetype) || kind == strings.ToLower(apikinds.VirtualMachinePreference)
}
