package cel

import (
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/virtward/virtward/addresses"
)

// Cost is an estimate in the units of ExpressionLimit.
type Cost struct{ Min, Max uint64 }

// EstimatedCost is what the program may cost for a VM that is large but not absurd. It is advice: the limits hold
// when it runs. What the variables cost that it reads is not in it.
func (p *Program) EstimatedCost() Cost { return p.estimated }

func (p *Program) estimate(v *view) Cost {
	cost, err := v.env.EstimateCost(p.ast, &library.CostEstimator{SizeEstimator: sizes{p.scope.environment, v}})
	if err != nil {
		return Cost{}
	}
	return Cost{Min: cost.Min, Max: cost.Max}
}

// sizes assumes sizes where a schema gives no limit.
type sizes struct {
	environment *Environment
	view        *view
}

// EstimateSize is the size of a value that an expression reads.
func (s sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if declared := s.follow(node.Path()); declared != nil && declared.MaxElements > 0 {
		return &checker.SizeEstimate{Min: 0, Max: uint64(declared.MaxElements)}
	}
	switch node.Type().Kind() {
	case types.ListKind, types.MapKind, types.DynKind:
		return &checker.SizeEstimate{Min: 0, Max: hintItems}
	case types.StringKind, types.BytesKind:
		return &checker.SizeEstimate{Min: 0, Max: hintString}
	}
	return nil
}

// follow is the type at a path of the form that CEL gives: a variable, then fields, @items, @keys or @values.
func (s sizes) follow(path []string) *apicel.DeclType {
	if len(path) == 0 {
		return nil
	}
	declared := s.view.declared[path[0]]
	if declared == nil {
		declared = s.environment.variables[path[0]]
	}
	for _, name := range path[1:] {
		switch {
		case declared == nil:
			return nil
		case name == "@items" || name == "@values":
			declared = declared.ElemType
		case name == "@keys":
			declared = declared.KeyType
		case declared.IsObject():
			found, ok := declared.Fields[name]
			if !ok {
				return nil
			}
			declared = found.Type
		default:
			declared = declared.ElemType
		}
	}
	return declared
}

// EstimateCallCost leaves calls to Kubernetes, but for those that it does not know.
func (s sizes) EstimateCallCost(function, _ string, _ *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if !isAddressFunction(function) || len(args) == 0 {
		return nil
	}
	longest := uint64(hintString)
	if size := s.EstimateSize(args[0]); size != nil {
		longest = size.Max
	}
	call := charges[function].call
	return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Min: call, Max: call + min(longest, addresses.MaxText)}}
}
