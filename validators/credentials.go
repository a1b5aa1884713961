package validators

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func credentialRules() Table {
	return Scoped(OnSpec,
		credentialTypeRule,
		credentialSourceRule,
		credentialPropagationRule,
		credentialVolumeRule,
		credentialUsersRule,
	)
}

// eachCredential calls a check with the entries and their paths.
func eachCredential(s *Subject, check func(*v1.AccessCredential, *field.Path, *Errors), found *Errors) {
	for i := range s.Spec.AccessCredentials {
		check(&s.Spec.AccessCredentials[i], s.Path.Child("accessCredentials").Index(i), found)
	}
}

var credentialTypeRule = Rule{
	ID:       "credential-one-type",
	Title:    "An access credential is an SSH public key or a password",
	Remedy:   "Set one of sshPublicKey and userPassword, and use an entry for each.",
	Security: true,
	Check:    credentialType,
}

func credentialType(s *Subject, found *Errors) {
	eachCredential(s, func(c *v1.AccessCredential, path *field.Path, found *Errors) {
		switch {
		case c.SSHPublicKey != nil && c.UserPassword != nil:
			found.Add(field.Invalid(path, field.OmitValueType{}, "sshPublicKey and userPassword cannot be in the same entry"))
		case c.SSHPublicKey == nil && c.UserPassword == nil:
			found.Add(field.Invalid(path, field.OmitValueType{}, "there is neither an sshPublicKey nor a userPassword"))
		}
	}, found)
}

var credentialSourceRule = Rule{
	ID:       "credential-source",
	Title:    "An access credential names a secret",
	Remedy:   "Set source.secret.",
	Security: true,
	Check:    credentialSource,
}

func credentialSource(s *Subject, found *Errors) {
	const missing = "the source has no secret"
	eachCredential(s, func(c *v1.AccessCredential, path *field.Path, found *Errors) {
		if c.SSHPublicKey != nil && c.SSHPublicKey.Source.Secret == nil {
			found.Add(field.Invalid(path.Child("sshPublicKey", "source"), field.OmitValueType{}, missing))
		}
		if c.UserPassword != nil && c.UserPassword.Source.Secret == nil {
			found.Add(field.Invalid(path.Child("userPassword", "source"), field.OmitValueType{}, missing))
		}
	}, found)
}

var credentialPropagationRule = Rule{
	ID:       "credential-one-propagation",
	Title:    "An access credential has one propagation method",
	Remedy:   "Set one of noCloud, configDrive and qemuGuestAgent for an SSH public key, and qemuGuestAgent for a password.",
	Security: true,
	Check:    credentialPropagation,
}

func credentialPropagation(s *Subject, found *Errors) {
	eachCredential(s, func(c *v1.AccessCredential, path *field.Path, found *Errors) {
		if c.SSHPublicKey != nil {
			if ways := waysOfKey(&c.SSHPublicKey.PropagationMethod); ways != 1 {
				found.Add(field.Invalid(path.Child("sshPublicKey", "propagationMethod"), ways,
					"an SSH public key needs exactly one propagation method"))
			}
		}
		if c.UserPassword != nil && c.UserPassword.PropagationMethod.QemuGuestAgent == nil {
			found.Add(field.Invalid(path.Child("userPassword", "propagationMethod"), field.OmitValueType{},
				"a password needs the propagation method qemuGuestAgent"))
		}
	}, found)
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

var credentialVolumeRule = Rule{
	ID:       "credential-needs-volume",
	Title:    "An SSH public key for cloud-init needs a cloud-init volume",
	Remedy:   "Add a cloudInitNoCloud volume for noCloud, or a cloudInitConfigDrive volume for configDrive.",
	Security: true,
	Check:    credentialVolume,
}

func credentialVolume(s *Subject, found *Errors) {
	if len(s.Spec.AccessCredentials) == 0 {
		return
	}
	noCloud := slices.ContainsFunc(s.Spec.Volumes, func(v v1.Volume) bool { return v.CloudInitNoCloud != nil })
	configDrive := slices.ContainsFunc(s.Spec.Volumes, func(v v1.Volume) bool { return v.CloudInitConfigDrive != nil })
	eachCredential(s, func(c *v1.AccessCredential, path *field.Path, found *Errors) {
		if c.SSHPublicKey == nil {
			return
		}
		method := path.Child("sshPublicKey", "propagationMethod")
		if c.SSHPublicKey.PropagationMethod.NoCloud != nil && !noCloud {
			found.Add(field.Invalid(method, "noCloud", "no volume is a cloudInitNoCloud"))
		}
		if c.SSHPublicKey.PropagationMethod.ConfigDrive != nil && !configDrive {
			found.Add(field.Invalid(method, "configDrive", "no volume is a cloudInitConfigDrive"))
		}
	}, found)
}

var credentialUsersRule = Rule{
	ID:       "credential-guest-agent-users",
	Title:    "An SSH public key for the guest agent has a user",
	Remedy:   "List the guest's users in propagationMethod.qemuGuestAgent.users.",
	Security: true,
	Check:    credentialUsers,
}

func credentialUsers(s *Subject, found *Errors) {
	eachCredential(s, func(c *v1.AccessCredential, path *field.Path, found *Errors) {
		if c.SSHPublicKey == nil {
			return
		}
		if agent := c.SSHPublicKey.PropagationMethod.QemuGuestAgent; agent == nil || len(agent.Users) > 0 {
			return
		}
		found.Add(field.Invalid(path.Child("sshPublicKey", "propagationMethod", "qemuGuestAgent", "users"),
			field.OmitValueType{}, "the key has no user"))
	}, found)
}
