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
	v := values{fallibleFunctions(), setRules(modules), map[following]bool{}, map[string]bool{}}
	for _, m := range modules {
		for _, rule := range m.Rules {
			for r := rule; r != nil; r = r.Else {
				head := *r.Head
				head.Args = nil
				v.visit(newScope(nil, r.Body, r.Head.Args...), &head)
			}
		}
	}
	return slices.Sorted(maps.Keys(v.found))
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

// scope are the variables that a body declares, with their values by :=. Those without a value get one in another way.
type scope struct {
	around *scope
	body   ast.Body
	values map[ast.Var]*ast.Term
}

// newScope returns the scope of a body, in which other terms declare variables, too.
func newScope(around *scope, body ast.Body, others ...*ast.Term) *scope {
	made := &scope{around, body, map[ast.Var]*ast.Term{}}
	declare := func(term *ast.Term) {
		ast.WalkVars(term, func(name ast.Var) bool { made.values[name] = nil; return false })
	}
	for _, e := range body {
		if e.IsAssignment() {
			declare(e.Operand(0))
			if name, ok := e.Operand(0).Value.(ast.Var); ok {
				made.values[name] = e.Operand(1)
			}
		}
		if some, ok := e.Terms.(*ast.SomeDecl); ok {
			for _, symbol := range some.Symbols {
				if member, ok := symbol.Value.(ast.Call); ok { // what is before "in"
					for _, term := range member[1 : len(member)-1] {
						declare(term)
					}
					continue
				}
				declare(symbol)
			}
		}
	}
	for _, term := range others {
		if term != nil {
			declare(term)
		}
	}
	return made
}

// find returns the value of a variable, and the scope that declares it; nil for a variable without a value.
func (s *scope) find(name ast.Var) (value *ast.Term, in *scope) {
	for ; s != nil; s = s.around {
		if value, ok := s.values[name]; ok {
			return value, s
		}
	}
	return nil, nil
}

// values follow the variables of rules to their values.
type values struct {
	functions map[string][]need
	// sets are the paths of rules that are sets.
	sets map[string]bool
	// known are the results of meets for variables: each is followed once, although several values of others name it.
	known map[following]bool
	// found are the functions that can have an error.
	found map[string]bool
}

// following is what meets looks for behind a variable of a scope.
type following struct {
	in    *scope
	name  ast.Var
	need  need
	steps int
}

// visit finds the functions that a body and what it makes can have errors of. Each comprehension has a scope of its own.
func (v values) visit(s *scope, made ...any) {
	var visitor *ast.GenericVisitor
	visitor = ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension:
			v.visit(newScope(s, x.Body), x.Term)
		case *ast.SetComprehension:
			v.visit(newScope(s, x.Body), x.Term)
		case *ast.ObjectComprehension:
			v.visit(newScope(s, x.Body), x.Key, x.Value)
		case *ast.Every:
			visitor.Walk(x.Domain)
			v.visit(newScope(s, x.Body, x.Key, x.Value))
		case *ast.Expr:
			if terms, ok := x.Terms.([]*ast.Term); ok {
				v.called(s, terms)
			}
			return false
		case ast.Call:
			v.called(s, x)
			return false
		default:
			return false
		}
		return true
	})
	visitor.Walk(s.body)
	for _, one := range made {
		visitor.Walk(one)
	}
}

// called notes a function that can have an error for its arguments.
func (v values) called(s *scope, terms []*ast.Term) {
	if name := terms[0].String(); !v.safe(s, v.functions[name], terms[1:]) {
		v.found[name] = true
	}
}

// safe reports whether arguments meet needs.
func (v values) safe(s *scope, needs []need, arguments []*ast.Term) bool {
	for i, n := range needs[:min(len(needs), len(arguments))] {
		if !v.meets(s, n, arguments[i], maxSteps) {
			return false
		}
	}
	return true
}

// maxSteps is how many variables and operands are followed to a value.
const maxSteps = 8

// meets reports whether an argument meets a need.
func (v values) meets(s *scope, n need, argument *ast.Term, steps int) bool {
	if steps == 0 {
		return n == needsNothing
	}
	if name, ok := argument.Value.(ast.Var); ok {
		return n == needsNothing || v.variableMeets(following{s, name, n, steps})
	}
	switch n {
	case needsNothing:
		return true
	case needsLiteral:
		return ast.IsConstant(argument.Value)
	case needsNumber:
		return v.numeric(s, argument, steps)
	case needsNumberOrSet:
		ref, ok := argument.Value.(ast.Ref)
		return v.numeric(s, argument, steps) || ok && v.sets[ref.String()] || isSet(argument)
	case needsObject:
		return isInputObject(argument)
	}
	return false
}

// variableMeets reports whether the value of a variable meets a need.
func (v values) variableMeets(f following) bool {
	value, in := f.in.find(f.name)
	if value == nil {
		return false
	}
	f.in = in
	meets, ok := v.known[f]
	if !ok {
		meets = v.meets(in, f.need, value, f.steps-1)
		v.known[f] = meets
	}
	return meets
}

// numeric reports whether a term is a number wherever it has a value.
func (v values) numeric(s *scope, term *ast.Term, steps int) bool {
	switch value := term.Value.(type) {
	case ast.Number:
		return true
	case ast.Call:
		if name := value[0].String(); name == ast.Minus.Name && len(value) > 2 { // of a number, only a number is subtracted
			return v.meets(s, needsNumber, value[1], steps-1) || v.meets(s, needsNumber, value[2], steps-1)
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
