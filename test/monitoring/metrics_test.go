package monitoring

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/prometheus/prometheus/model/labels"
	promql "github.com/prometheus/prometheus/promql/parser"
)

// TestMetrics: every expression of an alert is valid.
func TestMetrics(t *testing.T) {
	known := declared(t)
	for _, r := range rules(t) {
		verify(t, r.Alert, r.Expr, known)
	}
}

// verify fails if an expression does not parse, or has metrics or labels that are not known. It returns the names of the metrics.
func verify(t *testing.T, subject, text string, known map[string][]string) []string {
	t.Helper()
	expression, err := promql.NewParser(promql.Options{}).ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v", subject, err)
		return nil
	}
	var metrics []string
	has := func(node promql.Node, names ...string) {
		promql.Inspect(node, func(node promql.Node, _ []promql.Node) error {
			selector, is := node.(*promql.VectorSelector)
			if !is {
				return nil
			}
			found, exists := known[selector.Name]
			if !exists {
				t.Errorf("%s: no metric %s", subject, selector.Name)
			}
			for _, name := range names {
				if !slices.Contains(found, name) {
					t.Errorf("%s: the metric %s has no label %s", subject, selector.Name, name)
				}
			}
			return nil
		})
	}
	promql.Inspect(expression, func(node promql.Node, _ []promql.Node) error {
		switch node := node.(type) {
		case *promql.VectorSelector:
			metrics = append(metrics, node.Name)
			var names []string
			for _, matcher := range node.LabelMatchers {
				if matcher.Name != model.MetricNameLabel {
					names = append(names, matcher.Name)
				}
			}
			has(node, names...)
		case *promql.AggregateExpr:
			has(node.Expr, node.Grouping...)
		case *promql.BinaryExpr:
			if node.VectorMatching != nil {
				has(node, node.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	return metrics
}

// declared returns the labels of all metrics that the repository declares, and of the API server's that count calls of webhooks and tell which APIs do not answer.
func declared(t *testing.T) map[string][]string {
	t.Helper()
	metrics := map[string][]string{
		"apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type", "rejection_code"},
		"apiserver_admission_webhook_fail_open_count": {"name", "type"},
		"aggregator_unavailable_apiservice":           {"name"},
	}
	source := os.DirFS(root)
	err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || strings.HasPrefix(entry.Name(), ".") && path != "."):
			return fs.SkipDir
		case !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go"):
			return nil
		}
		content, err := fs.ReadFile(source, path)
		if err != nil || !bytes.Contains(content, []byte("client_golang/prometheus\"")) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, content, 0)
		if err != nil {
			return err
		}
		constants := constantsOf(file)
		ast.Inspect(file, func(node ast.Node) bool {
			if call, is := node.(*ast.CallExpr); is && len(call.Args) > 0 {
				if name := nameOf(call, constants); strings.HasPrefix(name, "virtward_") || strings.HasPrefix(name, "kubevirt_") {
					found := stringsOf(call.Args[1:], constants)
					metrics[name] = found
					if function, is := call.Fun.(*ast.SelectorExpr); is && strings.HasPrefix(function.Sel.Name, "NewHistogram") {
						metrics[name+"_bucket"], metrics[name+"_count"] = append(slices.Clone(found), labels.BucketLabel), found
						delete(metrics, name)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return metrics
}

// nameOf returns the name of the metric that a call declares, as its first argument or in the options there.
func nameOf(call *ast.CallExpr, constants map[string]string) string {
	options, is := call.Args[0].(*ast.CompositeLit)
	if !is {
		return stringOf(call.Args[0], constants)
	}
	for _, element := range options.Elts {
		if field, is := element.(*ast.KeyValueExpr); is {
			if key, is := field.Key.(*ast.Ident); is && key.Name == "Name" {
				return stringOf(field.Value, constants)
			}
		}
	}
	return ""
}

// stringsOf returns the elements of the first list of strings.
func stringsOf(arguments []ast.Expr, constants map[string]string) []string {
	for _, argument := range arguments {
		if list, is := argument.(*ast.CompositeLit); is {
			var found []string
			for _, element := range list.Elts {
				found = append(found, stringOf(element, constants))
			}
			return found
		}
	}
	return nil
}

func stringOf(expression ast.Expr, constants map[string]string) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.Ident:
		return constants[e.Name]
	}
	return ""
}

// constantsOf returns the constants of a file that are strings.
func constantsOf(file *ast.File) map[string]string {
	constants := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		if value, is := node.(*ast.ValueSpec); is {
			for i, name := range value.Names {
				if i < len(value.Values) {
					constants[name.Name] = stringOf(value.Values[i], nil)
				}
			}
		}
		return true
	})
	return constants
}
