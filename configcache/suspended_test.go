package configcache

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/limits/watch"
	"github.com/virtward/virtward/test/await"
)

// suspendedAt sets the generation of an object, and a condition of its status.
func suspendedAt(object *unstructured.Unstructured, generation int64, status string, observed int64) *unstructured.Unstructured {
	object.SetGeneration(generation)
	object.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Suspended", "status": status, "reason": "ExceedsLimits", "message": "m", "observedGeneration": observed,
	}}}
	return object
}

// Only the generation that a status suspends is skipped, and never a policy that denies.
func TestSuspended(t *testing.T) {
	const spec = `{enforcement: %s, validations: [{expression: "1 > 2", message: never, fieldPath: spec}]}`
	of := func(name, enforcement string) *unstructured.Unstructured {
		return policyObject(t, name, fmt.Sprintf(spec, enforcement))
	}
	odd := suspendedAt(of("odd", "Audit"), 2, "True", 2) // without an enforcement that can be read
	odd.Object["spec"].(map[string]any)["enforcement"] = int64(7)
	p, _ := fakePolicies(t,
		suspendedAt(of("audits", "Audit"), 2, "True", 2), suspendedAt(of("warns", "Warn"), 2, "True", 2),
		suspendedAt(of("denies", "Deny"), 2, "True", 2), suspendedAt(of("changed", "Audit"), 3, "True", 2),
		suspendedAt(of("resumed", "Audit"), 2, "False", 2), of("without-a-status", "Audit"), odd,
	)
	await.Run(t, p.Run)
	await.Until(t, p.Ready)
	var suspended, evaluated []string
	for _, c := range p.Compiled() {
		if c.Suspended {
			suspended = append(suspended, c.Object.Name)
		}
	}
	for _, one := range p.Current().Policies() {
		evaluated = append(evaluated, one.Name())
	}
	if diff := cmp.Diff([]string{"audits", "warns"}, suspended); diff != "" {
		t.Errorf("suspended (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"changed", "denies", "odd", "resumed", "without-a-status"}, evaluated); diff != "" {
		t.Errorf("evaluated (-want +got):\n%s", diff)
	}
}

// A policy is suspended and resumed while the watch runs. Other changes of its status have no effect.
func TestSuspensionIsWatched(t *testing.T) {
	object := policyObject(t, "p", `{enforcement: Warn, validations: [{expression: "1 > 2", message: never, fieldPath: spec}]}`)
	object.SetGeneration(1)
	p, client := fakePolicies(t, object)
	p.options.Count = true
	changes := make(chan Change, 10)
	p.OnChange(func(c Change) { changes <- c })
	await.Run(t, p.Run)
	await.Until(t, p.Ready)
	<-changes
	evaluations := func() int64 { return p.Compiled()[0].Tally.Counts().Evaluations }
	if said := verdict(p); len(said) != 1 || evaluations() != 1 {
		t.Fatalf("findings %q, %d evaluations", said, evaluations())
	}
	tally := p.Compiled()[0].Tally
	for i, step := range []struct {
		object *unstructured.Unstructured
		want   int
	}{
		{suspendedAt(object.DeepCopy(), 1, "True", 1), 0},
		{suspendedAt(object.DeepCopy(), 1, "False", 1), 1},
		{suspendedAt(object.DeepCopy(), 1, "True", 1), 0},
		{suspendedAt(object.DeepCopy(), 2, "True", 1), 1},
	} {
		if _, err := client.Update(t.Context(), step.object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-changes
		if said := verdict(p); len(said) != step.want {
			t.Errorf("step %d: findings %q, want %d", i, said, step.want)
		}
		if same := p.Compiled()[0].Tally == tally; same != (step.object.GetGeneration() == 1) {
			t.Errorf("step %d: the same counts: %t", i, same)
		}
	}
	if evaluations() != 1 {
		t.Errorf("another generation begins with %d evaluations", evaluations()-1)
	}
}

// A policy that was deleted and created again begins to count again, although its spec and its generation are the same.
func TestAnotherPolicyOfTheSameNameIsCountedByItself(t *testing.T) {
	p := &Policies{options: policiesOptions(t), memory: watch.NewBudget(MaxPolicies)}
	p.options.Count = true
	p.parameters = &configMaps{}
	read := func(uid types.UID, generation int64) policyRead {
		object := policyObject(t, "p", `{enforcement: Warn, validations: [{expression: "1 > 2", message: never, fieldPath: spec}]}`)
		object.SetUID(uid)
		object.SetGeneration(generation)
		return p.strip(readPolicy(object.Object))
	}
	first := p.remember(nil, read("u-1", 1), false)
	known := map[string]memo{"p": first}
	for name, c := range map[string]struct {
		read policyRead
		same bool
	}{
		"the same":           {read("u-1", 1), true},
		"another generation": {read("u-1", 2), false},
		"another policy":     {read("u-2", 1), false},
	} {
		if got := p.remember(known, c.read, false); (got.compiled.Tally == first.compiled.Tally) != c.same {
			t.Errorf("%s: the same counts: %t", name, !c.same)
		}
	}
}
