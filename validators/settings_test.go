package validators

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// fewRules are what settings are about in these tests. The last one warns by itself.
func fewRules() Table {
	return Table{{ID: "disk-bus"}, {ID: "disk-count", Severity: Deny}, {ID: "arm64-disk-bus"}, {ID: "network-source"}, {ID: "vm-running", Severity: Warn}}
}

// ruleSettings reads the entries of one object for each text.
func ruleSettings(t testing.TB, texts ...string) []policyv1alpha1.RuleSettings {
	t.Helper()
	var objects []policyv1alpha1.RuleSettings
	for i, text := range texts {
		object := policyv1alpha1.RuleSettings{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}}
		if err := yaml.UnmarshalStrict([]byte(text), &object.Spec.Rules); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

const (
	excludingShop = `[{rule: disk-bus, severity: Warn, namespaceSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [shop]}]}}]`

	lab  = "namespaceSelector: {matchLabels: {tier: lab}}"
	east = "namespaceSelector: {matchExpressions: [{key: zone, operator: In, values: [east]}]}"
)

func TestSettings(t *testing.T) {
	inLab, inEastLab, elsewhere := labels.Set{"tier": "lab"}, labels.Set{"tier": "lab", "zone": "east"}, labels.Set{"tier": "shop"}
	for _, c := range []struct {
		name    string
		objects []string
		in      labels.Set
		want    Severities
		selects bool
	}{
		{name: "no objects"},
		{name: "an object without entries", objects: []string{"[]"}},
		{name: "everywhere", objects: []string{"[{rule: disk-bus, severity: Warn}]"}, want: Severities{"disk-bus": Warn}},
		{name: "with an empty selector", objects: []string{`[{rule: disk-bus, severity: "Off", namespaceSelector: {}}]`}, want: Severities{"disk-bus": Off}},
		{name: "a rule made stricter", objects: []string{"[{rule: vm-running, severity: Deny}]"}, want: Severities{"vm-running": Deny}},
		{name: "what the rule says itself", objects: []string{"[{rule: disk-bus, severity: Deny}, {rule: vm-running, severity: Warn}]"}},
		{
			name: "the strictest everywhere", objects: []string{`[{rule: disk-bus, severity: "Off"}, {rule: vm-running, severity: "Off"}]`, "[{rule: disk-bus, severity: Warn}]"},
			want: Severities{"disk-bus": Warn, "vm-running": Off},
		},
		{
			name: "an empty selector is equivalent to none", objects: []string{`[{rule: disk-bus, severity: "Off", namespaceSelector: {matchLabels: {}}}, {rule: disk-bus, severity: Warn}]`},
			in: inLab, want: Severities{"disk-bus": Warn},
		},
		{name: "selected", objects: []string{"[{rule: disk-bus, severity: Warn, " + lab + "}]"}, in: inLab, want: Severities{"disk-bus": Warn}, selects: true},
		{name: "not selected", objects: []string{"[{rule: disk-bus, severity: Warn, " + lab + "}]"}, in: elsewhere, selects: true},
		{name: "a namespace without labels", objects: []string{"[{rule: disk-bus, severity: Warn, " + lab + "}]"}, in: labels.Set{}, selects: true},
		{
			name: "a selector wins over none, though it is more lenient", objects: []string{"[{rule: disk-bus, severity: Warn}]", `[{rule: disk-bus, severity: "Off", ` + lab + "}]"},
			in: inLab, want: Severities{"disk-bus": Off}, selects: true,
		},
		{
			name: "and elsewhere the other holds", objects: []string{"[{rule: disk-bus, severity: Warn}]", `[{rule: disk-bus, severity: "Off", ` + lab + "}]"},
			in: elsewhere, want: Severities{"disk-bus": Warn}, selects: true,
		},
		{
			name: "a selector that takes a downgrade back", objects: []string{"[{rule: disk-bus, severity: Warn}, {rule: disk-count, severity: Warn}]", "[{rule: disk-bus, severity: Deny, " + lab + "}]"},
			in: inLab, want: Severities{"disk-count": Warn}, selects: true,
		},
		{
			name: "a selector that takes the only downgrade back", objects: []string{"[{rule: disk-bus, severity: Warn}, {rule: disk-bus, severity: Deny, " + lab + "}]"},
			in: inLab, selects: true,
		},
		{
			name: "the strictest of two selectors", objects: []string{`[{rule: disk-bus, severity: "Off", ` + lab + "}, {rule: disk-bus, severity: Warn, " + east + "}]"},
			in: inEastLab, want: Severities{"disk-bus": Warn}, selects: true,
		},
		{
			name: "the strictest of one selector, in two forms", objects: []string{
				"[{rule: disk-bus, severity: Warn, " + lab + "}]",
				`[{rule: disk-bus, severity: "Off", namespaceSelector: {matchExpressions: [{key: tier, operator: In, values: [lab]}]}}]`,
			},
			in: inLab, want: Severities{"disk-bus": Warn}, selects: true,
		},
		{
			name: "each rule by itself", objects: []string{`[{rule: disk-bus, severity: "Off", ` + lab + `}, {rule: disk-count, severity: Warn}, {rule: network-source, severity: Warn, ` + east + "}]"},
			in: inLab, want: Severities{"disk-bus": Off, "disk-count": Warn}, selects: true,
		},
		{
			name: "a selector by exclusion", objects: []string{excludingShop},
			in: labels.Set{}, want: Severities{"disk-bus": Warn}, selects: true,
		},
		{name: "what is in no namespace is not selected, by exclusion either", objects: []string{excludingShop}, selects: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := ruleSettings(t, c.objects...)
			for range 2 { // whatever the order of objects and entries
				s, notes := NewSettings(fewRules(), objects...)
				if len(notes) > 0 {
					t.Errorf("notes: %q", notes)
				}
				for range 2 { // asking changes nothing
					if diff := cmp.Diff(c.want, s.For(c.in)); diff != "" {
						t.Fatalf("severities (-want +got):\n%s", diff)
					}
				}
				if got := s.SelectsNamespaces(); got != c.selects {
					t.Errorf("selects namespaces: %v", got)
				}
				slices.Reverse(objects)
				for _, o := range objects {
					slices.Reverse(o.Spec.Rules)
				}
			}
		})
	}
}

