package isolated_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/virtward/virtward/test/isolated"
)

func TestMeasures(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	heap, allocated, allocations := isolated.Heap(), isolated.Allocated(), isolated.Allocations()
	kept := make([]byte, 10<<20)
	dropped := make([]*[]byte, 10)
	for i := range dropped {
		text := make([]byte, 1<<20)
		dropped[i] = &text
	}
	all := isolated.InUse() - heap
	runtime.KeepAlive(dropped)
	if all < 20<<20 || all > 21<<20 {
		t.Errorf("%d bytes in use", all)
	}
	if n := isolated.Allocated() - allocated; n < 20<<20 || n > 21<<20 {
		t.Errorf("%d bytes allocated", n)
	}
	if n := isolated.Allocations() - allocations; n < 21 || n > 1000 {
		t.Errorf("%d objects allocated", n)
	}
	if n := isolated.Heap() - heap; n < 10<<20 || n > 11<<20 {
		t.Errorf("%d bytes reachable", n)
	}
	runtime.KeepAlive(kept)
}

// A failure of the process is one of the test.
func TestFails(t *testing.T) {
	if os.Getenv("FAILING") != "" {
		if isolated.Run(t) {
			t.Error("this fails")
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFails$")
	cmd.Env = append(os.Environ(), "FAILING=1")
	if output, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(output), "this fails") {
		t.Errorf("%v\n%s", err, output)
	}
}

// Memory is not measured beside other tests.
func TestMeasuresNothingElsewhere(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the heap of a shared process was measured")
		}
	}()
	isolated.Heap()
}
