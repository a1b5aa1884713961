package convert_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
	"github.com/virtward/virtward/validators"
)

// questions is the file to which TestQuestions writes patterns and objects, for answers by Kyverno's own engine.
var questions = flag.String("questions", "", "write the questions to Kyverno's engine to this file")

// recorded are answers of Kyverno's engine about generated patterns and objects.
type recorded struct {
	// Version is that of Kyverno.
	Version string `json:"version,omitempty"`
	// Objects are virtual machines, as the documents of a policy have them.
	Objects []map[string]any `json:"objects"`
	Rules   []recordedRule   `json:"rules"`
}

// recordedRule is validate of a rule: pattern or anyPattern.
type recordedRule struct {
	Validate map[string]any `json:"validate"`
	// Answers has a letter for each object: p for pass, f for fail, s for skip.
	Answers string `json:"answers,omitempty"`
}

// shape is what patterns and objects are generated of.
type shape struct {
	values   []any // of a field without fields
	patterns []any
	fields   map[string]*shape
	list     *shape
	// always are the fields that every object has.
	always []string
}

// grammar returns the fields of virtual machines from which questions are made, with values and patterns at the edges of each other.
func grammar() *shape {
	leaf := func(values, patterns []any) *shape { return &shape{values: values, patterns: append(patterns, nil)} }
	a := func(values ...any) []any { return values }
	text := func(values ...any) *shape {
		return leaf(values, append(slices.Clone(values), "*", "?*", "!"+values[0].(string), values[0].(string)+" | "+values[1].(string), values[0].(string)[:1]+"*", "*"+values[1].(string)[1:],
			"*"+values[0].(string)[1:2]+"*", "?"+values[1].(string)[1:], "!"+values[0].(string)+" & !"+values[1].(string), "", "5", "?*"+values[0].(string)[2:]))
	}
	number := func() *shape {
		return leaf(a(1, 2, 4, 8), a(1, 4, "4", ">2", ">=4", "<4", "<=2", "!4", "2-4", "2!-4", "*", "?*", ">1 & <8", "1 | 8", "0", "<=0", ">0"))
	}
	either := func() *shape { return leaf(a(true, false), a(true, false, "true", "!true", "*", "?*", "false | x")) }
	amount := func() *shape {
		return leaf(a("1Gi", "2Gi", "4Gi", "500M", "3"), a("2Gi", "2048Mi", "<=2Gi", ">=2Gi", "<2Gi", ">2Gi", "!2Gi", "1Gi-2Gi", "1Gi!-2Gi", "*", "?*", "0", ">0", "<=500M | 4Gi"))
	}
	labels := &shape{fields: map[string]*shape{
		"app": text("web", "db"), "team/a": text("ann", "bob"), "cores": leaf(a("2", "4", "x", "1Gi"), a("2", ">2", "<=4", "!4", "1-3", "?*", "*", "1-1")),
		"team/*": text("ann", "bob"), "co?es": leaf(a("2"), a("2", "*", "?*", "!x")),
		"ttl": leaf(a("1h", "90m", "x", "30s"), a("1h", "<=1h", ">1h", "!60m", "*")),
	}}
	disk := &shape{always: []string{"name"}, fields: map[string]*shape{
		"name": text("root", "data", "cd"), "serial": text("s1", "s2"),
		"disk":  {fields: map[string]*shape{"bus": text("virtio", "sata"), "readonly": leaf(a(true), a(true, "true", "!true"))}},
		"cdrom": {fields: map[string]*shape{"bus": text("sata", "scsi"), "readonly": either()}},
	}}
	volume := &shape{always: []string{"name"}, fields: map[string]*shape{
		"name":                  text("root", "data"),
		"containerDisk":         {always: []string{"image"}, fields: map[string]*shape{"image": text("quay.io/a", "docker.io/b"), "imagePullPolicy": text("Always", "Never")}},
		"persistentVolumeClaim": {always: []string{"claimName"}, fields: map[string]*shape{"claimName": text("a1", "b1")}},
		"emptyDisk":             {always: []string{"capacity"}, fields: map[string]*shape{"capacity": amount()}},
	}}
	device := &shape{always: []string{"name", "deviceName"}, fields: map[string]*shape{"name": text("gpu", "nic"), "deviceName": text("nvidia.com/a", "intel.com/b")}}
	spec := &shape{always: []string{"domain"}, fields: map[string]*shape{
		"hostname": text("host1", "web2"), "terminationGracePeriodSeconds": number(), "evictionStrategy": text("LiveMigrate", "None"),
		"nodeSelector": {fields: map[string]*shape{"zone": text("z1", "z2"), "arch": text("amd64", "arm64")}},
		"volumes":      {list: volume},
		"tolerations":  {list: &shape{fields: map[string]*shape{"key": text("k1", "k2"), "operator": text("Exists", "Equal")}}},
		"dnsConfig":    {fields: map[string]*shape{"nameservers": {list: text("1.1.1.1", "8.8.8.8")}}},
		"domain": {always: []string{"devices"}, fields: map[string]*shape{
			"cpu":    {fields: map[string]*shape{"cores": number(), "sockets": number(), "model": text("host-model", "Skylake"), "dedicatedCpuPlacement": leaf(a(true), a(true, "true", "!false"))}},
			"memory": {fields: map[string]*shape{"guest": amount(), "hugepages": {fields: map[string]*shape{"pageSize": text("2Mi", "1Gi")}}}},
			"resources": {fields: map[string]*shape{
				"limits":   {fields: map[string]*shape{"memory": amount(), "cpu": leaf(a("1", "500m", "2"), a("1", "<=500m", ">=1", "1-2"))}},
				"requests": {fields: map[string]*shape{"memory": amount()}},
			}},
			"devices": {fields: map[string]*shape{
				"disks": {list: disk}, "hostDevices": {list: device}, "autoattachGraphicsDevice": either(), "rng": {fields: map[string]*shape{}},
			}},
		}},
	}}
	return &shape{always: []string{"metadata", "spec"}, fields: map[string]*shape{
		"metadata": {always: []string{"name"}, fields: map[string]*shape{"name": text("vm1", "db2"), "labels": labels, "annotations": {fields: map[string]*shape{"note": text("free text", "b-c")}}}},
		"spec": {always: []string{"template"}, fields: map[string]*shape{
			"runStrategy": text("Always", "Manual"), "running": either(), "instancetype": {fields: map[string]*shape{"name": text("u1.small", "m1.large"), "kind": text("VirtualMachineInstancetype", "x1")}},
			"template": {always: []string{"spec"}, fields: map[string]*shape{"metadata": {fields: map[string]*shape{"labels": labels}}, "spec": spec}},
		}},
	}}
}

