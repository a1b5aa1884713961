package killswitch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/texts"
)

const (
	// never is the match condition admissionpolicies.Disabled, in CEL.
	never = "false"
	// PartOf is the label selector of the objects of the chart.
	PartOf = "app.kubernetes.io/part-of=virtward"
	// madeByVirtward selects the exported admission policies.
	madeByVirtward = export.ManagedBy + "=" + export.Manager
	// switchManager is the field manager of the changes.
	switchManager = "kubectl-virtward"
)

// Switch switches Virtward off and on at the API server. It does not need a running Virtward.
type Switch struct {
	Client dynamic.Interface
	// Now returns the time for the annotation.
	Now func() time.Time
	// DryRun sends all changes to the API server as a dry run.
	DryRun bool
	// Program is what users type to run this program, for messages.
	Program string
	// Out is for changes, ErrOut for errors.
	Out, ErrOut io.Writer
}

// report writes an error on a line.
func (s *Switch) report(err error) { fmt.Fprintln(s.ErrOut, "error: "+texts.OneLine(err.Error())) }

// Kind is a kind of admission configuration with match conditions.
type Kind struct {
	Name     string
	Resource schema.GroupVersionResource
	// Webhook reports whether it is a webhook configuration.
	Webhook bool
}

// Kinds returns all kinds that the switch changes.
func Kinds() []Kind {
	resource := admissionv1.SchemeGroupVersion.WithResource
	return []Kind{
		{"MutatingWebhookConfiguration", resource("mutatingwebhookconfigurations"), true},
		{"ValidatingWebhookConfiguration", resource("validatingwebhookconfigurations"), true},
		{"ValidatingAdmissionPolicy", resource("validatingadmissionpolicies"), false},
	}
}

// The orders in which kinds change, so that an end in the middle does no harm: while the webhook that validates is on and the one
// that completes is off, every new instance is denied as incomplete.
func offOrder() []Kind {
	kinds := Kinds()
	return []Kind{kinds[1], kinds[0], kinds[2]}
}

func onOrder() []Kind {
	kinds := Kinds()
	return []Kind{kinds[2], kinds[0], kinds[1]}
}

// disabledNote is the content of the annotation, as JSON.
type disabledNote struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
	At     string `json:"at"`
}

// Disable switches off all objects. It continues after a failure, and returns an error then.
func (s *Switch) Disable(ctx context.Context, reason string) error {
	note, err := json.Marshal(disabledNote{Reason: reason, By: s.whoami(ctx), At: s.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	off := func(object *unstructured.Unstructured) bool { return turnOff(object, string(note)) }
	err = s.each(ctx, turn{word: "off", kinds: offOrder(), do: off, keeps: admissionpolicies.StayActive()})
	if removing := s.removeAPIs(ctx); removing != nil {
		s.report(removing)
		err = cmp.Or(err, errors.New("an API of VM templates that does not answer may be registered: see above"))
	}
	if err != nil || s.DryRun {
		return err
	}
	_, err = fmt.Fprintf(s.Out, `Virtward is off: it completes and validates no objects. It takes effect within seconds.
KubeVirt's own checks stay, and running virtual machines are not touched.
On again: %s enable
`, s.Program)
	return err
}

// Enable removes what Disable adds.
func (s *Switch) Enable(ctx context.Context) error {
	// The API first: an APIService that is left out stays recorded on an object that each changes.
	restoring := s.restoreAPIs(ctx)
	if restoring != nil {
		s.report(restoring)
		restoring = errors.New("not all APIs of VM templates are registered again: see above")
	}
	if err := cmp.Or(s.each(ctx, turn{word: "on", kinds: onOrder(), do: turnOn}), restoring); err != nil || s.DryRun {
		return err
	}
	if _, err := fmt.Fprintln(s.Out, "Virtward is on. It takes effect within seconds."); err != nil {
		return err
	}
	for _, service := range s.unanswered(ctx) {
		fmt.Fprintf(s.ErrOut, "warning: Service %s has no ready endpoint: until it has, the API server denies the requests that the webhooks match. To switch them off again: %s disable\n", service, s.Program)
	}
	return nil
}

// turn is a change of all objects, kind by kind. do reports whether the object changed. keeps names objects that do not change.
type turn struct {
	word  string
	kinds []Kind
	do    func(*unstructured.Unstructured) bool
	keeps []string
}

// each changes all objects of Virtward, prints a line for each, and continues after a failure. But a webhook configuration stays as
// it is if the change of one of the kind before it failed.
func (s *Switch) each(ctx context.Context, turn turn) error {
	found, failed, webhooks := 0, 0, 0
	for _, kind := range turn.kinds {
		before := failed
		if webhooks > 0 && kind.Webhook {
			failed++
			s.report(fmt.Errorf("each %s stays as it is: with only one of the two switched %s, new instances would be denied as incomplete", kind.Name, turn.word))
			continue
		}
		objects, err := List(ctx, s.Client, kind)
		if err != nil {
			failed++
			s.report(err)
		}
		for i := range objects {
			found++
			if slices.Contains(turn.keeps, objects[i].GetName()) {
				continue
			}
			changed, err := s.change(ctx, kind, objects[i].GetName(), turn)
			if err != nil {
				failed++
				s.report(fmt.Errorf("%s %s: %w", kind.Name, objects[i].GetName(), err))
				continue
			}
			fmt.Fprintf(s.Out, "%s %s: %s\n", kind.Name, objects[i].GetName(), s.outcome(turn.word, changed))
		}
		if kind.Webhook {
			webhooks += failed - before
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("some objects of Virtward are not %s: see above", turn.word)
	case found == 0:
		return NotInstalled()
	}
	return nil
}

// List returns the objects of Virtward of a kind, sorted by name. An earlier release may have switched off objects that stay
// active now.
func List(ctx context.Context, client dynamic.Interface, kind Kind) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, selector := range []string{PartOf, madeByVirtward} {
		list, err := client.Resource(kind.Resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Resource.Resource, err)
		}
		all = append(all, list.Items...)
	}
	name := func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) }
	slices.SortStableFunc(all, name)
	return slices.CompactFunc(all, func(a, b unstructured.Unstructured) bool { return name(a, b) == 0 }), nil
}

