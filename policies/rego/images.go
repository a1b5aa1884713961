package rego

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// CheckImages is the name of the check of prefixes of images and URLs. Expressions in CEL have it too.
const CheckImages = "image-prefix"

// Address is what a text is the address of; empty for another text.
type Address string

// The kinds of addresses.
const (
	// Image is the address of an image as its author wrote it.
	Image Address = "image"
	// URL is the address of a file or an image with its scheme, as its author wrote it.
	URL Address = "URL"
	// Name is the normal form of an image: its registry and its repository.
	Name Address = "name"
	// Host is the registry of an image, or the host of a URL.
	Host Address = "host"
)

// AddressAt returns what the field at the end of a path is.
func AddressAt(steps []string) Address {
	if len(steps) < 2 {
		return ""
	}
	switch parent, name := steps[len(steps)-2], steps[len(steps)-1]; {
	case name == "image" && (parent == "containerDisk" || parent == "container"):
		return Image
	case name == "url" && slices.Contains([]string{"http", "registry", "s3", "gcs", "imageio"}, parent):
		return URL
	}
	return ""
}

// NormalForm returns what a field of virtward.image or virtward.url is.
func NormalForm(field string) Address {
	switch field {
	case "canonical", "name":
		return Name
	case "registry", "host", "authority":
		return Host
	}
	return ""
}

// WrongPrefix returns why a comparison of an address with a part of it admits too much; empty if it does not. negated reports
// whether the comparison rejects what it finds.
func WrongPrefix(what Address, function, text string, negated bool) string {
	switch strings.ToLower(function) {
	case "startswith":
		return wrongBeginning(what, text, negated)
	case "contains":
		if what != Host && strings.ContainsAny(text, "./:") {
			return fmt.Sprintf("%q can be anywhere in the address, so example.com/%s has it too: compare %s", text, text, insteadOf(what))
		}
	case "matches":
		return wrongPattern(what, text)
	}
	return ""
}

// wrongBeginning checks a prefix. One that ends with a complete host, directory, tag or digest is correct.
func wrongBeginning(what Address, text string, negated bool) string {
	rest := text
	if _, behind, found := strings.Cut(text, "://"); found {
		rest = behind
	}
	switch {
	case rest == "":
		return ""
	case what == Host:
		return fmt.Sprintf("the prefix %q admits %s.example.com: compare the host with ==", text, text)
	case negated && what == Image && dockerHub.MatchString(rest):
		return fmt.Sprintf("the prefix %q does not find all images of Docker Hub, such as fedora: compare %s", text, insteadOf(what))
	case !strings.Contains(rest, "/"):
		return fmt.Sprintf("the prefix %q admits %s.example.com: compare %s, or end the prefix with /", text, text, insteadOf(what))
	case !strings.HasSuffix(rest, "/") && !strings.HasSuffix(rest, ":") && !strings.HasSuffix(rest, "@"):
		return fmt.Sprintf("the prefix %q admits %s-other: compare %s, or end the prefix with /", text, text, insteadOf(what))
	}
	return ""
}

// dockerHub is a prefix of images that have shorter names too.
var dockerHub = regexp.MustCompile(`^(index\.)?docker\.io(/|$)`)

// wrongPattern checks a regular expression: it must begin with ^, have no unescaped dot in the host, and end the host with /.
func wrongPattern(what Address, pattern string) string {
	rest, anchored := strings.CutPrefix(pattern, "^")
	if !anchored {
		return fmt.Sprintf("the pattern %q does not begin with ^, so it can match anywhere in the address: compare %s", pattern, insteadOf(what))
	}
	if _, behind, found := strings.Cut(rest, "://"); found {
		rest = behind
	}
	host, _, ended := strings.Cut(rest, "/")
	unescaped := regexp.MustCompile(`(^|[^\\[])\.($|[^*+?])`)
	switch {
	case unescaped.MatchString(host):
		return fmt.Sprintf("a dot in the host of the pattern %q matches any character: compare %s, or write \\.", pattern, insteadOf(what))
	case what != Host && !ended || what == Host && !strings.HasSuffix(host, "$"):
		return fmt.Sprintf("the pattern %q does not end the host, so it admits hosts that begin with it: compare %s", pattern, insteadOf(what))
	}
	return ""
}

