package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/conformance/domains"
	"github.com/virtward/virtward/conformance/golden"
	"github.com/virtward/virtward/conformance/labels"
	"github.com/virtward/virtward/conformance/pods"
	"github.com/virtward/virtward/conformance/rollouts"
	"github.com/virtward/virtward/conformance/templates"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/texts"
)

// reports are the comparisons with KubeVirt, virt-template, and HCO, SSP and CDI.
type reports struct {
	pipeline  *effective.Pipeline
	kubeVirt  *conformance.Report
	templates *templates.Report
	rollouts  *rollouts.Report
	golden    *golden.Report
	domains   *domains.Report
	pods      *pods.Report
	labels    *labels.Report
}

// replay answers the cases of all files.
func replay(names []string, sources string) (*reports, error) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, err
	}
	files, err := casesIn(names)
	if err != nil {
		return nil, err
	}
	r := &reports{
		pipeline:  effective.NewPipeline(registry),
		kubeVirt:  conformance.NewReport(),
		templates: templates.NewReport(templates.Options{Sources: sources}),
		rollouts:  rollouts.NewReport(),
		golden:    golden.NewReport(),
		domains:   domains.NewReport(registry),
		pods:      pods.NewReport(registry),
		labels:    labels.NewReport(),
	}
	for _, name := range files {
		if err := r.replayFile(name.file, name.directory); err != nil {
			return nil, err
		}
	}
	if len(r.kubeVirt.Areas()) == 0 && !slices.ContainsFunc(r.others(), func(o other) bool { return o.cases > 0 }) {
		return nil, fmt.Errorf("%s: no cases", strings.Join(names, ", "))
	}
	return r, nil
}

// caseFile is a file, and the directory in which it was found; empty for a file of the command line.
type caseFile struct{ file, directory string }

// casesIn are the files, and those of directories and their subdirectories whose names end with .jsonl.
func casesIn(names []string) ([]caseFile, error) {
	var files []caseFile
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || !info.IsDir() {
			files = append(files, caseFile{file: name}) // manifests.OpenFound has the better error
			continue
		}
		err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Ext(path) == ".jsonl" {
				files = append(files, caseFile{path, name})
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading the directory: %w", err)
		}
	}
	return files, nil
}

func (r *reports) replayFile(name, directory string) error {
	file, err := manifests.OpenFound(name, directory)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := conformance.Lines(file, r.replayLine); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// replayLine answers one case: of templates, of golden images, of a domain, of a pod, of labels of a node, of a change of a running VM, or of KubeVirt's admission.
func (r *reports) replayLine(line []byte) error {
	var c struct{ Area string }
	if json.Unmarshal(line, &c) == nil && templates.IsCase(c.Area) {
		return r.templates.Replay(slices.Clone(line))
	}
	if golden.IsCase(c.Area) {
		return r.golden.ReplayLine(line)
	}
	if domains.IsCase(line) {
		return r.domains.ReplayLine(line)
	}
	if pods.IsCase(line) {
		return r.pods.ReplayLine(line)
	}
	if labels.IsCase(line) {
		return r.labels.ReplayLine(line)
	}
	if rollouts.IsCase(line) {
		return r.rollouts.ReplayLine(line)
	}
	return r.kubeVirt.ReplayLine(r.pipeline, line)
}

// other is a comparison that is only printed if it has cases, unlike that of KubeVirt's admission.
type other struct {
	// cases is 0 if there are none; of some comparisons it counts areas.
	cases   int
	write   func(w io.Writer, verbose bool) error
	summary func() string
}

// others are in the order in which they are printed.
func (r *reports) others() []other {
	table := func(write func(io.Writer) error) func(io.Writer, bool) error {
		return func(w io.Writer, _ bool) error { return write(w) }
	}
	return []other{
		{len(r.templates.Results), r.templates.Write, r.templates.Summary},
		{len(r.rollouts.Areas), table(r.rollouts.WriteTable), r.rollouts.Summary},
		{len(r.golden.Areas), table(r.golden.WriteTable), r.golden.Summary},
		{len(r.domains.Areas), table(r.domains.WriteTable), r.domains.Summary},
		{len(r.pods.Areas), table(r.pods.WriteTable), r.pods.Summary},
		{len(r.labels.Areas), table(r.labels.WriteTable), r.labels.Summary},
	}
}

// write prints the tables and the summary, and the differences if verbose is true.
func (r *reports) write(w io.Writer, verbose bool) error {
	if verbose {
		differences := slices.Concat(r.kubeVirt.Differences, r.rollouts.Differences, r.golden.Differences, r.domains.Differences, r.pods.Differences, r.labels.Differences)
		for _, d := range differences {
			fmt.Fprintf(w, "%s: %s: %s\n", texts.OneLine(d.Case), d.What, texts.OneLine(d.Text))
		}
		if len(differences) > 0 {
			fmt.Fprintln(w)
		}
	}
	summaries := []string{r.kubeVirt.Summary()}
	if len(r.kubeVirt.Areas()) > 0 {
		if err := r.kubeVirt.WriteTable(w); err != nil {
			return err
		}
	}
	for _, o := range r.others() {
		if o.cases == 0 {
			continue
		}
		if err := o.write(w, verbose); err != nil {
			return err
		}
		summaries = append(summaries, o.summary())
	}
	_, err := fmt.Fprintln(w, strings.Join(summaries, " "))
	return err
}

// below returns an error that names the totals below the minimum, or nil.
func (r *reports) below(minimum float64) error {
	total := r.kubeVirt.Total()
	ratios := []namedRatio{{"mutated", total.Mutated}, {"allowed", total.Allowed}, {"causes", total.Causes}, {"expand", total.Expand}}
	for _, name := range templates.Totals() {
		s := r.templates.Total(name)
		ratios = append(ratios, namedRatio{name, conformance.Ratio{Agree: s.Agreed(), Of: s.Total()}})
	}
	ratios = append(ratios, namedRatio{"restart", r.rollouts.Restart}, namedRatio{"live", r.rollouts.Live}, namedRatio{"silent", r.rollouts.Silent})
	golden := r.golden.Total()
	ratios = append(ratios, namedRatio{"golden", conformance.Ratio{Agree: golden.Equal + golden.Better, Of: golden.Applicable()}}, namedRatio{"domain", r.domains.Total}, namedRatio{"pod", r.pods.Total}, namedRatio{"labels", r.labels.Total})
	var low []string
	for _, n := range ratios {
		if n.ratio.Share() < minimum {
			low = append(low, fmt.Sprintf("%s %s is %.4f", n.name, n.ratio, n.ratio.Share()))
		}
	}
	if len(low) == 0 {
		return nil
	}
	return fmt.Errorf("%s, below %v", strings.Join(low, ", "), minimum)
}

// namedRatio is a total with its name.
type namedRatio struct {
	name  string
	ratio conformance.Ratio
}
