package cel

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// The cost of CEL counts steps, and not what they leave in memory: a unit may pay for one byte or for a hundred. So the
// functions that make texts, lists and maps, and the expressions that write them out, are charged in bytes as well,
// before they run. What an expression makes is free again when it is evaluated; what a variable makes stays charged until
// the policy is decided.

// MemoryLimit is what the expressions of one policy may take together, in bytes.
const MemoryLimit = 4 << 20

// What values take, in bytes.
const (
	perElement = 64  // of a list
	perEntry   = 160 // of a map
	perValue   = 96  // of its own
	perText    = 32  // of a text, besides its bytes
	perRune    = 4   // of a text that is taken apart
)

// memory is what a call takes besides its result, from its arguments.
type memory func(args []ref.Val) uint64

// makes are the functions that return something large, or that allocate much to compute their result. A test requires
// that every function of the environment is either in this table or in that of small functions.
var makes = map[string]memory{
	operators.Add:           sum,
	"split":                 func(args []ref.Val) uint64 { return parts(args) * perElement },
	"charAt":                runes,
	"indexOf":               runes,
	"lastIndexOf":           runes,
	"substring":             runes,
	"reverse":               runes,
	"lowerAscii":            runes,
	"upperAscii":            runes,
	"strings.quote":         func(args []ref.Val) uint64 { return 4 * lengths(args) },
	"string":                lengths,
	"bytes":                 lengths,
	"join":                  func(args []ref.Val) uint64 { return 2 * joined(args, MemoryLimit) },
	"replace":               func(args []ref.Val) uint64 { return 2 * (length(args[0]) + replaced(args)) },
	"format":                func(args []ref.Val) uint64 { return 2 * formatted(args, MemoryLimit) },
	"find":                  nothing,
	"findAll":               nothing,
	"sort":                  elementsOf,
	"@sortByAssociatedKeys": elementsOf,
	"distinct":              elementsOf,
	"flatten":               func(args []ref.Val) uint64 { return weigh(args[0], MemoryLimit) * perElement },
	"slice":                 elementsOf,
	"lists.range":           func(args []ref.Val) uint64 { n, _ := args[0].(types.Int); return uint64(max(n, 0)) * perElement },
	"cel.@mapInsert":        func([]ref.Val) uint64 { return perEntry },
	"url":                   func(args []ref.Val) uint64 { return 4 * lengths(args) },
	"isURL":                 func(args []ref.Val) uint64 { return 4 * lengths(args) },
	"getEscapedPath":        nothing,
	"getQuery":              func([]ref.Val) uint64 { return 4 << 10 },
	"semver":                lengths,
	"isIP":                  quoting,
	"isCIDR":                quoting,
	"ip":                    quoting,
	"cidr":                  quoting,
	"ip.isCanonical":        quoting,
	"containsIP":            quoting,
	"containsCIDR":          quoting,
	"int":                   quoting,
	"uint":                  quoting,
	"double":                quoting,
	"bool":                  quoting,
	"duration":              quoting,
	"timestamp":             quoting,
	"isSemver":              lengths,
	"validate":              lengths,
	"quantity":              lengths,
	"isQuantity":            lengths,
	functionImage:           address,
	functionURL:             address,
	functionIsImage:         address,
	functionIsURL:           address,
}

// address is the normal form of an image or a URL, with its parts: parsing one makes all of them.
func address(args []ref.Val) uint64 { return 2<<10 + 4*lengths(args) }

// small are the other functions: they return a number, a truth or a value that is there already, and take no more memory
// than a few values.
var small = map[string]bool{
	"!_": true, "-_": true, "@in": true, "@not_strictly_false": true, "_!=_": true, "_%_": true, "_&&_": true, "_*_": true, "_-_": true, "_/_": true,
	"_<=_": true, "_<_": true, "_==_": true, "_>=_": true, "_>_": true, "_?._": true, "_?_:_": true, "_[?_]": true, "_[_]": true,
	"__not_strictly_false__": true, "_in_": true, "_||_": true, "add": true, "allowed": true, "asApproximateFloat": true, "asInteger": true,
	"check": true, "compareTo": true, "contains": true,
	"dyn": true, "endsWith": true, "error": true, "errored": true, "family": true, "fieldSelector": true, "first": true,
	"format.byte": true, "format.date": true, "format.datetime": true, "format.dns1035Label": true, "format.dns1035LabelPrefix": true,
	"format.dns1123Label": true, "format.dns1123LabelPrefix": true, "format.dns1123Subdomain": true, "format.dns1123SubdomainPrefix": true,
	"format.labelValue": true, "format.named": true, "format.qualifiedName": true, "format.uri": true, "format.uuid": true,
	"getDate": true, "getDayOfMonth": true, "getDayOfWeek": true, "getDayOfYear": true, "getFullYear": true, "getHost": true, "getHostname": true,
	"getHours": true, "getMilliseconds": true, "getMinutes": true, "getMonth": true, "getPort": true, "getScheme": true, "getSeconds": true,
	"group": true, "hasValue": true, "in": true, "includes": true,
	"isGlobalUnicast": true, "isGreaterThan": true, "isInteger": true, "isLessThan": true, "isLinkLocalMulticast": true,
	"isLinkLocalUnicast": true, "isLoopback": true, "isSorted": true, "isUnspecified": true, "labelSelector": true, "last": true, "major": true,
	"masked": true, "matches": true, "max": true, "min": true, "minor": true, "name": true, "namespace": true, "optional.none": true,
	"optional.of": true, "optional.ofNonZeroValue": true, "optional.unwrap": true, "or": true, "orValue": true, "patch": true, "path": true,
	"prefixLength": true, "reason": true, "resource": true, "serviceAccount": true, "sets.contains": true, "sets.equivalent": true,
	"sets.intersects": true, "sign": true, "size": true, "startsWith": true, "sub": true, "subresource": true, "sum": true,
	"trim": true, "type": true, "unwrapOpt": true, "value": true,
}

// sum is a text or a list as long as both, or a list that a macro fills.
func sum(args []ref.Val) uint64 {
	if list, ok := args[0].(traits.Lister); ok && len(args) > 1 {
		added := items(args[1], MemoryLimit)
		if _, filling := list.(traits.MutableLister); !filling {
			added += items(list, MemoryLimit)
		}
		return added * perElement
	}
	return lengths(args) + perText
}

func nothing([]ref.Val) uint64 { return 0 }

// quoting is an error that quotes the text.
func quoting(args []ref.Val) uint64 { return 8 * lengths(args) }

// runes are texts that are taken apart into characters; a list is copied.
func runes(args []ref.Val) uint64 { return perRune*lengths(args) + elementsOf(args[:1]) }

func elementsOf(args []ref.Val) uint64 {
	if list, ok := args[0].(traits.Lister); ok {
		return items(list, MemoryLimit) * perElement
	}
	return 0
}

// made is what a result takes.
func made(result ref.Val) uint64 {
	switch v := result.(type) {
	case types.String, types.Bytes:
		return length(v) + perText
	case traits.Lister:
		return items(v, MemoryLimit)*perElement + perValue
	case traits.Mapper:
		return items(v, MemoryLimit)*perEntry + perValue
	}
	return perValue
}
