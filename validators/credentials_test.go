package validators

import "testing"

func TestCredentials(t *testing.T) {
	const key = `"source":{"secret":{"secretName":"keys"}}`
	runCases(t, credentialRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{"accessCredentials":[]}`},
		{name: "a key by noCloud", spec: `{"volumes":[{"name":"ci","cloudInitNoCloud":{}}],"accessCredentials":[{"sshPublicKey":{` + key + `,"propagationMethod":{"noCloud":{}}}}]}`},
		{name: "a key by configDrive", spec: `{"volumes":[{"name":"ci","cloudInitConfigDrive":{}}],"accessCredentials":[{"sshPublicKey":{` + key + `,"propagationMethod":{"configDrive":{}}}}]}`},
		{name: "a key and a password by the guest agent", spec: `{"accessCredentials":[{"sshPublicKey":{` + key + `,"propagationMethod":{"qemuGuestAgent":{"users":["core"]}}}},{"userPassword":{` + key + `,"propagationMethod":{"qemuGuestAgent":{}}}}]}`},
		{
			name: "neither and both",
			spec: `{"accessCredentials":[{},{"sshPublicKey":{` + key + `,"propagationMethod":{"qemuGuestAgent":{"users":["core"]}}},"userPassword":{` + key + `,"propagationMethod":{"qemuGuestAgent":{}}}}]}`,
			want: []string{
				`credential-one-type: spec.accessCredentials[0]: Invalid value: there is neither an sshPublicKey nor a userPassword`,
				`credential-one-type: spec.accessCredentials[1]: Invalid value: sshPublicKey and userPassword cannot be in the same entry`,
			},
		},
		{
			name: "no source and no way",
			spec: `{"accessCredentials":[{"sshPublicKey":{"source":{},"propagationMethod":{}}},{"userPassword":{"source":{},"propagationMethod":{}}}]}`,
			want: []string{
				`credential-one-propagation: spec.accessCredentials[0].sshPublicKey.propagationMethod: Invalid value: 0: an SSH public key needs exactly one propagation method`,
				`credential-source: spec.accessCredentials[0].sshPublicKey.source: Invalid value: the source has no secret`,
				`credential-one-propagation: spec.accessCredentials[1].userPassword.propagationMethod: Invalid value: a password needs the propagation method qemuGuestAgent`,
				`credential-source: spec.accessCredentials[1].userPassword.source: Invalid value: the source has no secret`,
			},
		},
		{
			name: "several ways, no volumes, no users",
			spec: `{"accessCredentials":[{"sshPublicKey":{` + key + `,"propagationMethod":{"noCloud":{},"configDrive":{},"qemuGuestAgent":{"users":[]}}}}]}`,
			want: []string{
				`credential-needs-volume: spec.accessCredentials[0].sshPublicKey.propagationMethod: Invalid value: "noCloud": no volume is a cloudInitNoCloud`,
				`credential-needs-volume: spec.accessCredentials[0].sshPublicKey.propagationMethod: Invalid value: "configDrive": no volume is a cloudInitConfigDrive`,
				`credential-one-propagation: spec.accessCredentials[0].sshPublicKey.propagationMethod: Invalid value: 3: an SSH public key needs exactly one propagation method`,
				`credential-guest-agent-users: spec.accessCredentials[0].sshPublicKey.propagationMethod.qemuGuestAgent.users: Invalid value: the key has no user`,
			},
		},
		{
			name: "the other volume",
			spec: `{"volumes":[{"name":"ci","cloudInitConfigDrive":{}}],"accessCredentials":[{"sshPublicKey":{` + key + `,"propagationMethod":{"noCloud":{}}}}]}`,
			want: []string{
				`credential-needs-volume: spec.accessCredentials[0].sshPublicKey.propagationMethod: Invalid value: "noCloud": no volume is a cloudInitNoCloud`,
			},
		},
	})
}
