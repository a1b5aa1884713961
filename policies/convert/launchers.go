package convert

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/virtward/virtward/texts"
)

// launcherSources are the fields of a virtual machine from which KubeVirt sets fields of its pod, by these.
var launcherSources = map[string]string{
	"metadata.namespace":             "metadata.namespace",
	"metadata.labels":                "spec.template.metadata.labels",
	"metadata.annotations":           "spec.template.metadata.annotations",
	"spec.affinity":                  "spec.template.spec.affinity",
	"spec.dnsConfig":                 "spec.template.spec.dnsConfig",
	"spec.dnsPolicy":                 "spec.template.spec.dnsPolicy",
	"spec.nodeSelector":              "spec.template.spec.nodeSelector",
	"spec.priorityClassName":         "spec.template.spec.priorityClassName",
	"spec.schedulerName":             "spec.template.spec.schedulerName",
	"spec.tolerations":               "spec.template.spec.tolerations",
	"spec.topologySpreadConstraints": "spec.template.spec.topologySpreadConstraints",
}

// selectsLaunchers reports whether a rule matches only pods of virtual machines, by their label.
func (r *clusterRule) selectsLaunchers() bool {
	filters, _ := r.Match.filters()
	return !slices.ContainsFunc(filters, func(f clusterFilter) bool {
		return f.Resources == nil || f.Resources.Selector == nil || f.Resources.Selector.MatchLabels["kubevirt.io"] != "virt-launcher" ||
			slices.ContainsFunc(f.Resources.Kinds, func(text string) bool { _, _, kind, _ := kindSelector(text); return kind != "Pod" })
	})
}

// objectField is a field of the object in a variable, with the one around it.
var objectField = regexp.MustCompile(`request\.object\.([A-Za-z]+\.[A-Za-z]+)`)

// launcherFields returns the fields that a rule reads: those of its patterns, and those in its variables.
func (r *clusterRule) launcherFields() []string {
	var all []string
	patterns, _ := r.Validate.AnyPattern.([]any)
	for _, pattern := range append(slices.Clone(patterns), r.Validate.Pattern) {
		fields, _ := pattern.(map[string]any)
		for _, key := range keysOf(fields) {
			_, outer := splitAnchor(key)
			inner, _ := fields[key].(map[string]any)
			for _, below := range keysOf(inner) {
				_, name := splitAnchor(below)
				all = append(all, outer+"."+name)
			}
		}
	}
	// What cannot be encoded cannot be read.
	content, _ := json.Marshal([]any{r.Validate.Deny, r.Validate.ForEach, r.Preconditions, r.Context})
	for _, found := range objectField.FindAllSubmatch(content, -1) {
		all = append(all, string(found[1]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// unmatched says why a rule that matches no virtual machine is not converted.
func (r *clusterRule) unmatched() string {
	message := because(NoVirtualMachine)
	if advice := r.launchers(); advice != "" {
		message += "; it " + advice
	}
	return message
}

// launchers names where the fields that a rule about pods of virtual machines reads come from. It is empty for other rules.
func (r *clusterRule) launchers() string {
	if !r.selectsLaunchers() || r.Validate == nil {
		return ""
	}
	message := "selects pods of virtual machines: write it for VirtualMachines"
	var from, without []string
	for _, name := range r.launcherFields() {
		source, known := launcherSources[name]
		switch {
		case !known:
			without = append(without, texts.Shorten(name, maxQuoted))
		case source != name:
			from = append(from, source+" for "+name)
		}
	}
	if len(from) > 0 {
		message += ", with " + texts.Shorten(strings.Join(from, ", "), maxListed)
	}
	if len(without) > 0 {
		message += "; without an equal field: " + texts.Shorten(strings.Join(without, ", "), maxListed)
	}
	return message
}

// maxListed bounds the fields in a message, in bytes.
const maxListed = 500
