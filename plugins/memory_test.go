package plugins

import (
	"runtime/debug"
	"strings"
	"testing"
	"time"

	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/test/isolated"
)

// worst are Plugins whose compilation takes much memory and time for their size.
func worst() map[string]*pluginv1alpha1.Plugin {
	of := func(expressions ...string) *pluginv1alpha1.Plugin {
		p := &pluginv1alpha1.Plugin{}
		for _, e := range expressions {
			p.Spec.DomainHooks = append(p.Spec.DomainHooks, pluginv1alpha1.DomainHook{CEL: &pluginv1alpha1.CELDomainHook{Expression: e}})
		}
		return p
	}
	const half = maxAdmitted/2 - 100
	sum := "Domain{Title: ''" + strings.Repeat("+''", half/3) + "}"
	list := "Domain{Devices: DomainDeviceList{Sounds: [" + strings.Repeat("DomainSound{},", half/14) + "]}}"
	numbers := "Domain{Title: string([" + strings.Repeat("1,", half/2) + "].size())}"
	small := make([]string, maxHooks)
	for i := range small {
		small[i] = "Domain{Title: '" + strings.Repeat("a", 40) + "'}"
	}
	grown := "Domain{Title: [" + strings.Repeat("1,", 50) + "].map(a, [" + strings.Repeat("2,", 50) + "].map(b, string(a) + string(b) + '" + strings.Repeat("a", 8000) + "')).size() > 0 ? 'a' : 'b'}"
	return map[string]*pluginv1alpha1.Plugin{"sums": of(sum, sum), "structs": of(list, list), "numbers": of(numbers, numbers), "hooks": of(small...), "values": of(grown)}
}

// peakOf is the most memory that a function has in use at a time, in bytes, about.
func peakOf(f func()) int64 {
	before := isolated.Heap()
	done, peak := make(chan struct{}), make(chan int64)
	go func() {
		highest := int64(0)
		for {
			highest = max(highest, isolated.InUse())
			select {
			case <-done:
				peak <- highest - before
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	return <-peak
}

// TestMemory: the environments, and the compilation and evaluation of a Plugin, do not exceed their bound.
func TestMemory(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is garbage does not count
	before := isolated.Heap()
	for _, compile := range []func(string) (*program, error){compiler(costLimit).hook, compiler(costLimit).nodeCondition} {
		_, _ = compile("vmi") // reads the schema
	}
	environments := isolated.Heap() - before
	t.Logf("environments: %d KiB", environments>>10)
	for name, p := range worst() {
		began := time.Now()
		used := peakOf(func() {
			Validate(p)
			vmi := &v1.VirtualMachineInstance{}
			NewAdmittedSet(p).Apply(vmi, (&domain.Domain{Type: "kvm", Name: "db"}).Element())
		})
		t.Logf("%s: %v, %d KiB", name, time.Since(began).Round(time.Millisecond), used>>10)
		if used+environments > MaxAdmission {
			t.Errorf("%s: %d KiB and %d KiB of environments exceed %d KiB", name, used>>10, environments>>10, MaxAdmission>>10)
		}
	}
}
