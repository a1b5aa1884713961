package cel

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// bounded are the functions whose work is bounded, or paid for: CEL charges for the text that they read.
var bounded = strings.Fields(`
	!_ -_ _%_ _&&_ _*_ _-_ _/_ _<=_ _<_ _>=_ _>_ _?._ _?_:_ _[?_] _[_] _||_ @not_strictly_false
	__not_strictly_false__ _in_ in dyn type cel.@mapInsert
	matches find findAll
	contains startsWith endsWith lowerAscii upperAscii substring trim strings.quote split first last
	getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds
	optional.of optional.none optional.ofNonZeroValue hasValue value or orValue
	quantity add sub sign asInteger asApproximateFloat isInteger compareTo isGreaterThan isLessThan
	semver isSemver major minor patch
	ip cidr family masked prefixLength containsIP containsCIDR ip.isCanonical
	isGlobalUnicast isLinkLocalMulticast isLinkLocalUnicast isLoopback isUnspecified
	url getEscapedPath getHost getHostname getPort getQuery getScheme
	format.named format.byte format.date format.datetime format.uri format.uuid format.labelValue format.qualifiedName
	format.dns1035Label format.dns1035LabelPrefix format.dns1123Label format.dns1123LabelPrefix
	format.dns1123Subdomain format.dns1123SubdomainPrefix
	group resource subresource namespace name path serviceAccount fieldSelector labelSelector check
	allowed reason error errored
	virtward.image virtward.isImage virtward.isURL virtward.url
`)

// Every function of the environment is measured, or listed as one that need not be. A new function of a library makes
// this test fail until it is in one of the lists.
func TestEveryFunctionIsMeasuredOrBounded(t *testing.T) {
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	declared := e.base.Functions()
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		_, measured := works[name]
		_, charged := linear[name]
		if !measured && !charged && !slices.Contains(bounded, name) {
			t.Errorf("the function %s is in no list", name)
		}
	}
	for name := range works {
		function := declared[name]
		if function == nil {
			t.Errorf("there is no function %s to measure", name)
			continue
		}
		if name == operators.Equals || name == operators.NotEquals {
			continue // the interpreter's own
		}
		for _, overload := range function.OverloadDecls() {
			if e.bindings[overload.ID()] == nil && e.bindings[name] == nil {
				t.Errorf("%s of %s is not measured: it has no implementation to call", overload.ID(), name)
			}
		}
	}
	for name := range linear {
		if declared[name] == nil {
			t.Errorf("there is no function %s to charge for", name)
		}
	}
}

func TestWork(t *testing.T) {
	list := func(n int) ref.Val { return types.NewStringList(types.DefaultTypeAdapter, make([]string, n)) }
	text := func(n int) ref.Val { return types.String(strings.Repeat("x", n)) }
	for name, c := range map[string]struct {
		function string
		args     []ref.Val
		want     uint64
	}{
		"two lists":                    {operators.Equals, []ref.Val{list(50), list(50)}, 51},
		"the smaller counts":           {operators.Equals, []ref.Val{list(50), list(5)}, 6},
		"a text in a list":             {operators.In, []ref.Val{text(1), list(50)}, 51},
		"a number in a list":           {operators.In, []ref.Val{types.Int(1), list(50)}, 50},
		"a text in a map":              {operators.In, []ref.Val{text(1000), types.NewStringStringMap(types.DefaultTypeAdapter, nil)}, 101},
		"a text replaced":              {"replace", []ref.Val{text(100), text(1), text(100)}, 1010},
		"a text replaced once":         {"replace", []ref.Val{text(100), text(1), text(100), types.Int(1)}, 20},
		"between letters":              {"replace", []ref.Val{text(100), text(0), text(100)}, 1020},
		"joined":                       {"join", []ref.Val{list(50), text(100)}, 51 + 500},
		"digits":                       {"format", []ref.Val{types.String("%.5000f %.20f"), list(1)}, 2 + 2 + 502},
		"pairs":                        {"sets.contains", []ref.Val{list(10), list(10)}, 11 * 11},
		"distinct":                     {"distinct", []ref.Val{list(10)}, 10 * 11},
		"a number out of proportion":   {"quantity", []ref.Val{types.String("1e99999999")}, ExpressionLimit + 1},
		"lists added":                  {operators.Add, []ref.Val{list(100), list(100)}, 20},
		"a range":                      {"lists.range", []ref.Val{types.Int(9)}, 9},
		"a range of less than nothing": {"lists.range", []ref.Val{types.Int(-9)}, 0},
	} {
		if got := works[c.function](c.args, ExpressionLimit); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := weigh(list(1000), 10); got < 10 || got > 12 {
		t.Errorf("it counted to %d, and should have stopped at 10", got)
	}
	if got := product(1<<63, 1<<63); got < 1<<62 {
		t.Errorf("a product overflowed to %d", got)
	}
}
