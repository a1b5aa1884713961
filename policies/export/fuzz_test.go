package export_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/export"
)

// FuzzExport: no policy makes exporting panic, and what it makes is in the bounds of native policies.
func FuzzExport(f *testing.F) {
	files, err := filepath.Glob("testdata/policies/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d policies, %v", len(files), err)
	}
	for _, file := range files {
		spec, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(spec))
	}
	f.Add("enforcement: Deny" + valid)
	env, err := shared()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		policy := &policyv1alpha1.VirtualMachinePolicy{}
		policy.Name = "fuzz"
		if len(spec) > 1<<13 || yaml.Unmarshal([]byte(spec), &policy.Spec) != nil {
			return
		}
		p, _ := policies.Compile(env, policy, nil)
		native, problems := export.Export(p, cluster, noon)
		if (native == nil) == (len(problems) == 0) {
			t.Fatalf("native %v, problems %v", native, problems)
		}
		for _, problem := range problems {
			if problem.Field == "" || problem.Message == "" {
				t.Errorf("a problem that says nothing: %+v", problem)
			}
		}
		if native != nil {
			checkNative(t, native)
		}
	})
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	condition  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// checkNative holds what the validation of the API server does, but for what compiling is.
func checkNative(t *testing.T, native *export.Native) {
	t.Helper()
	spec := &native.Policy.Spec
	if len(native.Notes) == 0 || len(native.Notes) > 16 {
		t.Errorf("%d notes", len(native.Notes))
	}
	if len(spec.MatchConditions) > 64 || len(spec.Validations) == 0 || len(spec.MatchConstraints.ResourceRules) == 0 {
		t.Errorf("%d conditions, %d validations, %d rules", len(spec.MatchConditions), len(spec.Validations), len(spec.MatchConstraints.ResourceRules))
	}
	names := map[string]bool{}
	for _, c := range spec.MatchConditions {
		if !condition.MatchString(c.Name) || names[c.Name] {
			t.Errorf("a condition with the name %q", c.Name)
		}
		names[c.Name] = true
	}
	clear(names)
	for _, v := range spec.Variables {
		if !identifier.MatchString(v.Name) || names[v.Name] {
			t.Errorf("a variable with the name %q", v.Name)
		}
		names[v.Name] = true
	}
	for _, v := range spec.Validations {
		if strings.TrimSpace(v.Message) == "" || strings.ContainsAny(v.Message, "\r\n") || strings.TrimSpace(v.Expression) == "" {
			t.Errorf("%q, of which is said %q", v.Expression, v.Message)
		}
	}
}

// compileToday compiles a native policy as an API server of today does.
func compileToday(t *testing.T, native *export.Native) {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	check := func(result plugincel.CompilationResult) {
		if result.Error != nil {
			t.Errorf("%s\n%v", result.ExpressionAccessor.GetExpression(), result.Error)
		}
	}
	all, inMessages := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, plugincel.OptionalVariableDeclarations{}
	for _, c := range native.Policy.Spec.MatchConditions {
		check(compiler.CompileCELExpression(named{text: c.Expression, result: celgo.BoolType}, all, environment.NewExpressions))
	}
	for _, v := range native.Policy.Spec.Variables {
		check(compiler.CompileAndStoreVariable(named{v.Name, v.Expression, celgo.AnyType}, all, environment.NewExpressions))
	}
	for _, v := range native.Policy.Spec.Validations {
		check(compiler.CompileCELExpression(named{text: v.Expression, result: celgo.BoolType}, all, environment.NewExpressions))
		if v.MessageExpression != "" {
			check(compiler.CompileCELExpression(named{text: v.MessageExpression, result: celgo.StringType}, inMessages, environment.NewExpressions))
		}
	}
}

type named struct {
	name, text string
	result     *celgo.Type
}

func (n named) GetName() string            { return n.name }
func (n named) GetExpression() string      { return n.text }
func (n named) ReturnTypes() []*celgo.Type { return []*celgo.Type{n.result} }