func TestNoSettings(t *testing.T) {
	var s *Settings
	if got := s.For(labels.Set{"tier": "lab"}); got != nil || s.SelectsNamespaces() {
		t.Errorf("%v, selects %v", got, s.SelectsNamespaces())
	}
}

// An entry that cannot be used is reported, and does not affect other entries.
func TestSettingsNotes(t *testing.T) {
	objects := ruleSettings(t,
		"[{rule: disk-bus, severity: Warn}, {rule: gone, severity: Warn}]",
		"[{rule: disk-bus, severity: Maybe}, {rule: disk-bus, severity: Deny, namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}, {rule: disk-count, severity: Warn}]",
	)
	slices.Reverse(objects)
	s, notes := NewSettings(fewRules(), objects...)
	want := []string{
		`RuleSettings a: spec.rules[1] has no effect: this version of Virtward has no rule "gone"`,
		`RuleSettings b: spec.rules[0] has no effect: there is no severity "Maybe"`,
		`RuleSettings b: spec.rules[1] has no effect: the namespace selector: "Near" is not a valid label selector operator`,
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Severities{"disk-bus": Warn, "disk-count": Warn}, s.For(nil)); diff != "" {
		t.Errorf("severities (-want +got):\n%s", diff)
	}
}

// Removing an entry that says Off, adding one that says Deny and raising one never make anything more lenient:
// the guard of the RuleSettings relies on it, and asks for no right there. Every list of up to three entries.
func TestStrengtheningNeverWeakens(t *testing.T) {
	var all []policyv1alpha1.RuleSetting
	for _, selector := range []*metav1.LabelSelector{nil, {MatchLabels: map[string]string{"tier": "lab"}}, {MatchLabels: map[string]string{"zone": "east"}}} {
		for _, severity := range severityNames() {
			all = append(all, policyv1alpha1.RuleSetting{Rule: "disk-bus", Severity: severity, NamespaceSelector: selector})
		}
	}
	lists := [][]policyv1alpha1.RuleSetting{nil}
	for i := 0; i < len(lists); i++ {
		before := lists[i]
		for _, entry := range all {
			longer := append(slices.Clone(before), entry)
			if len(before) < 3 {
				lists = append(lists, longer)
			}
			if entry.Severity == policyv1alpha1.Deny {
				neverWeakens(t, "a Deny added", before, longer)
			}
		}
		for at, entry := range before {
			if entry.Severity == policyv1alpha1.Off {
				neverWeakens(t, "an Off removed", before, slices.Delete(slices.Clone(before), at, at+1))
			}
			for _, severity := range severityNames() {
				if strictness(Severity(severity)) > strictness(Severity(entry.Severity)) {
					raised := slices.Clone(before)
					raised[at].Severity = severity
					neverWeakens(t, "an entry raised", before, raised)
				}
			}
		}
	}
	if len(lists) != 1+9+81+729 {
		t.Errorf("%d lists", len(lists))
	}
}

