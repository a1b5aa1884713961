package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/virtward/virtward/test/compare/engine"
)

// program is an engine that runs as a process.
type program struct {
	title   string
	command []string
	// module is the one whose version the table names; empty for Virtward itself.
	module string
	// rego tells that it evaluates Rego.
	rego bool
	// decides tells that it evaluates policies.
	decides bool
}

// programs returns the engines in the order of their columns. The first one only decodes, and the second one is Virtward.
func programs(o *options) ([]program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	const gatekeeper, kyverno = "github.com/open-policy-agent/gatekeeper/v3", "github.com/kyverno/kyverno"
	return []program{
		{title: "Decode", command: []string{self, "-engine", "decoding"}, rego: true},
		{title: "Virtward", command: []string{self, "-engine", "virtward"}, rego: true, decides: true},
		{title: "Gatekeeper", command: []string{o.gatekeeper}, module: gatekeeper, rego: true, decides: true},
		{title: "Gatekeeper, shared templates", command: []string{o.gatekeeper, "-shared"}, module: gatekeeper, rego: true, decides: true},
		{title: "Kyverno", command: []string{o.kyverno}, module: kyverno, decides: true},
	}, nil
}

// peersOf returns one program of each peer.
func peersOf(engines []program) []program {
	var peers []program
	for _, e := range engines {
		if e.module != "" && !slices.ContainsFunc(peers, func(p program) bool { return p.module == e.module }) {
			peers = append(peers, e)
		}
	}
	return peers
}

// figure is what was measured of one engine with one set. It is nil if the engine does not have the language of the set.
type figure struct {
	cpu         time.Duration
	allocations uint64
	heap        uint64
	versions    map[string]string
}

// row has the figures of a set, by the index of the engine.
type row struct {
	set     set
	figures []*figure
	// denied is the number of requests that all engines deny.
	denied int
}

// String is a line of progress.
func (r row) String() string {
	parts := []string{r.set.name}
	for _, f := range r.figures {
		if f == nil {
			parts = append(parts, "-")
			continue
		}
		parts = append(parts, f.cpu.String())
	}
	return strings.Join(parts, " ")
}

// process is a running engine.
type process struct {
	command *exec.Cmd
	in      *json.Encoder
	out     *json.Decoder
	close   func() error
}

func start(p *program) (*process, error) {
	command := exec.Command(p.command[0], p.command[1:]...)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.title, err)
	}
	return &process{command, json.NewEncoder(in), json.NewDecoder(out), in.Close}, nil
}

// stop ends the process, which ends at the end of its input.
func (p *process) stop() error { return errors.Join(p.close(), p.command.Wait()) }

func (p *process) ask(question, answer any) error {
	if err := p.in.Encode(question); err != nil {
		return err
	}
	return p.out.Decode(answer)
}

// measure runs the engines in turn, and keeps the minimum of each.
func measure(o *options, engines []program, s set, samples []json.RawMessage) (result row, err error) {
	result = row{set: s, figures: make([]*figure, len(engines))}
	running := make([]*process, len(engines))
	defer func() {
		for _, p := range running {
			if p != nil {
				err = errors.Join(err, p.stop())
			}
		}
	}()
	var verdicts [][]string
	for i := range engines {
		if s.policies[0].Rego != "" && !engines[i].rego {
			continue
		}
		if running[i], err = start(&engines[i]); err != nil {
			return result, err
		}
		loaded := engine.Loaded{}
		if err := running[i].ask(engine.Load{Policies: s.policies, Reviews: samples, Namespace: namespace}, &loaded); err != nil {
			return result, fmt.Errorf("%s: %w", engines[i].title, err)
		}
		if loaded.Error != "" {
			return result, fmt.Errorf("%s: %s", engines[i].title, loaded.Error)
		}
		result.figures[i] = &figure{heap: loaded.Heap, versions: loaded.Versions}
		switch {
		case !engines[i].decides:
		case verdicts == nil:
			verdicts = loaded.Denying
		case !reflect.DeepEqual(verdicts, loaded.Denying):
			return result, fmt.Errorf("%s and %s have different verdicts: %s", engines[1].title, engines[i].title, difference(verdicts, loaded.Denying))
		}
	}
	for _, denying := range verdicts {
		if len(denying) > 0 {
			result.denied++
		}
	}
	for round := range o.rounds {
		for i := range engines {
			i = (i + round) % len(engines) // no engine is always the first after another
			if running[i] == nil {
				continue
			}
			measured := engine.Measured{}
			if err := running[i].ask(engine.Run{Least: o.least}, &measured); err != nil {
				return result, fmt.Errorf("%s: %w", engines[i].title, err)
			}
			if measured.Error != "" {
				return result, fmt.Errorf("%s: %s", engines[i].title, measured.Error)
			}
			if f := result.figures[i]; round == 0 || measured.CPU < f.cpu {
				f.cpu, f.allocations = measured.CPU, measured.Allocations
			}
		}
	}
	return result, nil
}

// difference returns the first request with different verdicts.
func difference(a, b [][]string) string {
	for i := range a {
		if !reflect.DeepEqual(a[i], b[i]) {
			return fmt.Sprintf("request %d is denied by %v and by %v", i, a[i], b[i])
		}
	}
	return "none"
}
