package cel

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"golang.org/x/sys/unix"
)

func TestEveryFunctionHasACharge(t *testing.T) {
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	declared := e.base.Functions()
	for name := range declared {
		if _, ok := charges[name]; !ok {
			t.Errorf("the function %s has no charge", name)
		}
	}
	seen := map[string]bool{}
	for _, class := range functionClasses() {
		for _, name := range class.names {
			if seen[name] {
				t.Errorf("the function %s has two charges", name)
			}
			seen[name] = true
			if declared[name] == nil {
				t.Errorf("there is no function %s to charge for", name)
			}
		}
	}
}

var sink any

// cpu is the CPU time of the process.
func cpu() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

// timed is the CPU time of a call, in nanoseconds.
func timed(f func(), reps int) (best float64) {
	defer func() { _ = recover() }()
	for i := range reps {
		n := 1
		for {
			begin := cpu()
			for range n {
				f()
			}
			took := cpu() - begin
			if took > 300*time.Microsecond {
				each := float64(took) / float64(n)
				if i == 0 || each < best {
					best = each
				}
				break
			}
			n *= 4
		}
	}
	return best
}

func hostileTexts() []ref.Val {
	var all []ref.Val
	for _, s := range []string{"", "a", "abc", "10.0.0.1", "10.0.0.0/8", "1.2.3", "1Gi", "http://a.b/c?d=e", "quay.io/a/b:c", "2024-01-02T03:04:05Z", "1h2m", "America/Argentina/ComodRivadavia", "Nowhere/Land", "true", "12345", "1.5"} {
		all = append(all, types.String(s))
	}
	for _, n := range []int{200, 1000, 8000, 100_000} {
		for _, s := range []string{"a", "é", "a,", "1", "%s", "%d", "%.3f", "\"", "\x00", " ", "A", "a.", "a/", "%41", "1.", "a-b.", "0.0.1-a.", "x=y&", "::", "😀"} {
			all = append(all, types.String(strings.Repeat(s, n/len(s))))
		}
		all = append(all, types.String("http://a/"+strings.Repeat("%41", n/3)), types.String("http://a/?"+strings.Repeat("a=b&", n/4)), types.String("1.2.3-"+strings.Repeat("a.", n/2)+"a"), types.String("1.2.3+"+strings.Repeat("a.", n/2)+"a"),
			types.String(strings.Repeat("a", n)+"b"), types.String("b"+strings.Repeat("a", n)), types.String("quay.io/"+strings.Repeat("a/", n/2)+"b"), types.String("0."+strings.Repeat("7", n)), types.String(strings.Repeat("7", n)+"Gi"))
	}
	return all
}

func hostileLists() []ref.Val {
	a := types.DefaultTypeAdapter
	var all []ref.Val
	for _, n := range []int{0, 1, 10, 300, 3000} {
		ints, words, longs, nested, maps_, doubles, durations, optionals, mixed, bools := []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}
		for i := range n {
			k := (i * 7919) % (n + 1)
			ints, words = append(ints, types.Int(k)), append(words, types.String(fmt.Sprint("w", k)))
			longs = append(longs, types.String(strings.Repeat("p", 300)+fmt.Sprint(k)))
			nested = append(nested, types.NewRefValList(a, []ref.Val{types.Int(k), types.Int(1)}))
			maps_ = append(maps_, types.NewRefValMap(a, map[ref.Val]ref.Val{types.String("a"): types.Int(k), types.String("b"): types.Int(2)}))
			doubles, durations = append(doubles, types.Double(float64(k)+0.1)), append(durations, types.Duration{Duration: time.Duration(k)})
			optionals = append(optionals, types.OptionalOf(types.Int(k)))
			mixed = append(mixed, []ref.Val{types.Int(k), types.String(fmt.Sprint(k)), types.Double(k)}[i%3])
			bools = append(bools, types.Bool(i%2 == 0))
		}
		for _, l := range [][]ref.Val{ints, words, longs, nested, maps_, doubles, durations, optionals, mixed, bools} {
			all = append(all, types.NewRefValList(a, l))
		}
	}
	return all
}

