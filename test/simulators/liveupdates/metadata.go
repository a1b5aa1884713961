package liveupdates

import (
	"maps"
	"slices"
	"strings"
)

// backupHooks is an annotation of the VM itself that virt-controller copies.
const backupHooks = "kubevirt.io/skip-backup-hooks"

// evictions are annotations of the template that virt-controller always copies.
var evictions = []string{"descheduler.alpha.kubernetes.io/evict", "descheduler.alpha.kubernetes.io/prefer-no-eviction"}

// metadata copies the labels and annotations that are allowed, and removes those that the VM does not have.
func (p *pass) metadata() *Failure {
	template := &p.Wanted.ObjectMeta
	labels := copied(template.Labels, p.instance.Labels, p.Synced.Labels)
	annotations := copied(template.Annotations, p.instance.Annotations, append(slices.Clone(evictions), p.Synced.Annotations...))
	both := copied(p.VM.Annotations, annotations, []string{backupHooks})
	if !maps.Equal(annotations, p.instance.Annotations) && !maps.Equal(both, annotations) {
		return fails(reasonMetadata, "Error encountered while handling annotation and labels sync request: the server rejected our request due to an error in our request")
	}
	p.instance.Labels, p.instance.Annotations = labels, both
	return nil
}

// copied is a map with the keys of another one that match a pattern.
func copied(from, to map[string]string, patterns []string) map[string]string {
	result := map[string]string{}
	maps.Copy(result, to)
	matches := func(key, _ string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			prefix, wild := strings.CutSuffix(pattern, "*")
			return key == pattern || wild && prefix != "" && strings.HasPrefix(key, prefix)
		})
	}
	maps.DeleteFunc(result, matches)
	for key, value := range from {
		if matches(key, value) {
			result[key] = value
		}
	}
	return result
}
