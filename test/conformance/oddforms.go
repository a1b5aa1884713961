package conformance

import "regexp"

// oddForm is a path that KubeVirt gets wrong at any index.
type oddForm struct {
	kubeVirt *regexp.Regexp
	// causeType of the causes that this is about; any if empty.
	causeType string
	// ours is the real path, with the submatches of KubeVirt's. Where KubeVirt leaves the index out, "[*]"
	// stands for any.
	ours string
}

var oddForms = []oddForm{
	{regexp.MustCompile(`^(spec(?:\.template\.spec)?)\[(\d+)\]\.bootOrder$`), "", "${1}.domain.devices.interfaces[${2}].bootOrder"},
	{regexp.MustCompile(`^(.*\.devices\.disks)\.domain\.devices\.disks\.disk(\[\d+\])\.pciAddress$`), "", "${1}${2}.disk.pciAddress"},
	{regexp.MustCompile(`^(.*\.devices\.disks)\.domain\.devices\.disks(\[\d+\])$`), "FieldValueNotSupported", "${1}${2}.dedicatedIOThread"},
	{regexp.MustCompile(`^(.*\.devices\.disks)\.domain\.devices\.disks(\[\d+\]\..*)$`), "", "${1}${2}"},
	{regexp.MustCompile(`^(.*\.devices\.disks)\.luns\.reservation$`), "", "${1}[*].lun.reservation"},
	{regexp.MustCompile(`^(.*)\.domain\.volumes(\[\d+\].*)$`), "", "${1}.volumes${2}"},
	{regexp.MustCompile(`^(.*\.volumes\[\d+\])\.name$`), "FieldValueRequired", "${1}.dataVolume.name"},
}

var anyIndex = regexp.MustCompile(`\[\d+\]`)

// is tells whether a cause that KubeVirt lists is one of ours.
func (c Cause) is(ours Cause) bool {
	if c == (Cause{}) { // KubeVirt's check of the schema names neither
		return true
	}
	if c.Type != ours.Type {
		return false
	}
	if RealPath(c.Field) == ours.Field || atOddPlace(c.Field, ours.Field) {
		return true
	}
	for _, form := range oddForms {
		if form.causeType != "" && form.causeType != c.Type || !form.kubeVirt.MatchString(c.Field) {
			continue
		}
		path := form.kubeVirt.ReplaceAllString(c.Field, form.ours)
		return path == ours.Field || path == anyIndex.ReplaceAllString(ours.Field, "[*]")
	}
	return false
}
