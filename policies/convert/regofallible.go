package convert

import (
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// readNumber is the form of texts that to_number reads: numbers of Go, decimal, or hexadecimal with an exponent of 2. A text of this form that
// is too long, or whose number is too large, is an error in a policy.
const readNumber = `^[-+]?((` + decimals + `([.](` + decimals + `)?)?|[.]` + decimals + `)([eE][-+]?` + decimals + `)?` +
	`|0[xX](_?` + hexadecimals + `([.](` + hexadecimals + `)?)?|[.]` + hexadecimals + `)[pP][-+]?` + decimals + `)$`

const (
	decimals     = `[0-9](_?[0-9])*`
	hexadecimals = `[0-9a-fA-F](_?[0-9a-fA-F])*`
)

// need is what an argument must be so that a function has no error because of it.
type need int

const (
	needsNothing need = iota
	needsLiteral
	// needsNumber is met by a number, and by the result of a function that returns numbers.
	needsNumber
	// needsNumberOrSet is met by these also where they are results.
	needsNumberOrSet
	// needsObject is met by an object, and by a part of the input that is always an object.
	needsObject
	// neverSafe is met by no argument.
	neverSafe
)

// fallibleFunctions are functions that have an error for some values: a policy has it, too, and Gatekeeper ignores it. Each has the needs of
// its first arguments.
func fallibleFunctions() map[string][]need {
	made := map[string][]need{
		ast.NumbersRange.Name:           {needsLiteral, needsLiteral},
		ast.NumbersRangeStep.Name:       {needsLiteral, needsLiteral, needsLiteral},
		ast.RegexReplace.Name:           {needsNothing, needsLiteral},
		ast.GlobMatch.Name:              {needsLiteral, needsLiteral},
		ast.IndexOf.Name:                {needsNothing, needsLiteral},
		ast.IndexOfN.Name:               {needsNothing, needsLiteral},
		ast.FormatInt.Name:              {needsNumber, needsLiteral},
		ast.Minus.Name:                  {needsNumberOrSet, needsNumberOrSet},
		ast.ObjectGet.Name:              {needsObject},
		ast.ArraySlice.Name:             {needsNothing, needsLiteral, needsLiteral},
		ast.SplitN.Name:                 {needsNothing, needsNothing, needsLiteral},
		ast.AddDate.Name:                {needsLiteral, needsLiteral, needsLiteral, needsLiteral},
		"re_match":                      {needsLiteral},
		ast.JSONMarshalWithOptions.Name: {needsNothing, needsLiteral},
	}
	for _, needs := range []struct {
		of   []need
		each []*ast.Builtin
	}{
		{[]need{neverSafe}, []*ast.Builtin{
			ast.UnitsParse, ast.UnitsParseBytes, ast.JSONUnmarshal, ast.YAMLUnmarshal, ast.Base64Decode, ast.Base64UrlDecode, ast.HexDecode,
			ast.URLQueryDecode, ast.URLQueryDecodeObject, ast.SemVerCompare, ast.ParseNanos, ast.ParseRFC3339Nanos, ast.ParseDurationNanos,
			ast.JSONPatch, ast.URIParse,
		}},
		{[]need{needsLiteral}, []*ast.Builtin{
			ast.RegexMatch, ast.RegexSplit, ast.RegexFind, ast.RegexFindAllStringSubmatch, ast.RegexTemplateMatch, ast.Sum, ast.Product,
			ast.BitsNegate, ast.Format, ast.Date, ast.Clock, ast.Weekday,
		}},
		{[]need{needsLiteral, needsLiteral}, []*ast.Builtin{
			ast.BitsAnd, ast.BitsOr, ast.BitsXOr, ast.BitsShiftLeft, ast.BitsShiftRight, ast.Diff,
		}},
		{[]need{needsNumber}, []*ast.Builtin{ast.Abs, ast.Ceil, ast.Floor, ast.Round}},
		{[]need{needsNumber, needsNumber}, []*ast.Builtin{ast.Plus, ast.Multiply}},
	} {
		for _, function := range needs.each {
			made[function.Name] = needs.of
		}
	}
	return made
}

// fallible are the functions of fallibleFunctions that modules call with arguments for which they can have an error, sorted.
func fallible(modules []*ast.Module) []string {
	found, functions, sets := map[string]bool{}, fallibleFunctions(), setRules(modules)
	for _, m := range modules {
		for _, rule := range m.Rules {
			values := assignedValues(rule, sets)
			walkCalls(rule, func(terms []*ast.Term) {
				if name := terms[0].String(); !values.safe(functions[name], terms[1:]) {
					found[name] = true
				}
			})
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// walkCalls visits the calls of a module or a rule: the function, and its arguments.
func walkCalls(in any, visit func([]*ast.Term)) {
	ast.WalkExprs(in, func(e *ast.Expr) bool {
		if terms, ok := e.Terms.([]*ast.Term); ok {
			visit(terms)
		}
		return false
	})
	ast.WalkTerms(in, func(term *ast.Term) bool {
		if call, ok := term.Value.(ast.Call); ok {
			visit(call)
		}
		return false
	})
}

// setRules are the paths of rules that are sets.
func setRules(modules []*ast.Module) map[string]bool {
	found := map[string]bool{}
	for _, m := range modules {
		for _, rule := range m.Rules {
			path, is := m.Package.Path.String()+"."+nameOfRule(rule), rule.Head.RuleKind() == ast.MultiValue
			if rule.Head.Value != nil && len(rule.Head.Args) == 0 && len(rule.Head.Ref()) == 1 {
				is = is || isSet(rule.Head.Value)
			}
			if before, ok := found[path]; ok {
				is = is && before
			}
			found[path] = is && rule.Else == nil
		}
	}
	return found
}

// values are what a rule assigns to its variables, and the paths of rules that are sets.
type values struct {
	assigned map[ast.Var][]*ast.Term
	sets     map[string]bool
	// known are the results of meets for variables: each is followed once, although several values of others name it.
	known map[following]bool
}

// following is what meets looks for behind a variable.
type following struct {
	name  ast.Var
	need  need
	steps int
}

// assignedValues returns the values of variables of a rule that have no other values.
func assignedValues(rule *ast.Rule, sets map[string]bool) values {
	found := map[ast.Var][]*ast.Term{}
	ast.WalkExprs(rule, func(e *ast.Expr) bool {
		if !e.IsAssignment() {
			return false
		}
		if name, ok := e.Operand(0).Value.(ast.Var); ok {
			found[name] = append(found[name], e.Operand(1))
		}
		return false
	})
	for _, argument := range rule.Head.Args {
		ast.WalkVars(argument, func(name ast.Var) bool { delete(found, name); return false })
	}
	return values{found, sets, map[following]bool{}}
}

// safe reports whether arguments meet needs.
func (v values) safe(needs []need, arguments []*ast.Term) bool {
	for i, n := range needs[:min(len(needs), len(arguments))] {
		if !v.meets(n, arguments[i], maxSteps) {
			return false
		}
	}
	return true
}

// maxSteps is how many variables and operands are followed to a value.
const maxSteps = 8

// meets reports whether an argument meets a need.
func (v values) meets(n need, argument *ast.Term, steps int) bool {
	if steps == 0 {
		return n == needsNothing
	}
	if name, ok := argument.Value.(ast.Var); ok {
		return n == needsNothing || v.variableMeets(following{name, n, steps})
	}
	switch n {
	case needsNothing:
		return true
	case needsLiteral:
		return ast.IsConstant(argument.Value)
	case needsNumber:
		return v.numeric(argument, steps)
	case needsNumberOrSet:
		ref, ok := argument.Value.(ast.Ref)
		return v.numeric(argument, steps) || ok && v.sets[ref.String()] || isSet(argument)
	case needsObject:
		return isInputObject(argument)
	}
	return false
}

// variableMeets reports whether all values of a variable meet a need.
func (v values) variableMeets(f following) bool {
	meets, ok := v.known[f]
	if !ok {
		all := v.assigned[f.name]
		meets = len(all) > 0 && !slices.ContainsFunc(all, func(value *ast.Term) bool { return !v.meets(f.need, value, f.steps-1) })
		v.known[f] = meets
	}
	return meets
}

// numeric reports whether a term is a number wherever it has a value.
func (v values) numeric(term *ast.Term, steps int) bool {
	switch value := term.Value.(type) {
	case ast.Number:
		return true
	case ast.Call:
		if name := value[0].String(); name == ast.Minus.Name && len(value) > 2 { // of a number, only a number is subtracted
			return v.meets(needsNumber, value[1], steps-1) || v.meets(needsNumber, value[2], steps-1)
		}
		return types.Compare(resultOf(value), types.N) == 0
	}
	return false
}

// isSet reports whether a term is a set wherever it has a value.
func isSet(term *ast.Term) bool {
	switch value := term.Value.(type) {
	case ast.Set, *ast.SetComprehension:
		return true
	case ast.Call:
		_, ok := resultOf(value).(*types.Set)
		return ok
	}
	return false
}

// resultOf is the type of the result of a function of OPA.
func resultOf(call ast.Call) types.Type {
	function := ast.BuiltinMap[call[0].String()]
	if function == nil {
		return types.A
	}
	if named, ok := function.Decl.Result().(*types.NamedType); ok {
		return named.Type
	}
	return function.Decl.Result()
}

// isInputObject reports whether a term is an object, or a part of the input that is always one.
func isInputObject(term *ast.Term) bool {
	switch value := term.Value.(type) {
	case ast.Object:
		return true
	case ast.Ref:
		return slices.Contains([]string{
			"input.review", "input.parameters", "input.review.object", "input.review.object.metadata", "input.review.object.spec",
		}, value.String())
	}
	return false
}
