package export

import (
	"fmt"
	"slices"
	"strings"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies"
)

// maxConditions is the number of matchConditions that a native policy can have: the limit of the API server without
// one, which is for guards.Disabled.
const maxConditions = 63

// resource is a kind of objects in the terms of the API server.
type resource struct {
	group    string
	versions []string
	name     string
}

// resources has the kinds that can be exported. The API server converts requests for other served versions.
var resources = func() map[policyv1alpha1.PolicyKind]resource {
	all := map[policyv1alpha1.PolicyKind]resource{}
	for _, m := range apikinds.MachineKinds((*apikinds.Machine).Native) {
		all[policyv1alpha1.PolicyKind(m.Kind)] = resource{m.Group, m.Versions, m.Plural}
	}
	return all
}()

// kubeSystem is a namespace that no policy applies to.
const kubeSystem = "kube-system"

// constraints returns the resources that a native policy matches. Subresources are not among them, so writes of a
// status are not matched.
func constraints(match *policyv1alpha1.PolicyMatch, cluster *Cluster) *admissionregistrationv1.MatchResources {
	operations := make([]admissionregistrationv1.OperationType, len(match.Operations))
	for i := range match.Operations {
		operations[i] = admissionregistrationv1.OperationType(match.Operations[i])
	}
	slices.Sort(operations)
	var rules []admissionregistrationv1.NamedRuleWithOperations
	for _, kind := range slices.Sorted(slices.Values(match.Kinds)) {
		r, ok := resources[kind]
		if !ok {
			continue
		}
		rules = append(rules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{r.group}, APIVersions: r.versions, Resources: []string{r.name},
				Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}})
	}
	selector := &metav1.LabelSelector{}
	if match.NamespaceSelector != nil {
		selector = match.NamespaceSelector.DeepCopy()
	}
	if cluster.ExemptByLabel {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: policyv1alpha1.ExemptLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"},
		})
	}
	exempt := []string{kubeSystem}
	for _, name := range slices.Concat([]string{cluster.Namespace}, cluster.Exempt) {
		if name != "" && !slices.Contains(exempt, name) {
			exempt = append(exempt, name)
		}
	}
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: exempt,
	})
	objects := &metav1.LabelSelector{}
	if match.ObjectSelector != nil {
		objects = match.ObjectSelector.DeepCopy()
	}
	return &admissionregistrationv1.MatchResources{
		ResourceRules: rules, NamespaceSelector: selector, ObjectSelector: objects, MatchPolicy: new(admissionregistrationv1.Equivalent),
	}
}

// always returns the conditions of every native policy: the garbage collector can delete objects, their finalizers can be
// removed and their statuses written. If an object is being deleted, only a changed spec is evaluated. The deletion timestamp is read
// from the object before the update, because clients can set it at create.
func always(match *policyv1alpha1.PolicyMatch) []admissionregistrationv1.MatchCondition {
	var conditions []admissionregistrationv1.MatchCondition
	if deletes(match) {
		conditions = []admissionregistrationv1.MatchCondition{{
			Name: "not-deleted-again", Expression: "request.operation != 'DELETE' || !has(oldObject.metadata.deletionTimestamp)",
		}, {
			Name: "not-deleted-by-the-system", Expression: "request.operation != 'DELETE' || !(request.userInfo.username in " + quotedList(policies.SystemDeleters()) + ")",
		}}
	}
	if !slices.Contains(match.Operations, policyv1alpha1.PolicyUpdate) {
		return conditions
	}
	return append(conditions, []admissionregistrationv1.MatchCondition{{
		Name:       "not-being-deleted",
		Expression: "request.operation != 'UPDATE' || !has(oldObject.metadata.deletionTimestamp) || object.?spec != oldObject.?spec",
	}, {
		Name: "something-changed",
		Expression: "request.operation != 'UPDATE' || object.?spec != oldObject.?spec" +
			" || object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({})" +
			" || object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})",
	}}...)
}

func deletes(match *policyv1alpha1.PolicyMatch) bool {
	return slices.Contains(match.Operations, policyv1alpha1.PolicyDelete)
}

