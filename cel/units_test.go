package cel

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/virtward/virtward/test/cputime"
	"github.com/virtward/virtward/test/soak"
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
		ints, words, longs, nested, entries, doubles, durations, optionals, mixed, bools := []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}, []ref.Val{}
		for i := range n {
			k := (i * 7919) % (n + 1)
			ints, words = append(ints, types.Int(k)), append(words, types.String(fmt.Sprint("w", k)))
			longs = append(longs, types.String(strings.Repeat("p", 300)+fmt.Sprint(k)))
			nested = append(nested, types.NewRefValList(a, []ref.Val{types.Int(k), types.Int(1)}))
			entries = append(entries, types.NewRefValMap(a, map[ref.Val]ref.Val{types.String("a"): types.Int(k), types.String("b"): types.Int(2)}))
			doubles, durations = append(doubles, types.Double(float64(k)+0.1)), append(durations, types.Duration{Duration: time.Duration(k)})
			optionals = append(optionals, types.OptionalOf(types.Int(k)))
			mixed = append(mixed, []ref.Val{types.Int(k), types.String(fmt.Sprint(k)), types.Double(k)}[i%3])
			bools = append(bools, types.Bool(i%2 == 0))
		}
		for _, l := range [][]ref.Val{ints, words, longs, nested, entries, doubles, durations, optionals, mixed, bools} {
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

// TestSoakCallsAreTime calls every function with arguments of all kinds and sizes, and holds its time against its charge.
func TestSoakCallsAreTime(t *testing.T) {
	soak.Only(t)
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	all := append(values(), constructed(e)...)
	for _, name := range slices.Sorted(maps.Keys(e.base.Functions())) {
		for _, o := range e.base.Functions()[name].OverloadDecls() {
			operation := e.operation(name, o.ID(), len(o.ArgTypes()))
			if operation == nil || len(o.ArgTypes()) == 0 || slices.Contains(named("matches find findAll _[_] cel.@mapInsert"), name) {
				continue // patterns, keys and insertions are charged elsewhere
			}
			t.Run(o.ID(), func(t *testing.T) {
				draw := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
				for range 200 {
					args := make([]ref.Val, len(o.ArgTypes()))
					for i, of := range o.ArgTypes() {
						fitting := slices.DeleteFunc(slices.Clone(all), func(v ref.Val) bool { return !fitsKind(v, of) })
						if len(fitting) == 0 {
							return
						}
						args[i] = fitting[draw.IntN(len(fitting))]
					}
					c, most := charges[name], uint64(ExpressionLimit)
					units := max(c.call, 1)
					if c.work != nil {
						units += c.work(args, most)
					}
					if units <= most/10 {
						cputime.Check(t, units, func() {
							defer func() { _ = recover() }() // as run does
							sink = operation(args...)
						})
					}
				}
			})
		}
	}
}

// constructed are values that functions return.
func constructed(e *Environment) []ref.Val {
	var all []ref.Val
	for _, name := range named("quantity semver url ip cidr virtward.image virtward.url timestamp duration optional.of") {
		for _, text := range hostileTexts() {
			if length(text) > 9000 || name == "quantity" && quantifying([]ref.Val{text}, ExpressionLimit) > ExpressionLimit {
				continue
			}
			for _, o := range e.base.Functions()[name].OverloadDecls() {
				if operation := e.operation(name, o.ID(), 1); operation != nil && len(o.ArgTypes()) == 1 {
					if v := operation(text); !types.IsError(v) {
						all = append(all, v)
					}
				}
			}
		}
	}
	for _, name := range named("format.uri format.dns1123Subdomain format.uuid format.date format.qualifiedName format.labelValue format.byte") {
		all = append(all, e.bindings[name].Function())
	}
	return all
}
