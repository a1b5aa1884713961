package validators

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func credentialRules() Table {
	return Table{
		{
			ID: "credential-one-type", Title: "An access credential is an SSH public key or a password", Scope: OnSpec, Security: true,
			Remedy: "Set one of sshPublicKey and userPassword, and use an entry for each.", Check: credentialType,
		},
		{
			ID: "credential-source", Title: "An access credential names a secret", Scope: OnSpec, Security: true,
			Remedy: "Set source.secret.", Check: credentialSource,
		},
		{
			ID: "credential-one-propagation", Title: "An access credential has one way into the guest", Scope: OnSpec, Security: true,
			Remedy: "Set one of noCloud, configDrive and qemuGuestAgent for an SSH public key, and qemuGuestAgent for a password.", Check: credentialPropagation,
		},
		{
			ID: "credential-needs-volume", Title: "An SSH public key that cloud-init brings needs its volume", Scope: OnSpec, Security: true,
			Remedy: "Add a cloudInitNoCloud volume for noCloud, or a cloudInitConfigDrive volume for configDrive.", Check: credentialVolume,
		},
		{
			ID: "credential-guest-agent-users", Title: "An SSH public key that the guest agent brings is for somebody", Scope: OnSpec, Security: true,
			Remedy: "List the guest's users in propagationMethod.qemuGuestAgent.users.", Check: credentialUsers,
		},
	}
}

// eachCredential calls a check with the entries and their paths.
func eachCredential(s *Subject, check func(*v1.AccessCredential, *field.Path) field.ErrorList) (errs field.ErrorList) {
	for i := range s.Spec.AccessCredentials {
		errs = append(errs, check(&s.Spec.AccessCredentials[i], s.Path.Child("accessCredentials").Index(i))...)
	}
	return errs
}

func credentialType(s *Subject) field.ErrorList {
	return eachCredential(s, func(c *v1.AccessCredential, path *field.Path) field.ErrorList {
		switch {
		case c.SSHPublicKey != nil && c.UserPassword != nil:
			return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "sshPublicKey and userPassword cannot be in the same entry")}
		case c.SSHPublicKey == nil && c.UserPassword == nil:
			return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "there is neither an sshPublicKey nor a userPassword")}
		}
		return nil
	})
}

func credentialSource(s *Subject) field.ErrorList {
	const missing = "there is no secret that the credential comes from"
	return eachCredential(s, func(c *v1.AccessCredential, path *field.Path) (errs field.ErrorList) {
		if c.SSHPublicKey != nil && c.SSHPublicKey.Source.Secret == nil {
			errs = append(errs, field.Invalid(path.Child("sshPublicKey", "source"), field.OmitValueType{}, missing))
		}
		if c.UserPassword != nil && c.UserPassword.Source.Secret == nil {
			errs = append(errs, field.Invalid(path.Child("userPassword", "source"), field.OmitValueType{}, missing))
		}
		return errs
	})
}

func credentialPropagation(s *Subject) field.ErrorList {
	return eachCredential(s, func(c *v1.AccessCredential, path *field.Path) (errs field.ErrorList) {
		if c.SSHPublicKey != nil {
			if ways := waysOfKey(&c.SSHPublicKey.PropagationMethod); ways != 1 {
				errs = append(errs, field.Invalid(path.Child("sshPublicKey", "propagationMethod"), ways,
					"an SSH public key takes exactly one of noCloud, configDrive and qemuGuestAgent"))
			}
		}
		if c.UserPassword != nil && c.UserPassword.PropagationMethod.QemuGuestAgent == nil {
			errs = append(errs, field.Invalid(path.Child("userPassword", "propagationMethod"), field.OmitValueType{},
				"a password is brought into the guest by qemuGuestAgent, which is not set"))
		}
		return errs
	})
}

func waysOfKey(method *v1.SSHPublicKeyAccessCredentialPropagationMethod) (n int) {
	if method.NoCloud != nil {
		n++
	}
	if method.ConfigDrive != nil {
		n++
	}
	if method.QemuGuestAgent != nil {
		n++
	}
	return n
}

func credentialVolume(s *Subject) field.ErrorList {
	if len(s.Spec.AccessCredentials) == 0 {
		return nil
	}
	noCloud := slices.ContainsFunc(s.Spec.Volumes, func(v v1.Volume) bool { return v.CloudInitNoCloud != nil })
	configDrive := slices.ContainsFunc(s.Spec.Volumes, func(v v1.Volume) bool { return v.CloudInitConfigDrive != nil })
	return eachCredential(s, func(c *v1.AccessCredential, path *field.Path) (errs field.ErrorList) {
		if c.SSHPublicKey == nil {
			return nil
		}
		method := path.Child("sshPublicKey", "propagationMethod")
		if c.SSHPublicKey.PropagationMethod.NoCloud != nil && !noCloud {
			errs = append(errs, field.Invalid(method, "noCloud", "no volume is a cloudInitNoCloud, which would bring the key into the guest"))
		}
		if c.SSHPublicKey.PropagationMethod.ConfigDrive != nil && !configDrive {
			errs = append(errs, field.Invalid(method, "configDrive", "no volume is a cloudInitConfigDrive, which would bring the key into the guest"))
		}
		return errs
	})
}

func credentialUsers(s *Subject) field.ErrorList {
	return eachCredential(s, func(c *v1.AccessCredential, path *field.Path) field.ErrorList {
		if c.SSHPublicKey == nil {
			return nil
		}
		if agent := c.SSHPublicKey.PropagationMethod.QemuGuestAgent; agent == nil || len(agent.Users) > 0 {
			return nil
		}
		return field.ErrorList{field.Invalid(path.Child("sshPublicKey", "propagationMethod", "qemuGuestAgent", "users"),
			field.OmitValueType{}, "the key is for no user of the guest")}
	})
}
