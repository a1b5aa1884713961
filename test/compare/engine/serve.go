package engine

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"
)

// Engine is a policy engine with its policies compiled.
type Engine interface {
	// Evaluate evaluates the request with an index in Load.Reviews.
	Evaluate(request int) (any, error)
	// Denying returns the names of the policies that deny, of what Evaluate returned.
	Denying(answer any) ([]string, error)
}

// Webhook is an engine that answers AdmissionReviews, from bytes to bytes.
type Webhook interface {
	Review(body []byte) ([]byte, error)
}

// Loaded answers a Load.
type Loaded struct {
	// Denying has the policies that deny each request, sorted.
	Denying [][]string `json:"denying"`
	// Heap is the live heap in bytes, with the compiled policies and the requests.
	Heap uint64 `json:"heap"`
	// Versions are those of the modules of the program.
	Versions map[string]string `json:"versions"`
	// Error says why nothing was loaded.
	Error string `json:"error,omitempty"`
}

// Run asks for a measurement.
type Run struct {
	// At least this CPU time, in nanoseconds, and at least one pass over all requests.
	Least time.Duration `json:"least"`
}

// Measured answers a Run.
type Measured struct {
	// CPU is the CPU time for each request, garbage collection included.
	CPU time.Duration `json:"cpu"`
	// Allocations are those for each request.
	Allocations uint64 `json:"allocations"`
	Error       string `json:"error,omitempty"`
}

// Serve is the main function of an engine's program. compile compiles the policies of a Load. It ends the process with an
// error if a request fails.
func Serve(compile func(*Load) (Engine, error)) {
	if err := serve(os.Stdin, os.Stdout, compile); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer, compile func(*Load) (Engine, error)) error {
	lines, answers := json.NewDecoder(bufio.NewReaderSize(in, 1<<20)), json.NewEncoder(out)
	load := &Load{}
	if err := lines.Decode(load); err != nil {
		return fmt.Errorf("reading the policies: %w", err)
	}
	engine, loaded := start(load, compile)
	_, serves := engine.(Webhook)
	if load.Listen != nil && engine != nil && !serves {
		engine, loaded = nil, Loaded{Error: "the engine is not a webhook"}
	}
	if err := answers.Encode(loaded); err != nil || engine == nil {
		return err
	}
	if load.Listen != nil {
		return listen(engine, load.Listen, in)
	}
	requests := len(load.Reviews)
	load = nil // its texts are not part of the engine
	for {
		run := Run{}
		if err := lines.Decode(&run); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading what to measure: %w", err)
		}
		if err := answers.Encode(measure(engine, requests, run)); err != nil {
			return err
		}
	}
}

func start(load *Load, compile func(*Load) (Engine, error)) (Engine, Loaded) {
	engine, err := compile(load)
	if err != nil {
		return nil, Loaded{Error: err.Error()}
	}
	loaded := Loaded{Versions: versions()}
	for i := range load.Reviews {
		answer, err := engine.Evaluate(i)
		if err != nil {
			return nil, Loaded{Error: fmt.Sprintf("request %d: %v", i, err)}
		}
		denying, err := engine.Denying(answer)
		if err != nil {
			return nil, Loaded{Error: fmt.Sprintf("request %d: %v", i, err)}
		}
		slices.Sort(denying)
		loaded.Denying = append(loaded.Denying, slices.Compact(denying))
	}
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	loaded.Heap = stats.HeapAlloc
	return engine, loaded
}

func measure(engine Engine, requests int, run Run) Measured {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, passes := cpuTime(), 0
	for passes == 0 || cpuTime()-began < run.Least {
		for i := range requests {
			if _, err := engine.Evaluate(i); err != nil {
				return Measured{Error: fmt.Sprintf("request %d: %v", i, err)}
			}
		}
		passes++
	}
	spent := cpuTime() - began
	runtime.ReadMemStats(&after)
	count := passes * requests
	return Measured{CPU: spent / time.Duration(count), Allocations: (after.Mallocs - before.Mallocs) / uint64(count)} //nolint:gosec // it is positive
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(fmt.Sprintf("reading the CPU time of the process: %v", err)) // it cannot fail on Linux
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// versions returns the versions of the modules in the program.
func versions() map[string]string {
	all := map[string]string{"go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return all
	}
	for _, module := range info.Deps {
		all[module.Path] = module.Version
		if module.Replace != nil && module.Replace.Version != "" {
			all[module.Path] = module.Replace.Version
		}
	}
	return all
}
