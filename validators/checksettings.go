package validators

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// Bounds of a selector: what people write is far below.
const (
	maxSelectorTerms  = 32
	maxSelectorValues = 256
)

// severityNames are what a setting may say, the strictest first.
func severityNames() []policyv1alpha1.Severity {
	return []policyv1alpha1.Severity{policyv1alpha1.Deny, policyv1alpha1.Warn, policyv1alpha1.Off}
}

// notAdjustable is what is said of a setting of such a rule.
const notAdjustable = "the severity of this rule cannot be changed: an object that it rejects cannot be read, or has no effect"

// CheckSettings says what is wrong with a RuleSettings, given all rules there are: ids that no rule has or that
// cannot be set, severities and selectors that there cannot be, and a rule that is set twice for the same namespaces.
func CheckSettings(known Table, rs *policyv1alpha1.RuleSettings) field.ErrorList {
	path := field.NewPath("spec", "rules")
	if n := len(rs.Spec.Rules); n > policyv1alpha1.MaxRuleSettings {
		return field.ErrorList{field.TooMany(path, n, policyv1alpha1.MaxRuleSettings)}
	}
	found := Errors{limit: maxErrors}
	ids := make([]string, 0, len(known))
	for i := range known {
		ids = append(ids, known[i].ID)
	}
	first := map[settingKey]*field.Path{}
	for i := range found.Each(len(rs.Spec.Rules)) {
		entry, at := &rs.Spec.Rules[i], path.Index(i)
		if errs := checkSetting(ids, entry, at); len(errs) > 0 {
			found.Add(errs...)
			continue
		}
		key := keyOf(entry)
		if before, taken := first[key]; taken {
			found.Add(duplicateSetting(entry, at, before))
			continue
		}
		first[key] = at
	}
	return found.result()
}

func checkSetting(ids []string, entry *policyv1alpha1.RuleSetting, path *field.Path) (errs field.ErrorList) {
	switch {
	case entry.Rule == "":
		errs = append(errs, field.Required(path.Child("rule"), "name the rule"))
	case len(entry.Rule) > policyv1alpha1.MaxRuleIDLength:
		errs = append(errs, field.TooLong(path.Child("rule"), "", policyv1alpha1.MaxRuleIDLength))
	case !slices.Contains(ids, entry.Rule):
		errs = append(errs, field.Invalid(path.Child("rule"), entry.Rule, "there is no such rule"+didYouMean(nearest(entry.Rule, ids))))
	case !Adjustable(entry.Rule):
		errs = append(errs, field.Forbidden(path.Child("rule"), notAdjustable))
	}
	if !slices.Contains(severityNames(), entry.Severity) {
		errs = append(errs, field.NotSupported(path.Child("severity"), entry.Severity, severityNames()))
	}
	if utf8.RuneCountInString(entry.Reason) > policyv1alpha1.MaxReasonLength {
		errs = append(errs, field.TooLongCharacters(path.Child("reason"), "", policyv1alpha1.MaxReasonLength))
	}
	return append(errs, selectorErrors(entry.NamespaceSelector, path.Child("namespaceSelector"))...)
}

// CheckSelector validates a label selector of an object of Virtward. Nil selects everything.
func CheckSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	found := Errors{limit: maxErrors}
	found.Add(selectorErrors(selector, path)...)
	return found.result()
}

func selectorErrors(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	if n := len(selector.MatchLabels) + len(selector.MatchExpressions); n > maxSelectorTerms {
		return field.ErrorList{field.TooMany(path, n, maxSelectorTerms)}
	}
	for i := range selector.MatchExpressions {
		if n := len(selector.MatchExpressions[i].Values); n > maxSelectorValues {
			return field.ErrorList{field.TooMany(path.Child("matchExpressions").Index(i).Child("values"), n, maxSelectorValues)}
		}
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

// settingKey is what no two entries of an object may share.
type settingKey struct{ rule, selector string }

// keyOf is the key of an entry whose selector is valid.
func keyOf(entry *policyv1alpha1.RuleSetting) settingKey {
	key := settingKey{rule: entry.Rule}
	if selector, err := metav1.LabelSelectorAsSelector(entry.NamespaceSelector); err == nil && !selectsAll(entry.NamespaceSelector) {
		key.selector = selectorKey(selector)
	}
	return key
}

func duplicateSetting(entry *policyv1alpha1.RuleSetting, path, before *field.Path) *field.Error {
	err := field.Duplicate(path, entry.Rule)
	err.Detail = fmt.Sprintf("%s sets this rule for the same namespaces", before)
	return err
}

func didYouMean(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	quoted := make([]string, 0, len(ids))
	for _, id := range ids {
		quoted = append(quoted, fmt.Sprintf("%q", id))
	}
	return ": did you mean " + strings.Join(quoted, " or ") + "?"
}

// mostSuggestions bounds what nearest returns.
const mostSuggestions = 3

// nearest are the ids that a given one was probably meant to be: those that need the fewest edits, if one
// for every three letters is enough; or else those that contain it, as "disk-bus" is in "arm64-disk-bus".
func nearest(given string, ids []string) []string {
	limit := min(max(2, len(given)/3), policyv1alpha1.MaxRuleIDLength/3)
	var found []string
	for _, id := range ids {
		switch n := texts.Edits(given, id); {
		case n < limit:
			found, limit = []string{id}, n
		case n == limit:
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		for _, id := range ids {
			if strings.Contains(id, given) {
				found = append(found, id)
			}
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return found[:min(len(found), mostSuggestions)]
}
