package validators

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestSetRules(t *testing.T) {
	selector := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
	}
	unavailable := func(m intstr.IntOrString) Set {
		return Set{Selector: selector("db"), MaxUnavailable: &m}
	}
	const percentage = `pool-max-unavailable: spec.maxUnavailable: Invalid value: `
	for name, tc := range map[string]struct {
		set  Set
		want []string
	}{
		"good":                 {set: Set{Selector: selector("db"), Fixed: selector("db")}},
		"no template":          {set: Set{Missing: true, Selector: selector("web")}, want: []string{"set-template-required: spec.template: Required value: there is no template for VMs"}},
		"other labels":         {set: Set{Selector: selector("web")}, want: []string{`set-selector-matches: spec.selector: Invalid value: "app=web": does not match the labels in spec.template.metadata.labels`}},
		"no selector":          {set: Set{}, want: []string{`set-selector-matches: spec.selector: Invalid value: "": does not match the labels in spec.template.metadata.labels`}},
		"a bad operator":       {set: Set{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}}, want: []string{`set-selector-matches: spec.selector: Invalid value: "Like" is not a valid label selector operator`}},
		"a selector changes":   {set: Set{Selector: selector("db"), Fixed: selector("web")}, want: []string{`pool-selector-immutable: spec.selector: Invalid value: "app=db": cannot change: it was app=web`}},
		"one":                  {set: unavailable(intstr.FromInt32(1))},
		"all":                  {set: unavailable(intstr.FromString("100%"))},
		"none":                 {set: unavailable(intstr.FromInt32(0)), want: []string{percentage + "0: must be at least 1"}},
		"more than all":        {set: unavailable(intstr.FromString("101%")), want: []string{percentage + `"101%": must be a number, or a percentage from 1% to 100%`}},
		"no percentage":        {set: unavailable(intstr.FromString("half")), want: []string{percentage + `"half": must be a number, or a percentage from 1% to 100%`}},
		"a number as a string": {set: unavailable(intstr.FromString("5")), want: []string{percentage + `"5": must be a number, or a percentage from 1% to 100%`}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.set.Template, tc.set.Labels = field.NewPath("spec", "template"), map[string]string{"app": "db"}
			var got []string
			for _, f := range setRules().Check(&Subject{Set: &tc.set}, OnSet) {
				got = append(got, f.Rule+": "+f.Error.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
	if len(setRules().Check(&Subject{}, OnSet)) != 0 {
		t.Error("findings without a set")
	}
}