func values() []ref.Val {
	a := types.DefaultTypeAdapter
	all := []ref.Val{types.Int(0), types.Int(7), types.Int(-1), types.Int(1 << 40), types.Uint(3), types.Double(1.5), types.Double(1e300), types.True, types.False, types.NullValue, types.Timestamp{Time: time.Unix(1e9, 5)}, types.Duration{Duration: time.Hour}}
	all = append(all, hostileTexts()...)
	all = append(all, hostileLists()...)
	for _, s := range hostileTexts() {
		if length(s) == 1000 || length(s) == 100_000 {
			all = append(all, types.Bytes(s.(types.String)))
		}
	}
	for _, n := range []int{1, 30, 2000} {
		m := map[ref.Val]ref.Val{}
		for i := range n {
			m[types.String(fmt.Sprint("key", i))] = types.Int(i)
		}
		all = append(all, types.NewRefValMap(a, m))
	}
	return all
}

var kinds = map[types.Kind]func(ref.Val) bool{}

func fitsKind(v ref.Val, want *types.Type) bool {
	switch want.Kind() {
	case types.DynKind, types.AnyKind, types.TypeParamKind:
		return true
	case types.OpaqueKind:
		return v.Type().TypeName() == want.TypeName()
	case types.ListKind:
		if v.Type() != types.ListType {
			return false
		}
		return true
	}
	return v.Type().TypeName() == want.TypeName()
}

func TestMeasure(t *testing.T) {
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	all := values()
	// values that functions make
	call := func(name string, args ...ref.Val) ref.Val {
		for _, o := range e.base.Functions()[name].OverloadDecls() {
			if len(o.ArgTypes()) == len(args) {
				op := e.operation(name, o.ID(), len(args))
				if v := op(args...); !types.IsError(v) {
					return v
				}
			}
		}
		return nil
	}
	for _, name := range []string{"quantity", "semver", "url", "ip", "cidr", "virtward.image", "virtward.url", "timestamp", "duration", "optional.of"} {
		for _, s := range hostileTexts() {
			if name == "quantity" && length(s) > 9000 || length(s) > 9000 && name == "optional.of" {
				continue
			}
			if name == "quantity" && quantifying([]ref.Val{s}, 1000000) > 1000000 {
				continue
			}
			if v := call(name, s); v != nil {
				all = append(all, v)
			}
		}
	}
	for _, n := range []string{"format.uri", "format.dns1123Subdomain", "format.uuid", "format.date", "format.qualifiedName", "format.labelValue", "format.byte", "format.datetime"} {
		op := e.bindings[n]
		all = append(all, op.Function())
	}
	only := os.Getenv("ONLY")
	for _, name := range slices.Sorted(maps.Keys(e.base.Functions())) {
		if only != "" && !slices.Contains(strings.Fields(only), name) {
			continue
		}
		worst, what, worstUnits, worstNs := 0.0, "", uint64(0), 0.0
		c := charges[name]
		for _, o := range e.base.Functions()[name].OverloadDecls() {
			n := len(o.ArgTypes())
			if n == 0 || name == "matches" || name == "find" || name == "findAll" {
				continue
			}
			op := e.operation(name, o.ID(), n)
			if op == nil {
				continue
			}
			cands := make([][]ref.Val, n)
			for i, at := range o.ArgTypes() {
				for _, v := range all {
					if fitsKind(v, at) {
						cands[i] = append(cands[i], v)
					}
				}
			}
			combos := 1
			for i := range cands {
				combos *= len(cands[i])
			}
			tried := 0
			for k := 0; k < combos && tried < 250; k++ {
				args := make([]ref.Val, n)
				x := k
				if combos > 250 {
					x = (k * 7919) % combos
				}
				for i := range args {
					args[i] = cands[i][x%len(cands[i])]
					x /= len(cands[i])
				}
				if n == 2 && k < 2*len(cands[0]) && k < 125 && name != operators.Equals {
					// diagonal
				}
				units := c.call
				if c.work != nil {
					units += c.work(args, 1_000_000)
				}
				if units > 100_000 {
					continue
				}
				tried++
				ns := timed(func() { sink = op(args...) }, 1)
				r := ns / float64(units*UnitNanoseconds)
				if r > worst {
					ns = timed(func() { sink = op(args...) }, 3)
					r = ns / float64(units*UnitNanoseconds)
				}
				if r > worst {
					worst, worstUnits, worstNs = r, units, ns
					what = o.ID()
					for _, a := range args {
						d := fmt.Sprintf("%.30v", a)
						if len(d) > 40 {
							d = d[:40]
						}
						what += fmt.Sprintf(" | %s %q len=%d items=%d", a.Type().TypeName(), d, length(a), items(a, 0))
					}
				}
			}
		}
		fmt.Printf("%6.2f %-30s units=%d ns=%.0f %s\n", worst, name, worstUnits, worstNs, what)
	}
}
