package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/test/compare/engine"
)

// options are the flags.
type options struct {
	engine              string
	gatekeeper, kyverno string
	only                *regexp.Regexp
	rounds              int
	least               time.Duration
	document            string
	apiServer           bool
}

func main() {
	o := options{}
	flag.StringVar(&o.engine, "engine", "", "be the process of an engine: virtward, or decoding")
	flag.StringVar(&o.gatekeeper, "gatekeeper", "", "the program of Gatekeeper")
	flag.StringVar(&o.kyverno, "kyverno", "", "the program of Kyverno")
	only := flag.String("only", "", "a regular expression for the names of sets of policies; other sets are left out, and nothing is written")
	flag.IntVar(&o.rounds, "rounds", 25, "the rounds, of which the minimum counts")
	flag.DurationVar(&o.least, "least", 100*time.Millisecond, "the CPU time that an engine is measured for in a round")
	flag.StringVar(&o.document, "document", "", "the page that the tables are written to; empty only prints them")
	flag.BoolVar(&o.apiServer, "apiserver", true, "compare through an API server too; it needs bin/ of make build and make sandbox-binaries")
	flag.Parse()
	log.SetLogger(logr.Discard())
	switch o.engine {
	case "virtward":
		engine.Serve(newVirtward)
		return
	case "decoding":
		engine.Serve(newDecoding)
		return
	}
	err := error(nil)
	if o.only, err = regexp.Compile(*only); err == nil {
		err = compare(&o, *only == "")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compare measures all sets, prints the tables, and writes them if no set was left out.
func compare(o *options, all bool) error {
	if o.gatekeeper == "" || o.kyverno == "" {
		return errors.New("-gatekeeper and -kyverno must name programs: run make compare")
	}
	if o.document != "" && !(all && o.apiServer) {
		return errors.New("-document needs all figures: leave out -only and -apiserver=false, or -document")
	}
	engines, err := programs(o)
	if err != nil {
		return err
	}
	chosen, err := sets()
	if err != nil {
		return err
	}
	samples, err := reviews()
	if err != nil {
		return err
	}
	others, err := busy()
	if err != nil {
		return err
	}
	r := &report{engines: engines, busy: others, rounds: o.rounds}
	for _, s := range chosen {
		if !o.only.MatchString(s.name) {
			continue
		}
		row, err := measure(o, engines, s, samples)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.rows = append(r.rows, row)
		fmt.Fprintln(os.Stderr, row)
	}
	text, err := r.markdown()
	if err != nil {
		return err
	}
	if o.apiServer {
		j, err := throughAPIServer(context.Background(), peersOf(engines), policiesOf(chosen, throughServer), samples)
		if err != nil {
			return fmt.Errorf("through the API server: %w", err)
		}
		text += "\n" + j.markdown()
	}
	fmt.Print(text)
	if o.document == "" {
		return nil
	}
	return insert(o.document, text)
}
