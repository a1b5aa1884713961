package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/test/conformance"
	"github.com/virtward/virtward/test/conformance/golden"
	"github.com/virtward/virtward/test/conformance/rollouts"
	"github.com/virtward/virtward/test/conformance/templates"
	"github.com/virtward/virtward/texts"
)

// reports are the comparisons with KubeVirt, virt-template, and HCO, SSP and CDI.
type reports struct {
	pipeline  *effective.Pipeline
	kubeVirt  *conformance.Report
	templates *templates.Report
	rollouts  *rollouts.Report
	golden    *golden.Report
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
	}
	for _, name := range files {
		if err := r.replayFile(name.file, name.directory); err != nil {
			return nil, err
		}
	}
	if len(r.kubeVirt.Areas()) == 0 && len(r.templates.Results) == 0 && len(r.rollouts.Areas) == 0 && len(r.golden.Areas) == 0 {
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

// replayLine answers one case: of templates, of golden images, of a change of a running VM, or of KubeVirt's admission.
func (r *reports) replayLine(line []byte) error {
	var c struct{ Area string }
	if json.Unmarshal(line, &c) == nil && templates.IsCase(c.Area) {
		return r.templates.Replay(slices.Clone(line))
	}
	if golden.IsCase(c.Area) {
		return r.golden.ReplayLine(line)
	}
	if rollouts.IsCase(line) {
		return r.rollouts.ReplayLine(line)
	}
	return r.kubeVirt.ReplayLine(r.pipeline, line)
}

// write prints the tables and the summary, and the differences if verbose is true.
func (r *reports) write(w io.Writer, verbose bool) error {
	if verbose {
		differences := slices.Concat(r.kubeVirt.Differences, r.rollouts.Differences, r.golden.Differences)
		for _, d := range differences {
			fmt.Fprintf(w, "%s: %s: %s\n", texts.OneLine(d.Case), d.What, texts.OneLine(d.Text))
		}
		if len(differences) > 0 {
			fmt.Fprintln(w)
		}
	}
	summary := r.kubeVirt.Summary()
	if len(r.kubeVirt.Areas()) > 0 {
		if err := r.kubeVirt.WriteTable(w); err != nil {
			return err
		}
	}
	if len(r.templates.Results) > 0 {
		if err := r.templates.Write(w, verbose); err != nil {
			return err
		}
		summary += " " + r.templates.Summary()
	}
	if len(r.rollouts.Areas) > 0 {
		if err := r.rollouts.WriteTable(w); err != nil {
			return err
		}
		summary += " " + r.rollouts.Summary()
	}
	if len(r.golden.Areas) > 0 {
		if err := r.golden.WriteTable(w); err != nil {
			return err
		}
		summary += " " + r.golden.Summary()
	}
	_, err := fmt.Fprintln(w, summary)
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
	ratios = append(ratios, namedRatio{"golden", conformance.Ratio{Agree: golden.Equal + golden.Better, Of: golden.Applicable()}})
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