// users returns conditions on the requester. Objects that KubeVirt's own accounts create are evaluated; policies that
// read the request are evaluated only on instances. Their updates are not evaluated.
func users(match *policyv1alpha1.PolicyMatch, readsRequest bool, kubeVirt []string) []admissionregistrationv1.MatchCondition {
	var conditions []admissionregistrationv1.MatchCondition
	byKubeVirt := "request.userInfo.username in " + quotedList(kubeVirt)
	starts := slices.Contains(match.Operations, policyv1alpha1.PolicyCreate) &&
		(!readsRequest || slices.Contains(match.Kinds, policyv1alpha1.PolicyVirtualMachineInstance))
	if len(kubeVirt) > 0 {
		expression := "!(" + byKubeVirt + ")"
		switch {
		case starts && readsRequest:
			expression += " || request.operation == 'CREATE' && request.resource.resource == 'virtualmachineinstances'"
		case starts:
			expression += " || request.operation == 'CREATE'"
		}
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: "not-kubevirt", Expression: expression})
	}
	var excluded []string
	if len(match.ExcludedUsers) > 0 {
		excluded = append(excluded, "request.userInfo.username in "+quotedList(match.ExcludedUsers))
	}
	if len(match.ExcludedGroups) > 0 {
		excluded = append(excluded, "request.userInfo.?groups.orValue([]).exists(group, group in "+quotedList(match.ExcludedGroups)+")")
	}
	if len(excluded) == 0 {
		return conditions
	}
	expression := "!(" + strings.Join(excluded, " || ") + ")"
	if starts && len(kubeVirt) > 0 {
		expression = byKubeVirt + " || " + expression
	}
	return append(conditions, admissionregistrationv1.MatchCondition{Name: "not-excluded", Expression: expression})
}

// nameOfObject is the name of the object, or the prefix of the name that it will get. A request to delete all objects names
// none.
const (
	nameOfObject  = "request.?name.orValue(object.metadata.?name.orValue(object.metadata.?generateName.orValue('')))"
	nameOfDeleted = "request.?name.orValue((object == null ? oldObject : object).metadata.?name.orValue((object == null ? oldObject : object).metadata.?generateName.orValue('')))"
)

// exceptions returns a condition that no active exception is for the object; none without exceptions. ends is when the
// next one expires; nil if none does.
func exceptions(match *policyv1alpha1.PolicyMatch, all []policyv1alpha1.PolicyException, now time.Time) (conditions []admissionregistrationv1.MatchCondition, ends *time.Time) {
	name := nameOfObject
	if deletes(match) {
		name = nameOfDeleted
	}
	var exempt []string
	for i := range all {
		if expires := all[i].Expires; expires != nil {
			if !now.Before(expires.Time) {
				continue
			}
			if ends == nil || expires.Time.Before(*ends) {
				ends = &expires.Time
			}
		}
		var both []string
		if len(all[i].Namespaces) > 0 {
			both = append(both, covers("request.namespace", all[i].Namespaces))
		}
		if len(all[i].Names) > 0 {
			both = append(both, covers(name, all[i].Names))
		}
		exempt = append(exempt, strings.Join(both, " && "))
	}
	if len(exempt) == 0 {
		return nil, ends
	}
	return []admissionregistrationv1.MatchCondition{{Name: "not-excepted", Expression: "!(" + strings.Join(exempt, " || ") + ")"}}, ends
}

// covers returns the expression that a text matches one of several patterns.
func covers(text string, patterns []string) string {
	var whole []string
	var one []string
	for _, pattern := range patterns {
		if beginning, open := strings.CutSuffix(pattern, "*"); open {
			one = append(one, fmt.Sprintf("%s.startsWith(%s)", text, quoted(beginning)))
		} else {
			whole = append(whole, pattern)
		}
	}
	if len(whole) > 0 {
		one = slices.Insert(one, 0, text+" in "+quotedList(whole))
	}
	return "(" + strings.Join(one, " || ") + ")"
}