func neverWeakens(t *testing.T, change string, before, after []policyv1alpha1.RuleSetting) {
	t.Helper()
	was, _ := NewSettings(fewRules(), policyv1alpha1.RuleSettings{Spec: policyv1alpha1.RuleSettingsSpec{Rules: before}})
	is, _ := NewSettings(fewRules(), policyv1alpha1.RuleSettings{Spec: policyv1alpha1.RuleSettingsSpec{Rules: after}})
	for _, in := range []labels.Set{nil, {}, {"tier": "lab"}, {"zone": "east"}, {"tier": "lab", "zone": "east"}} {
		if strictnessOf(is, in) < strictnessOf(was, in) {
			t.Fatalf("%s: in %v it is more lenient:\n%+v\n%+v", change, in, before, after)
		}
	}
}

func strictnessOf(s *Settings, in labels.Set) int {
	if severity, set := s.For(in)["disk-bus"]; set {
		return strictness(severity)
	}
	return strictness(Deny)
}

func TestCheckSettings(t *testing.T) {
	long := strings.Repeat("é", policyv1alpha1.MaxReasonLength)
	const others = `[{rule: disk-bus, severity: Warn, ` + lab + `}, `
	for _, c := range []struct {
		name, rules string
		want        []string
	}{
		{name: "nothing", rules: "[]"},
		{name: "one entry", rules: `[{rule: disk-bus, severity: "Off", reason: ` + long + "}]"},
		{name: "one rule with several selectors", rules: others + "{rule: disk-bus, severity: Warn}, {rule: disk-bus, severity: Deny, " + east + "}]"},
		{name: "two rules with one selector", rules: others + "{rule: disk-count, severity: Warn, " + lab + "}]"},
		{
			name: "a letter too many", rules: "[{rule: disk-buss, severity: Warn}]",
			want: []string{`spec.rules[0].rule: Invalid value: "disk-buss": there is no such rule: did you mean "disk-bus"?`},
		},
		{
			name: "the end of an id", rules: "[{rule: bus, severity: Warn}]",
			want: []string{`spec.rules[0].rule: Invalid value: "bus": there is no such rule: did you mean "disk-bus" or "arm64-disk-bus"?`},
		},
		{
			name: "in capitals", rules: "[{rule: Disk-Count, severity: Warn}]",
			want: []string{`spec.rules[0].rule: Invalid value: "Disk-Count": there is no such rule: did you mean "disk-count"?`},
		},
		{
			name: "nothing like it", rules: "[{rule: spreadsheets, severity: Warn}]",
			want: []string{`spec.rules[0].rule: Invalid value: "spreadsheets": there is no such rule`},
		},
		{name: "no id", rules: "[{severity: Warn}]", want: []string{"spec.rules[0].rule: Required value: name the rule"}},
		{
			name: "an id that is too long", rules: "[{rule: " + strings.Repeat("a", 64) + ", severity: Warn}]",
			want: []string{"spec.rules[0].rule: Too long: may not be more than 63 bytes"},
		},
		{
			name: "no severity, and one that there is not", rules: "[{rule: disk-bus}, {rule: disk-bus, severity: deny}]",
			want: []string{
				`spec.rules[0].severity: Unsupported value: "": supported values: "Deny", "Warn", "Off"`,
				`spec.rules[1].severity: Unsupported value: "deny": supported values: "Deny", "Warn", "Off"`,
			},
		},
		{
			name: "a reason that is too long", rules: "[{rule: disk-bus, severity: Warn, reason: " + long + "é}]",
			want: []string{"spec.rules[0].reason: Too long: may not be more than 1024 characters"},
		},
		{
			name: "a selector that there cannot be", rules: "[{rule: disk-bus, severity: Warn, namespaceSelector: {matchExpressions: [{key: tier, operator: In}]}}]",
			want: []string{"spec.rules[0].namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"},
		},
		{
			name: "a selector with too many values", rules: "[{rule: disk-bus, severity: Warn, namespaceSelector: {matchExpressions: [{key: tier, operator: In, values: [a" + strings.Repeat(", a", 256) + "]}]}}]",
			want: []string{"spec.rules[0].namespaceSelector.matchExpressions[0].values: Too many: 257: must have at most 256 items"},
		},
		{
			name: "a selector with too many terms", rules: "[{rule: disk-bus, severity: Warn, namespaceSelector: {matchExpressions: [{key: a, operator: Exists}" + strings.Repeat(", {key: a, operator: Exists}", 32) + "]}}]",
			want: []string{"spec.rules[0].namespaceSelector: Too many: 33: must have at most 32 items"},
		},
		{
			name: "twice everywhere", rules: "[{rule: disk-bus, severity: Warn}, " + `{rule: disk-bus, severity: "Off", namespaceSelector: {}}]`,
			want: []string{`spec.rules[1]: Duplicate value: "disk-bus": spec.rules[0] sets this rule for the same namespaces`},
		},
		{
			name: "twice with one selector in two forms", rules: others + "{rule: disk-count, severity: Warn, " + lab + "}, {rule: disk-bus, severity: Deny, namespaceSelector: {matchExpressions: [{key: tier, operator: In, values: [lab]}]}}]",
			want: []string{`spec.rules[2]: Duplicate value: "disk-bus": spec.rules[0] sets this rule for the same namespaces`},
		},
		{
			name: "too many", rules: "[{rule: disk-bus, severity: Warn}" + strings.Repeat(", {rule: disk-bus, severity: Warn}", 300) + "]",
			want: []string{"spec.rules: Too many: 301: must have at most 300 items"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, err := range CheckSettings(fewRules(), &ruleSettings(t, c.rules)[0]) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// What CheckSettings accepts has no notes.
func TestCheckedSettingsHaveNoNotes(t *testing.T) {
	base, err := Base()
	if err != nil {
		t.Fatal(err)
	}
	object := policyv1alpha1.RuleSettings{}
	for i := range base {
		if Adjustable(base[i].ID) {
			object.Spec.Rules = append(object.Spec.Rules, policyv1alpha1.RuleSetting{Rule: base[i].ID, Severity: policyv1alpha1.Warn})
		}
	}
	object.Spec.Rules = object.Spec.Rules[:min(len(object.Spec.Rules), policyv1alpha1.MaxRuleSettings)]
	if errs := CheckSettings(base, &object); len(errs) > 0 {
		t.Errorf("the ids of our own rules are rejected: %v", errs)
	}
	if _, notes := NewSettings(base, object); len(notes) > 0 {
		t.Errorf("notes: %q", notes)
	}
}

// Rules that reject what cannot be checked are not set: that would look as if it had an effect.
func TestRulesThatCannotBeSet(t *testing.T) {
	known := append(fewRules(), objectRules()...)
	object := ruleSettings(t, `[{rule: object-readable, severity: Warn}, {rule: disk-bus, severity: Warn}, {rule: rule-settings, severity: "Off", `+lab+`}]`)[0]
	const because = "the severity of this rule cannot be changed: an object that it rejects cannot be read, or has no effect"
	var got []string
	for _, err := range CheckSettings(known, &object) {
		got = append(got, err.Error())
	}
	want := []string{"spec.rules[0].rule: Forbidden: " + because, "spec.rules[2].rule: Forbidden: " + because}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	settings, notes := NewSettings(known, object)
	want = []string{
		`RuleSettings a: spec.rules[0] has no effect: "object-readable": ` + because,
		`RuleSettings a: spec.rules[2] has no effect: "rule-settings": ` + because,
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Severities{"disk-bus": Warn}, settings.For(labels.Set{"tier": "lab"})); diff != "" {
		t.Errorf("severities (-want +got):\n%s", diff)
	}
}

// The text of very many errors is bounded.
func TestCheckSettingsIsBounded(t *testing.T) {
	object := policyv1alpha1.RuleSettings{}
	selector := &metav1.LabelSelector{}
	for range maxSelectorTerms {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: slices.Repeat([]string{"no good"}, maxSelectorValues),
		})
	}
	for range policyv1alpha1.MaxRuleSettings {
		object.Spec.Rules = append(object.Spec.Rules, policyv1alpha1.RuleSetting{Rule: "disk-bus", Severity: policyv1alpha1.Warn, NamespaceSelector: selector})
	}
	errs := CheckSettings(fewRules(), &object)
	if len(errs) != maxErrors || !strings.HasSuffix(errs[maxErrors-1].Detail, " (299 more elements were not checked)") {
		t.Errorf("%d errors, the last one %v", len(errs), errs[len(errs)-1])
	}
}

func FuzzSettings(f *testing.F) {
	f.Add(`[{rule: disk-bus, severity: Warn, `+lab+`}]`, "tier", "lab")
	f.Add(`[{rule: a, severity: "Off", namespaceSelector: {matchExpressions: [{key: "", operator: In, values: [""]}]}}]`, "", "")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		object := policyv1alpha1.RuleSettings{}
		if yaml.Unmarshal([]byte(text), &object.Spec.Rules) != nil {
			return
		}
		errs := CheckSettings(fewRules(), &object)
		s, notes := NewSettings(fewRules(), object)
		if len(errs) == 0 && len(notes) > 0 {
			t.Errorf("accepted, and then %q", notes)
		}
		for rule, severity := range s.For(labels.Set{key: value}) {
			if own := fewRules().severities()[rule]; own == severity || own == "" {
				t.Errorf("%s: %s does not differ from %q", rule, severity, own)
			}
		}
	})
}

// BenchmarkSettingsFor asks 50 entries of 5 selectors, of which one matches.
func BenchmarkSettingsFor(b *testing.B) {
	base, err := Base()
	if err != nil {
		b.Fatal(err)
	}
	object := policyv1alpha1.RuleSettings{}
	for i := range 50 {
		object.Spec.Rules = append(object.Spec.Rules, policyv1alpha1.RuleSetting{
			Rule: base[i].ID, Severity: policyv1alpha1.Warn,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": fmt.Sprint(i % 5)}},
		})
	}
	s, _ := NewSettings(base, object)
	for _, in := range []labels.Set{{"tier": "3", "kubernetes.io/metadata.name": "shop"}, {"kubernetes.io/metadata.name": "shop"}} {
		b.Run(fmt.Sprintf("%d of 50", len(s.For(in))), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.For(in)
			}
		})
	}
}
