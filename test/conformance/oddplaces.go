package conformance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// requestNamespace is the namespace that the recorded requests were made in.
const requestNamespace = "default"

// oddPlaces are paths of KubeVirt's that name no field, or only the whole of what is wrong, with a pattern of
// the fields that ours name instead.
var oddPlaces = []struct{ kubeVirt, ours *regexp.Regexp }{
	{regexp.MustCompile(`^$`), regexp.MustCompile(`.`)},
	{regexp.MustCompile(`^Status\.volumeRequests$`), regexp.MustCompile(`^status\.volumeRequests`)},
	{regexp.MustCompile(`^nameservers$`), regexp.MustCompile(`^spec\.(template\.spec\.)?dnsConfig\.nameservers(\[\d+\])?$`)},
	{regexp.MustCompile(`^options$`), regexp.MustCompile(`^spec\.(template\.spec\.)?dnsConfig\.options\[\d+\]\.name$`)},
	{regexp.MustCompile(`^searchDomains$`), regexp.MustCompile(`^spec\.(template\.spec\.)?dnsConfig\.searches(\[\d+\])?$`)},
	{regexp.MustCompile(`^spec$`), regexp.MustCompile(`^spec\.domain\.devices\.interfaces\[\d+\]\.dhcpOptions\.privateOptions\[\d+\]\.option$`)},
	{regexp.MustCompile(`^spec\.template\.spec$`), regexp.MustCompile(`^spec\.template\.spec\.domain\.devices\.interfaces\[\d+\]\.dhcpOptions\.privateOptions\[\d+\]\.option$`)},
	{regexp.MustCompile(`^spec\.domain\.devices\.interfaces\[0\]\.(slirp|passt|macvtap)$`), regexp.MustCompile(`^spec\.template\.spec\.domain\.devices\.interfaces\[0\]\.(slirp|passt|macvtap)$`)},
	{regexp.MustCompile(`^spec\.interfaces$`), regexp.MustCompile(`^spec\.networks$`)},
	{regexp.MustCompile(`^spec\.template\.spec\.interfaces$`), regexp.MustCompile(`^spec\.template\.spec\.networks$`)},
	{regexp.MustCompile(`^spec$`), regexp.MustCompile(`^status\.volumeRequests$`)},
	{regexp.MustCompile(`^spec\.domain\.devices\.disks\[1\]\.bootOrder$`), regexp.MustCompile(`^status\.volumeRequests\[\d+\]\.addVolumeOptions\.disk\.bootOrder$`)},
	{regexp.MustCompile(`^spec\.domain\.devices\.disks\[1\]\.bootOrder$`), regexp.MustCompile(`^spec\.domain\.devices\.disks\[\d+\]\.bootOrder$`)},
	{regexp.MustCompile(`^instancetype\.spec\.cpu\.guest$`), regexp.MustCompile(`^spec\.instancetype$`)},
}

// dataVolumeTemplate is how KubeVirt writes the paths of these.
var dataVolumeTemplate = regexp.MustCompile(`^spec\.dataVolumeTemplates?(\[\d+\])(.*)$`)

// inDataVolumeTemplate are the paths below a DataVolume template.
var inDataVolumeTemplate = map[string][]string{
	"":                  {"", ".metadata.namespace"},
	".PVC.Storage":      {".spec"},
	".name":             {".metadata.name"},
	".source":           {".spec.source", ".spec.sourceRef"},
	".source.sourceRef": {".spec.source"},
}

// atOddPlace tells whether a path of KubeVirt's, which may be several in one string, stands for one of ours.
func atOddPlace(kubeVirt, ours string) bool {
	if paths := strings.Split(kubeVirt, ", "); len(paths) > 1 && slices.Contains(paths, ours) {
		return true
	}
	if parts := dataVolumeTemplate.FindStringSubmatch(kubeVirt); parts != nil {
		below, is := strings.CutPrefix(ours, "spec.dataVolumeTemplates"+parts[1])
		return is && slices.Contains(inDataVolumeTemplate[parts[2]], below)
	}
	for _, place := range oddPlaces {
		if place.kubeVirt.MatchString(kubeVirt) && place.ours.MatchString(ours) {
			return true
		}
	}
	return false
}

// running is the VMI of the case's cluster that runs from a VM; nil if there is none.
func (c *AdmissionCase) running(vm *v1.VirtualMachine) (*v1.VirtualMachineInstance, error) {
	for _, object := range c.Cluster {
		if object["kind"] != kindVMI {
			continue
		}
		data, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		vmi := &v1.VirtualMachineInstance{}
		if err := json.Unmarshal(data, vmi); err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		if vmi.Namespace == vm.Namespace && vmi.Name == vm.Name {
			return vmi, nil
		}
	}
	return nil, nil
}
