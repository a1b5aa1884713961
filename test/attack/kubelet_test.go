package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/virtward/virtward/test/planes"
)

const (
	// kubeletEnv is the variable with the address that the process probes in place of running the suite.
	kubeletEnv = "VIRTWARD_ATTACK_PROBED"
	// unready is how many probes fail one after the other until a kubelet changes something: the chart's failureThreshold
	// of readiness. A pod restarts after more of them, with longer pauses.
	unready = 2
)

func TestMain(m *testing.M) {
	if address := os.Getenv(kubeletEnv); address != "" {
		actAsKubelet(address)
		return
	}
	os.Exit(planes.Only(m, (*testing.M).Run))
}

// probing is what a kubelet has seen.
type probing struct {
	// Slowest is the longest duration of a probe.
	Slowest time.Duration `json:"slowest"`
	// Failed is the first failure that changed the state of the pod; empty if there is none.
	Failed string `json:"failed,omitempty"`
	// Probes counts all of them.
	Probes int `json:"probes"`
}

// probed probes like a kubelet until the returned function is called, which returns the longest duration of a probe. A kubelet
// is another process: in that of the attackers its probes would wait for the cores behind hundreds of them.
func probed(health string) func() time.Duration {
	GinkgoHelper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), kubeletEnv+"="+health)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, GinkgoWriter
	input, err := command.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() { _ = input.Close() }) // of a spec that fails
	return func() time.Duration {
		GinkgoHelper()
		Expect(input.Close()).To(Succeed())
		Expect(command.Wait()).To(Succeed())
		var seen probing
		Expect(json.Unmarshal(output.Bytes(), &seen)).To(Succeed())
		Expect(seen.Probes).To(BeNumerically(">", 0))
		Expect(seen.Failed).To(BeEmpty(), "a kubelet would take the pod out of service")
		return seen.Slowest
	}
}

// actAsKubelet probes an address until the standard input ends, and prints what it has seen.
func actAsKubelet(address string) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	go machine.watch(ctx)
	seen, failures := probing{}, map[string]int{}
	caller := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		for _, path := range []string{"/healthz", "/readyz"} {
			began := time.Now()
			err := probe(ctx, caller, address+path)
			if ctx.Err() != nil {
				break
			}
			seen.Probes++
			seen.Slowest = max(seen.Slowest, time.Since(began))
			if err == nil || machine.stopped(began) {
				failures[path] = 0
				continue
			}
			if failures[path]++; failures[path] == unready && seen.Failed == "" {
				seen.Failed = err.Error()
			}
		}
		time.Sleep(heartbeat)
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func probe(ctx context.Context, caller *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil) //nolint:gosec // the suite gives the address
	if err != nil {
		return err
	}
	response, err := caller.Do(request) //nolint:gosec // the same
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
