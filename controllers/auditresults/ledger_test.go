package auditresults

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func vm(name string) Subject {
	return Subject{Key: Key{Namespace: "default", Kind: "VirtualMachine", Name: name}, APIVersion: "kubevirt.io/v1", UID: "1"}
}

func of(policy string, outcome Outcome, message string) Result {
	return Result{Source: Source{Name: policy}, Outcome: outcome, Field: "spec", Message: message}
}

var roomy = Limits{PerNamespace: 200, PerSource: 20}

func put(l *Ledger, name string, results ...Result) []Result {
	var fresh []Result
	for _, held := range l.Put(vm(name), results) {
		fresh = append(fresh, held.Result)
	}
	return fresh
}

func messages(results []Held) []string {
	var list []string
	for i := range results {
		list = append(list, fmt.Sprintf("%s %s %s", results[i].Source.Name, results[i].Subject.Name, results[i].Message))
	}
	return list
}

func TestSumsFollowEveryChange(t *testing.T) {
	l := New(roomy)
	l.Begin()
	put(l, "a", of("cap", Fail, "1"), of("cap", Fail, "2"), of("net", Warn, "3"))
	put(l, "b", of("cap", Error, "4"))
	put(l, "c")
	l.End()
	if diff := cmp.Diff(Sum{Fail: 2, Warn: 1, Error: 1, Pass: 1}, l.View("default").Sum); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
	want := map[Source]Total{{Name: "cap"}: {Violating: 1, Errors: 1}, {Name: "net"}: {Violating: 1}}
	if diff := cmp.Diff(want, l.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	put(l, "a", of("net", Warn, "3"))
	l.Remove(vm("b").Key)
	l.Remove(vm("b").Key) // there is nothing to forget any more
	if diff := cmp.Diff(Sum{Warn: 1, Pass: 1}, l.View("default").Sum); diff != "" {
		t.Errorf("sum after changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[Source]Total{{Name: "net"}: {Violating: 1}}, l.Totals()); diff != "" {
		t.Errorf("totals after changes (-want +got):\n%s", diff)
	}
	if l.Objects() != 2 {
		t.Errorf("%d objects, not 2", l.Objects())
	}
}

func TestARoundForgetsWhatIsGone(t *testing.T) {
	l := New(roomy)
	l.Begin()
	put(l, "stays", of("cap", Fail, "1"))
	put(l, "goes", of("cap", Fail, "1"))
	l.End()
	l.Begin()
	put(l, "stays", of("cap", Fail, "1"))
	if got := l.View("default").Sum.Fail; got != 2 {
		t.Errorf("before the round ends, %d violations count, not 2", got)
	}
	l.End()
	if diff := cmp.Diff([]string{"cap stays 1"}, messages(l.View("default").Results)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestFreshIsWhatAnObjectDidNotViolateBefore(t *testing.T) {
	l := New(roomy)
	for i, step := range []struct {
		results []Result
		want    []string
	}{
		{[]Result{of("cap", Fail, "9Gi"), of("cap", Fail, "another")}, []string{"cap 9Gi"}},
		{[]Result{of("cap", Fail, "10Gi")}, nil},
		{[]Result{of("cap", Warn, "10Gi"), of("net", Error, "broken")}, nil},
		{[]Result{of("net", Fail, "bridge")}, []string{"net bridge"}},
		{[]Result{of("cap", Fail, "9Gi"), of("net", Fail, "bridge")}, []string{"cap 9Gi"}},
	} {
		var got []string
		for _, r := range put(l, "a", step.results...) {
			got = append(got, r.Source.Name+" "+r.Message)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestChangedTellsWhoIsToBeTold(t *testing.T) {
	l := New(roomy)
	settled := func() { l.Settled("default") }
	expect := func(what string, changed bool) {
		t.Helper()
		if got := len(l.Changed()) == 1; got != changed {
			t.Errorf("%s: changed is %t", what, got)
		}
	}
	put(l, "a")
	expect("a new object", true)
	settled()
	put(l, "a")
	expect("the same again", false)
	put(l, "a", of("cap", Fail, "9Gi"))
	expect("a violation", true)
	settled()
	put(l, "a", of("cap", Fail, "10Gi"))
	expect("another message", true)
	settled()
	l.Remove(vm("a").Key)
	expect("the last object", true)
	settled()
	if len(l.Changed())+len(l.Namespaces())+len(l.namespaces) != 0 {
		t.Error("an empty namespace is not forgotten")
	}
}

func TestEachPolicyHasItsShareOfTheRoom(t *testing.T) {
	l := New(Limits{PerNamespace: 5, PerSource: 3})
	for i := range 9 {
		put(l, fmt.Sprintf("vm-%d", i), of("many", Fail, "x"), of("others", Fail, "x"))
	}
	put(l, "vm-0", of("many", Fail, "x"), of("others", Fail, "x"), of("rare", Warn, "x"))
	v := l.View("default")
	want := []string{"many vm-0 x", "many vm-1 x", "others vm-0 x", "others vm-1 x", "rare vm-0 x"}
	if diff := cmp.Diff(want, messages(v.Results)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if v.Left != 14 {
		t.Errorf("%d are left out, not 14", v.Left)
	}
}

func TestMissingAreThoseInLine(t *testing.T) {
	l := New(Limits{PerNamespace: 10, PerSource: 2})
	for i := range 5 {
		put(l, fmt.Sprintf("vm-%d", i), of("cap", Fail, "x"))
	}
	if got := l.Missing("default"); got != nil {
		t.Errorf("%v are missing though nothing went", got)
	}
	put(l, "vm-0")
	if diff := cmp.Diff([]Key{vm("vm-2").Key}, l.Missing("default")); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	put(l, "vm-9", of("cap", Fail, "x")) // comes after others that are not held
	if diff := cmp.Diff([]Key{vm("vm-2").Key}, l.Missing("default")); diff != "" {
		t.Errorf("missing, with one that is not in line (-want +got):\n%s", diff)
	}
	put(l, "vm-2", of("cap", Fail, "x"))
	if diff := cmp.Diff([]string{"cap vm-1 x", "cap vm-2 x"}, messages(l.View("default").Results)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if got := l.Missing("default"); got != nil {
		t.Errorf("%v are missing still", got)
	}
}

// The result does not depend on the order of evaluation, or on repetitions; the bounds hold; and filling
// in what is missing ends.
func TestTheOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test is to be repeated
		limits := Limits{PerNamespace: 1 + random.IntN(12), PerSource: 1 + random.IntN(5)}
		final := map[string][]Result{}
		for i := range 1 + random.IntN(25) {
			var results []Result
			for range random.IntN(6) {
				results = append(results, Result{
					Source:  Source{Name: fmt.Sprintf("p%d", random.IntN(4)), BuiltIn: random.IntN(4) == 0},
					Outcome: []Outcome{Fail, Warn, Error}[random.IntN(3)], Field: "spec", Message: fmt.Sprint(random.IntN(3)),
				})
			}
			final[fmt.Sprintf("vm-%02d", i)] = results
		}
		straight, mixed := New(limits), New(limits)
		for name, results := range final {
			straight.Put(vm(name), results)
		}
		for range 40 { // earlier objects, which are removed
			name := fmt.Sprintf("vm-%02d", random.IntN(30))
			if random.IntN(4) == 0 {
				mixed.Remove(vm(name).Key)
			} else {
				mixed.Put(vm(name), []Result{of(fmt.Sprintf("p%d", random.IntN(4)), []Outcome{Fail, Warn, Error}[random.IntN(3)], "old")})
			}
		}
		for i := range 30 {
			if name := fmt.Sprintf("vm-%02d", i); final[name] == nil {
				mixed.Remove(vm(name).Key)
			}
		}
		for name, results := range final {
			mixed.Put(vm(name), results)
		}
		rounds := 0
		for missing := mixed.Missing("default"); len(missing) > 0; missing = mixed.Missing("default") {
			for _, key := range missing {
				mixed.Put(vm(key.Name), final[key.Name])
			}
			if rounds++; rounds > 5 {
				t.Fatalf("seed %d: %v are missing again and again", seed, missing)
			}
		}
		a, b := straight.View("default"), mixed.View("default")
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("seed %d, limits %+v: the order matters (-straight +mixed):\n%s", seed, limits, diff)
		}
		if diff := cmp.Diff(straight.Totals(), mixed.Totals()); diff != "" {
			t.Fatalf("seed %d: totals (-straight +mixed):\n%s", seed, diff)
		}
		if len(b.Results) > limits.PerNamespace {
			t.Fatalf("seed %d: %d results, with room for %d", seed, len(b.Results), limits.PerNamespace)
		}
		perSource := map[Source]int{}
		for i := range b.Results {
			if perSource[b.Results[i].Source]++; perSource[b.Results[i].Source] > limits.PerSource {
				t.Fatalf("seed %d: more than %d results of %s", seed, limits.PerSource, b.Results[i].Source.Name)
			}
		}
		if b.Left+len(b.Results) != b.Sum.Fail+b.Sum.Warn+b.Sum.Error {
			t.Fatalf("seed %d: %d held and %d left are not all of %+v", seed, len(b.Results), b.Left, b.Sum)
		}
	}
}

// However many namespaces there are, no more is held than the limits say, each namespace has the same share, and the sums
// are exact.
func TestAllNamespacesShareTheRoom(t *testing.T) {
	limits := Limits{PerNamespace: 10, PerSource: 10, Total: 100}
	for namespaces, share := range map[int]int{5: 10, 10: 10, 12: 8, 20: 5, 21: 4, 96: 1, 101: 0} {
		l := New(limits)
		l.Begin()
		for n := range namespaces {
			for o := range 4 {
				subject := Subject{Key: Key{Namespace: fmt.Sprintf("ns-%03d", n), Kind: "VirtualMachine", Name: fmt.Sprint(o)}}
				l.Put(subject, []Result{of("cap", Fail, "1"), of("cap", Fail, "2"), of("net", Fail, "3")})
			}
		}
		l.Put(Subject{Key: Key{Namespace: "silent", Kind: "VirtualMachine", Name: "a"}}, nil)
		l.End()
		total := 0
		for n := range namespaces {
			view := l.View(fmt.Sprintf("ns-%03d", n))
			if len(view.Results) != share || view.Sum.Fail != 12 || view.Left != 12-share {
				t.Errorf("%d namespaces: one has %d results, %d left out of %d; its share is %d", namespaces, len(view.Results), view.Left, view.Sum.Fail, share)
			}
			total += len(view.Results)
		}
		if total > limits.Total {
			t.Errorf("%d namespaces: %d results are held", namespaces, total)
		}
		for n := 1; n < namespaces; n++ { // they go, and the last one gets its room back
			for o := range 4 {
				l.Remove(Key{Namespace: fmt.Sprintf("ns-%03d", n), Kind: "VirtualMachine", Name: fmt.Sprint(o)})
			}
		}
		for _, key := range l.Missing("ns-000") {
			l.Put(Subject{Key: key}, []Result{of("cap", Fail, "1"), of("cap", Fail, "2"), of("net", Fail, "3")})
		}
		if view := l.View("ns-000"); len(view.Results) != 10 || len(l.Missing("ns-000")) != 0 {
			t.Errorf("%d namespaces, and one is left: it has %d results", namespaces, len(view.Results))
		}
	}
}

// What an object says at most is what may be held of it, and nothing that a Report would show is left out.
func TestCondense(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same results every time
	for range 200 {
		limits := Limits{PerNamespace: 1 + r.IntN(12), PerSource: 1 + r.IntN(6)}
		whole, condensed := New(limits), New(limits)
		for o := range 1 + r.IntN(4) {
			var results []Result
			for range r.IntN(30) {
				results = append(results, of(fmt.Sprintf("policy-%d", r.IntN(5)), Outcome(r.UintN(3)), fmt.Sprint(r.IntN(1000)))) //nolint:gosec // one of three
			}
			whole.Put(vm(fmt.Sprint(o)), results)
			short := limits.Condense(results)
			words := 0
			for i := range short {
				if !short[i].Counted {
					words++
				}
			}
			if words > limits.PerNamespace {
				t.Fatalf("%d results are kept in words, with %+v", words, limits)
			}
			condensed.Put(vm(fmt.Sprint(o)), short)
		}
		if diff := cmp.Diff(whole.View("default"), condensed.View("default")); diff != "" {
			t.Fatalf("%+v (-whole +condensed):\n%s", limits, diff)
		}
		if missing := condensed.Missing("default"); len(missing) != 0 {
			t.Fatalf("%+v: %v are missing", limits, missing)
		}
	}
}
