package validators

import (
	"encoding/base64"
	"fmt"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// maxCloudInit bounds user data and network data in bytes: they are part of the object, which goes to many
// nodes at every change. What is larger belongs into a secret.
const maxCloudInit = 2048

func cloudInitRules() Table {
	return Scoped(OnSpec,
		cloudInitHasDataRule,
		cloudInitOneSourceRule,
		cloudInitBase64Rule,
		cloudInitSizeRule,
	)
}

// cloudInit is what a volume gives to cloud-init.
type cloudInit struct {
	source        string
	user, network cloudInitData
}

// data are the two kinds of data.
func (c *cloudInit) data() []*cloudInitData { return []*cloudInitData{&c.user, &c.network} }

// cloudInitData is one of the two kinds of data.
type cloudInitData struct {
	kind, plainField, encodedField, secretField string

	plain, encoded string
	secret         *k8sv1.LocalObjectReference
}

// sources counts where the data comes from.
func (d *cloudInitData) sources() (n int) {
	if d.plain != "" {
		n++
	}
	if d.encoded != "" {
		n++
	}
	if d.secret != nil && d.secret.Name != "" {
		n++
	}
	return n
}

// size of the data in the object, as far as it is needed. Of what is no base64, the part before the mistake
// counts.
func (d *cloudInitData) size() int {
	size := len(d.plain)
	if base64.StdEncoding.DecodedLen(len(d.encoded)) > maxCloudInit {
		decoded, _ := base64.StdEncoding.DecodeString(d.encoded)
		size = max(size, len(decoded))
	}
	return size
}

// eachCloudInit calls a check for the volumes with data for cloud-init. The findings' paths are relative to the
// volume: a volume is seldom wrong, and a path costs more than the checks.
func eachCloudInit(s *Subject, check func(c *cloudInit) []cloudInitFault, found *Errors) {
	for i := range s.Spec.Volumes {
		if v := &s.Spec.Volumes[i]; v.CloudInitNoCloud == nil && v.CloudInitConfigDrive == nil {
			continue
		}
		c, _ := cloudInitOf(&s.Spec.Volumes[i])
		for _, fault := range check(&c) {
			path := s.Path.Child("volumes").Index(i).Child(c.source)
			if fault.child != "" {
				path = path.Child(fault.child)
			}
			// The data is not repeated: there are passwords in it.
			found.Add(field.Invalid(path, field.OmitValueType{}, fault.detail))
		}
	}
}

// cloudInitFault is what is wrong with a source, or with a field of it.
type cloudInitFault struct{ child, detail string }

// cloudInitOf is the data of a volume, if it has any. Of a volume with both sources, which is rejected anyway,
// the first counts.
func cloudInitOf(volume *v1.Volume) (c cloudInit, ok bool) {
	c.user = cloudInitData{kind: "user data", plainField: "userData", encodedField: "userDataBase64", secretField: "secretRef"}
	c.network = cloudInitData{kind: "network data", plainField: "networkData", encodedField: "networkDataBase64", secretField: "networkDataSecretRef"}
	switch {
	case volume.CloudInitNoCloud != nil:
		source := volume.CloudInitNoCloud
		c.source = "cloudInitNoCloud"
		c.user.plain, c.user.encoded, c.user.secret = source.UserData, source.UserDataBase64, source.UserDataSecretRef
		c.network.plain, c.network.encoded, c.network.secret = source.NetworkData, source.NetworkDataBase64, source.NetworkDataSecretRef
	case volume.CloudInitConfigDrive != nil:
		source := volume.CloudInitConfigDrive
		c.source = "cloudInitConfigDrive"
		c.user.plain, c.user.encoded, c.user.secret = source.UserData, source.UserDataBase64, source.UserDataSecretRef
		c.network.plain, c.network.encoded, c.network.secret = source.NetworkData, source.NetworkDataBase64, source.NetworkDataSecretRef
	}
	return c, c.source != ""
}

var cloudInitHasDataRule = Rule{
	ID:     "cloudinit-has-data",
	Title:  "A cloud-init volume has user data or network data",
	Remedy: "Set user data or network data, or remove the volume.",
	Check:  cloudInitHasData,
}

func cloudInitHasData(s *Subject, found *Errors) {
	eachCloudInit(s, func(c *cloudInit) []cloudInitFault {
		if c.user.sources()+c.network.sources() > 0 {
			return nil
		}
		return []cloudInitFault{{detail: "has no data, and names no secret with data"}}
	}, found)
}

var cloudInitOneSourceRule = Rule{
	ID:     "cloudinit-one-source",
	Title:  "User data and network data each come from one source",
	Remedy: "Keep one source.",
	Check:  cloudInitOneSource,
}

func cloudInitOneSource(s *Subject, found *Errors) {
	eachCloudInit(s, func(c *cloudInit) (faults []cloudInitFault) {
		for _, d := range c.data() {
			if n := d.sources(); n > 1 {
				faults = append(faults, cloudInitFault{detail: fmt.Sprintf("has %d sources of %s; at most one of %s, %s and %s can be set",
					n, d.kind, d.plainField, d.encodedField, d.secretField)})
			}
		}
		return faults
	}, found)
}

var cloudInitBase64Rule = Rule{
	ID:     "cloudinit-base64",
	Title:  "Encoded user data and network data is valid base64",
	Remedy: "Encode it with the standard alphabet and padding, as base64 -w0 does.",
	Check:  cloudInitBase64,
}

func cloudInitBase64(s *Subject, found *Errors) {
	eachCloudInit(s, func(c *cloudInit) (faults []cloudInitFault) {
		for _, d := range c.data() {
			if _, err := base64.StdEncoding.DecodeString(d.encoded); err != nil {
				faults = append(faults, cloudInitFault{child: d.encodedField, detail: fmt.Sprintf("the %s is not valid base64: %v", d.kind, err)})
			}
		}
		return faults
	}, found)
}

var cloudInitSizeRule = Rule{
	ID:     "cloudinit-size",
	Title:  "Inline user data and network data has at most 2048 bytes",
	Remedy: "Move it to a Secret, and name the Secret in secretRef instead of userData, or in networkDataSecretRef instead of networkData.",
	Check:  cloudInitSize,
}

func cloudInitSize(s *Subject, found *Errors) {
	eachCloudInit(s, func(c *cloudInit) (faults []cloudInitFault) {
		for _, d := range c.data() {
			if size := d.size(); size > maxCloudInit {
				faults = append(faults, cloudInitFault{detail: fmt.Sprintf("the %s has %d bytes, more than %d", d.kind, size, maxCloudInit)})
			}
		}
		return faults
	}, found)
}