func (s *Switch) outcome(word string, changed bool) string {
	switch {
	case !changed:
		return word + " already"
	case s.DryRun:
		return "would be switched " + word
	}
	return "switched " + word
}

// NotInstalled is the error of a cluster without Virtward.
func NotInstalled() error {
	return errors.New("the cluster has no webhook configuration or admission policy of Virtward, with the label " + PartOf)
}

// change changes the latest version of an object, and reports whether it changed.
func (s *Switch) change(ctx context.Context, kind Kind, name string, turn turn) (changed bool, err error) {
	objects := s.Client.Resource(kind.Resource)
	options := metav1.UpdateOptions{FieldManager: switchManager}
	if s.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object, err := objects.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if changed = turn.do(object); !changed {
			return nil
		}
		_, err = objects.Update(ctx, object, options)
		return err
	})
	return changed, err
}

// turnOff adds the condition that is never true to all webhooks of a configuration, or to a policy. It keeps the
// annotation of an object that is off completely.
func turnOff(object *unstructured.Unstructured, note string) bool {
	off, all := Disabled(object)
	if off == all {
		return false
	}
	for _, holder := range Conditioned(object) {
		conditions := slices.DeleteFunc(conditionsOf(holder), isMark)
		holder["matchConditions"] = append(conditions, map[string]any{"name": admissionpolicies.Disabled, "expression": never})
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[admissionpolicies.Disabled] = note
	object.SetAnnotations(annotations)
	return true
}

// turnOn removes the conditions and the annotation.
func turnOn(object *unstructured.Unstructured) bool {
	changed := false
	for _, holder := range Conditioned(object) {
		conditions := conditionsOf(holder)
		others := slices.DeleteFunc(slices.Clone(conditions), isMark)
		if len(others) == len(conditions) {
			continue
		}
		changed = true
		holder["matchConditions"] = others
		if len(others) == 0 {
			delete(holder, "matchConditions")
		}
	}
	annotations := object.GetAnnotations()
	if _, noted := annotations[admissionpolicies.Disabled]; noted {
		changed = true
		if delete(annotations, admissionpolicies.Disabled); len(annotations) == 0 {
			annotations = nil
		}
		object.SetAnnotations(annotations)
	}
	return changed
}

// Disabled returns how many parts with match conditions of an object are off, and the number of all.
func Disabled(object *unstructured.Unstructured) (off, all int) {
	for _, holder := range Conditioned(object) {
		all++
		if slices.ContainsFunc(conditionsOf(holder), func(c any) bool {
			fields, _ := c.(map[string]any)
			return isMark(c) && fields["expression"] == never
		}) {
			off++
		}
	}
	return off, all
}

// Conditioned returns the parts of an object with match conditions: the webhooks, or the spec of a policy.
func Conditioned(object *unstructured.Unstructured) []map[string]any {
	if spec, isPolicy := object.Object["spec"].(map[string]any); isPolicy {
		return []map[string]any{spec}
	}
	var holders []map[string]any
	webhooks, _ := object.Object["webhooks"].([]any)
	for _, webhook := range webhooks {
		if fields, ok := webhook.(map[string]any); ok {
			holders = append(holders, fields)
		}
	}
	return holders
}

func conditionsOf(holder map[string]any) []any {
	conditions, _ := holder["matchConditions"].([]any)
	return conditions
}

func isMark(condition any) bool {
	fields, _ := condition.(map[string]any)
	return fields["name"] == admissionpolicies.Disabled
}

// whoami returns the name of the user, as the API server knows it, or unknown.
func (s *Switch) whoami(ctx context.Context) string {
	review := &unstructured.Unstructured{}
	review.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"))
	resource := authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")
	answer, err := s.Client.Resource(resource).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return "unknown"
	}
	name, _, _ := unstructured.NestedString(answer.Object, "status", "userInfo", "username")
	if name == "" {
		return "unknown"
	}
	return name
}

// Why returns the content of the annotation: the reason, the user and the time; empty without one.
func Why(object *unstructured.Unstructured) string {
	text, noted := object.GetAnnotations()[admissionpolicies.Disabled]
	if !noted {
		return ""
	}
	note := disabledNote{}
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		return texts.OneLine(text)
	}
	return texts.OneLine(fmt.Sprintf("%s, by %s at %s", note.Reason, note.By, note.At))
}
