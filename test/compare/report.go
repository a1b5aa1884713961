package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is the result of a comparison.
type report struct {
	engines []program
	rows    []row
	// busy is the share of the processors that other programs used when the comparison began, in percent.
	busy   float64
	rounds int
}

// virtwardColumn is the index of Virtward in the engines; those before only decode.
const virtwardColumn = 1

// peerIsFaster reports whether a peer needs less CPU time than Virtward.
func (r *row) peerIsFaster() bool {
	for _, f := range r.figures[virtwardColumn+1:] {
		if f != nil && f.cpu < r.figures[virtwardColumn].cpu {
			return true
		}
	}
	return false
}

// markdown returns the tables. The rows in which a peer is faster are the first ones.
func (r *report) markdown() (string, error) {
	slices.SortStableFunc(r.rows, func(a, b row) int {
		switch fasterA, fasterB := a.peerIsFaster(), b.peerIsFaster(); {
		case fasterA && !fasterB:
			return -1
		case fasterB && !fasterA:
			return 1
		}
		return 0
	})
	machine, err := describe()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s, with %s, on %s, of which other programs used %.0f %%. The minimum of %d rounds. %s\n\n",
		time.Now().UTC().Format("2006-01-02"), runtime.Version(), machine, r.busy, r.rounds, r.versions())
	b.WriteString("| Policies | Denied")
	for _, e := range r.engines {
		fmt.Fprintf(&b, " | %s", e.title)
	}
	b.WriteString(" |\n|---|---" + strings.Repeat("|---", len(r.engines)) + "|\n")
	for i := range r.rows {
		row := &r.rows[i]
		fmt.Fprintf(&b, "| %s | %d of %d", row.set.title, row.denied, requests)
		for column, f := range row.figures {
			b.WriteString(" | " + cell(f, row.figures[virtwardColumn], column > virtwardColumn))
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\nThe same runs, in allocations for a request, and in MB of live heap with the compiled policies:\n\n| Policies")
	for _, e := range r.engines[virtwardColumn:] {
		fmt.Fprintf(&b, " | %s", e.title)
	}
	b.WriteString(" |\n|---" + strings.Repeat("|---", len(r.engines)-virtwardColumn) + "|\n")
	for i := range r.rows {
		b.WriteString("| " + r.rows[i].set.title)
		for _, f := range r.rows[i].figures[virtwardColumn:] {
			if f == nil {
				b.WriteString(" | no Rego")
				continue
			}
			fmt.Fprintf(&b, " | %s, %.0f MB", thousands(int64(f.allocations)), float64(f.heap)/(1<<20)) //nolint:gosec // it fits
		}
		b.WriteString(" |\n")
	}
	return b.String(), nil
}

// cell is a time in µs, and for a peer its ratio to Virtward's.
func cell(f, virtward *figure, peer bool) string {
	if f == nil {
		return "no Rego"
	}
	text := thousands(f.cpu.Microseconds()) + " µs"
	if peer {
		text += fmt.Sprintf(" (%.1f ×)", float64(f.cpu)/float64(virtward.cpu))
	}
	return text
}

func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// versions names the engines and the libraries that evaluate their policies.
func (r *report) versions() string {
	var parts []string
	seen := map[string]bool{}
	for i, e := range r.engines[virtwardColumn:] {
		name, _, _ := strings.Cut(e.title, ",")
		for _, row := range r.rows {
			f := row.figures[virtwardColumn+i]
			if f == nil || seen[name] {
				continue
			}
			seen[name] = true
			text := name
			if e.module != "" {
				text += " " + f.versions[e.module]
			}
			text += fmt.Sprintf(" (cel-go %s, k8s.io/apiserver %s", f.versions["github.com/google/cel-go"], f.versions["k8s.io/apiserver"])
			if e.rego {
				text += ", OPA " + f.versions["github.com/open-policy-agent/opa"]
			}
			parts = append(parts, text+")")
		}
	}
	return strings.Join(parts, ", ") + "."
}

// usage is how long busy measures.
const usage = 5 * time.Second

// busy returns the share of the processors' time that programs use while this one waits, in percent.
func busy() (float64, error) {
	usedBefore, allBefore, err := processors()
	if err != nil {
		return 0, err
	}
	time.Sleep(usage)
	used, all, err := processors()
	if err != nil {
		return 0, err
	}
	return 100 * (used - usedBefore) / (all - allBefore), nil
}

// processors returns for how long the processors have not been idle, and for how long there have been processors, in ticks.
func processors() (used, all float64, err error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, field := range fields[1:9] { // what follows is a part of the first ones
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat: %w", err)
		}
		all += ticks
		if idle := i == 3 || i == 4; !idle {
			used += ticks
		}
	}
	return used, all, nil
}

// describe names the processor of this machine.
func describe() (string, error) {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "model name"); ok {
			return fmt.Sprintf("%d processors (%s)", runtime.NumCPU(), strings.TrimLeft(name, "\t :")), nil
		}
	}
	return "", errors.Join(errors.New("/proc/cpuinfo names no processor"), lines.Err())
}

// The tables are between these lines of the page.
const (
	begin = "<!-- generated: the comparison, by make compare -->\n"
	end   = "<!-- end -->\n"
)

// insert replaces the tables of a page.
func insert(path, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(path, []byte(string(before)+begin+"\n"+text+"\n"+end+string(after)), 0o644) //nolint:gosec // a page that all can read
}