// sorted returns the names of the fields.
func (s *shape) names() []string {
	var all []string
	for name := range s.fields {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func pick[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

// object returns a random value.
func (s *shape) object(random *rand.Rand) any {
	switch {
	case s.list != nil:
		list := []any{}
		for range 1 + random.IntN(3) {
			list = append(list, s.list.object(random))
		}
		return list
	case s.fields == nil:
		return pick(random, s.values)
	}
	made := map[string]any{}
	for _, name := range s.names() {
		if slices.Contains(s.always, name) || random.IntN(5) < 3 && !strings.ContainsAny(name, "*?") {
			made[name] = s.fields[name].object(random)
		}
	}
	return made
}

// pattern returns a random pattern. anchors is the share of keys with anchors, in percent.
func (s *shape) pattern(random *rand.Rand, depth, anchors int) any {
	switch {
	case s.list != nil && s.list.fields == nil:
		if random.IntN(2) == 0 {
			return []any{s.list.pattern(random, depth, anchors)}
		}
		return s.list.pattern(random, depth, anchors)
	case s.list != nil:
		if random.IntN(12) == 0 {
			return "*"
		}
		return []any{s.list.pattern(random, depth, anchors)}
	case s.fields == nil:
		return pick(random, s.patterns)
	case depth > 2 && random.IntN(12) == 0:
		return pick(random, []any{"*", nil})
	}
	made := map[string]any{}
	names := s.names()
	if len(names) == 0 {
		return made
	}
	for range min(1+random.IntN(3), len(names)) {
		at := random.IntN(len(names))
		name := names[at]
		below := s.fields[name]
		names = slices.Delete(names, at, at+1)
		key, value := name, below.pattern(random, depth+1, anchors)
		if random.IntN(100) < anchors {
			switch anchor := pick(random, []string{"", "", "=", "=", "=", "X", "<", "^"}); {
			case anchor == "X" && (slices.Contains(s.always, name) || name == "resources" || name == "metadata"):
			case anchor == "^" && (below.list == nil || below.list.fields == nil):
			case anchor == "^":
				list := []any{below.list.pattern(random, depth+1, anchors)}
				if random.IntN(3) == 0 {
					list = append(list, below.list.pattern(random, depth+1, anchors))
				}
				key, value = "^("+name+")", list
			case anchor == "X":
				key, value = "X("+name+")", "null"
			default:
				key = anchor + "(" + name + ")"
			}
		}
		made[key] = value
	}
	return made
}

// TestQuestions writes the questions. Their answers come from a program with Kyverno's engine, see testdata/kyverno/README.md.
func TestQuestions(t *testing.T) {
	if *questions == "" {
		t.Skip("no -questions")
	}
	const objects, rules = 80, 1000
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	all := recorded{}
	top := grammar()
	for range objects {
		made := top.object(random).(map[string]any)
		made["apiVersion"], made["kind"] = "kubevirt.io/v1", "VirtualMachine"
		_, normal := machine(t, made)
		all.Objects = append(all.Objects, normal)
	}
	for i := range rules {
		anchors := []int{0, 25, 60}[i%3]
		validate := map[string]any{"pattern": top.pattern(random, 0, anchors)}
		if i%10 == 0 {
			validate = map[string]any{"anyPattern": []any{top.pattern(random, 0, anchors), top.pattern(random, 0, anchors)}}
		}
		all.Rules = append(all.Rules, recordedRule{Validate: validate})
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*questions, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// machine returns an object in its Go type, and as documents have it.
func machine(t testing.TB, object map[string]any) (*v1.VirtualMachine, map[string]any) {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	vm := &v1.VirtualMachine{}
	if err := json.Unmarshal(data, vm); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if data, err = json.Marshal(vm); err != nil {
		t.Fatal(err)
	}
	normal := map[string]any{}
	if err := json.Unmarshal(data, &normal); err != nil {
		t.Fatal(err)
	}
	return vm, normal
}

// clusterPolicy returns a ClusterPolicy with one rule that denies.
func clusterPolicy(t testing.TB, validate map[string]any) *unstructured.Unstructured {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "x"},
		"spec": map[string]any{"validationFailureAction": "Enforce", "rules": []any{map[string]any{
			"name": "r", "match": map[string]any{"any": []any{map[string]any{"resources": map[string]any{"kinds": []any{"VirtualMachine"}}}}}, "validate": validate,
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestKyvernoAnswers converts the recorded rules, and compares the verdicts with the answers of Kyverno's engine.
func TestKyvernoAnswers(t *testing.T) {
	data, err := os.ReadFile("testdata/kyverno/patterns.json")
	if err != nil {
		t.Fatal(err)
	}
	var all recorded
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	var subjects []*cel.Documents
	for _, object := range all.Objects {
		vm, _ := machine(t, object)
		d := &cel.Documents{Kind: "VirtualMachine", Object: vm, Facts: platform.Defaults(platform.Settings{}), Requester: "alice"}
		d.Request = cel.Request{Operation: "CREATE", Name: vm.Name, Namespace: "team-a"}
		subjects = append(subjects, d)
	}
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	shortest, about, incomplete := "", "", ""
	converted, explained, pairs, different := 0, 0, 0, 0
	if testing.Short() {
		all.Rules = all.Rules[:len(all.Rules)/8]
	}
	for i, rule := range all.Rules {
		results := convert.Convert(environment(t), []*unstructured.Unstructured{clusterPolicy(t, rule.Validate)}, effective.AlwaysSet())
		if results[0].Policy == nil {
			explained++
			if *questions != "" {
				t.Log(results[0].Notes[0].Message)
			}
			continue
		}
		if slices.ContainsFunc(results[0].Notes, func(n convert.Note) bool { return n.Lost && !strings.HasPrefix(n.Reason, "lint/") }) {
			if text := fmt.Sprintf("%s %v", texts(results[0]), results[0].Notes); incomplete == "" || len(text) < len(incomplete) {
				incomplete = text
			}
		}
		converted++
		compiled, problems := policies.Compile(environment(t), results[0].Policy, nil)
		if compiled.Broken() != "" {
			t.Fatalf("rule %d: %v", i, problems)
		}
		set := policies.NewSet("virtward-system", compiled)
		for k, d := range subjects {
			pairs++
			denied := slices.ContainsFunc(set.Evaluate(d, noon), func(f validators.Finding) bool { return f.Severity == validators.Deny })
			if denied != (rule.Answers[k] == 'f') {
				different++
				pattern, _ := json.Marshal(rule.Validate)
				if shortest == "" || len(pattern) < len(shortest) {
					object, _ := json.Marshal(all.Objects[k])
					shortest = string(pattern)
					about = fmt.Sprintf("rule %d, object %d: denied %v, Kyverno %c\n%s\n%s", i, k, denied, rule.Answers[k], texts(results[0]), object)
				}
			}
		}
	}
	t.Logf("Kyverno %s: %d rules, %d converted, %d explained, %d pairs, %d different", all.Version, len(all.Rules), converted, explained, pairs, different)
	if incomplete != "" {
		t.Error(incomplete)
	}
	if !testing.Short() && pairs < 50000 || pairs == 0 || different > 0 {
		t.Errorf("%d pairs, %d different: %s: %s", pairs, different, shortest, about)
	}
}

// texts returns the expressions of a policy.
func texts(r convert.Result) string {
	var all []string
	for _, v := range r.Policy.Spec.Validations {
		all = append(all, v.Expression)
	}
	return fmt.Sprint(strings.Join(all, "\n"))
}
