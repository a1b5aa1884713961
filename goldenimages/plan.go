package goldenimages

import (
	"maps"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
)

// Plan plans the next writes of a catalog. The DataSource without a suffix stays ready through all of them, if it is.
func Plan(in *Input) Result {
	p := &plan{Input: in, needed: map[string]bool{}, sources: map[string]bool{}, replaced: map[string]bool{}}
	entries := entriesOf(in)
	for _, e := range entries {
		p.uses(e)
	}
	for _, e := range entries {
		p.image(e)
	}
	if in.SSP != "" {
		p.Retired = in.Catalog.Status.Retired
		return p.Result
	}
	p.remembered()
	p.orphans()
	p.pointers()
	p.retired()
	return p.Result
}

type plan struct {
	*Input
	Result

	// needed are the DataImportCrons that an entry needs, or still needs, and sources the DataSources that an entry has.
	// replaced are the DataImportCrons that are deleted and created again.
	needed, sources, replaced map[string]bool
	// added counts the retired DataImportCrons that the status has not yet.
	added int
}

// uses notes the DataSources of an entry. One without imports whose images are deleted has none.
func (p *plan) uses(e *entry) {
	if e.disabled || e.multi && e.problem == nil && len(e.targets) == 0 && temporary(e.DataImportCronTemplate) {
		return
	}
	p.sources[e.source()] = true
	for _, t := range e.targets {
		p.sources[t.cron.Spec.ManagedDataSource] = true
	}
}

func (p *plan) write(verb Verb, object Object) {
	p.Writes = append(p.Writes, Write{verb, object})
}

// image plans one entry.
func (p *plan) image(e *entry) {
	image := v1alpha1.Image{Name: e.Name, DataSource: e.source(), OriginalArchitectures: e.original, Architectures: e.effective, Manifest: e.manifest.status()}
	if previous := p.previous(e.Name); previous != nil {
		image.DefaultArchitecture = previous.DefaultArchitecture
	}
	if e.problem == nil && !e.disabled {
		if e.observed = p.observed(e); e.observed == "" {
			e.problem = p.taken(e)
		}
	}
	switch {
	case e.problem != nil:
		p.keep(e)
	case e.observed != "":
		image.DefaultArchitecture = p.pointed(e)
		p.keep(e)
	case e.disabled || len(e.targets) == 0:
	case e.multi:
		p.architectures(e, &image)
	default:
		image.DefaultArchitecture = ""
		p.once(e)
	}
	p.conditions(e, &image)
	p.Images = append(p.Images, image)
}

// keep leaves everything of an entry as it is.
func (p *plan) keep(e *entry) {
	for _, name := range append([]string{""}, architectures.Names()...) {
		p.needed[Suffixed(e.Name, name)] = true
	}
}

// Contains reports whether a map has all pairs of another.
func Contains(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}

// Merged is a new map with the pairs of two. The second one wins.
func Merged(a, b map[string]string) map[string]string {
	m := maps.Clone(a)
	if m == nil {
		m = map[string]string{}
	}
	maps.Copy(m, b)
	return m
}