// insteadOf returns what to compare instead of an address.
func insteadOf(what Address) string {
	switch what {
	case Image:
		return "virtward.image(image).registry"
	case URL:
		return "virtward.url(url).host, or virtward.image(url).registry of an image"
	case Name:
		return "the field registry"
	}
	return "the whole host"
}

// image finds prefixes of images and URLs in a module.
func (a *adviser) image(operator ast.Ref, operands []*ast.Term) {
	if operator.String() != "startswith" && operator.String() != "contains" || len(operands) < 2 {
		return
	}
	what := a.address(operands[0])
	if what == "" {
		return
	}
	for _, text := range a.textsOf(operands[1]) {
		if wrong := WrongPrefix(what, operator.String(), text, false); wrong != "" {
			a.warn(CheckImages, operands[0].Location, "%s", wrong)
			return
		}
	}
}

// assignments returns the terms that variables are assigned, or the lists that they iterate over. A variable with several is
// nil.
func assignments(module *ast.Module) map[ast.Var]*ast.Term {
	all := map[ast.Var]*ast.Term{}
	add := func(variable, value *ast.Term) {
		name, ok := variable.Value.(ast.Var)
		if !ok {
			return
		}
		if before, twice := all[name]; twice && (before == nil || !before.Equal(value)) {
			value = nil
		}
		all[name] = value
	}
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if e.IsAssignment() {
			add(e.Operand(0), e.Operand(1))
		}
		declared, ok := e.Terms.(*ast.SomeDecl)
		if !ok {
			return false
		}
		for _, symbol := range declared.Symbols {
			if call, ok := symbol.Value.(ast.Call); ok && len(call) > 2 {
				add(call[len(call)-2], call[len(call)-1])
			}
		}
		return false
	})
	return all
}

// address returns what a term reads, also through a variable that the module assigns.
func (a *adviser) address(t *ast.Term) Address {
	switch v := t.Value.(type) {
	case ast.Ref:
		steps := make([]string, 0, len(v))
		for _, step := range v {
			if name, ok := step.Value.(ast.String); ok {
				steps = append(steps, string(name))
			} else {
				steps = append(steps, "")
			}
		}
		if call, ok := v[0].Value.(ast.Call); ok && len(steps) == 2 && slices.Contains([]string{"virtward.image", "virtward.url"}, call[0].String()) {
			return NormalForm(steps[1])
		}
		return AddressAt(steps)
	case ast.Var:
		if assigned := a.assigned[v]; assigned != nil && !assigned.Equal(t) {
			delete(a.assigned, v) // a variable that is read in its own value
			defer func() { a.assigned[v] = assigned }()
			return a.address(assigned)
		}
	}
	return ""
}

// textsOf returns the strings that a term can be: a text, a parameter, or an element of a list of parameters.
func (a *adviser) textsOf(t *ast.Term) []string {
	if v, ok := t.Value.(ast.Var); ok && a.assigned[v] != nil {
		t = a.assigned[v]
	}
	switch v := t.Value.(type) {
	case ast.String:
		return []string{string(v)}
	case ast.Ref:
		if len(v) < 3 || a.params == nil || !v[0].Equal(ast.InputRootDocument) || !v[1].Equal(ast.StringTerm("params")) {
			return nil
		}
		var steps []string
		for _, step := range v[2:] { // a variable stands for each element
			if name, ok := step.Value.(ast.String); ok {
				steps = append(steps, string(name))
			}
		}
		return Texts(Parameter(a.params, steps))
	}
	return nil
}

// Texts returns a value that is a string, or the strings of a list.
func Texts(value any) (all []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			all = append(all, Texts(one)...)
		}
	}
	return all
}
