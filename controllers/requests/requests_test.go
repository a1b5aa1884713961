package requests_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/requests"
)

func TestConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		progress requests.Progress
		want     string
	}{
		"working":            {requests.Working("Cloning", "m"), "Progressing True Cloning, Completed False Waiting, Ready False Waiting"},
		"blocked":            {requests.Working(v1beta1.ReasonBlocked, "m"), "Progressing True Blocked, Completed False Blocked, Ready False Blocked"},
		"over a quota":       {requests.Working(v1beta1.ReasonQuotaExceeded, "m"), "Progressing True QuotaExceeded, Completed False QuotaExceeded, Ready False QuotaExceeded"},
		"without its source": {requests.Working(v1beta1.ReasonSourceUnavailable, "m"), "Progressing True SourceUnavailable, Completed False SourceUnavailable, Ready False SourceUnavailable"},
		"failed":             {requests.Failed("CloneFailed", "m"), "Progressing False CloneFailed, Completed False CloneFailed, Ready False CloneFailed"},
		"completed":          {requests.Progress{State: requests.HasCompleted}, "Progressing False Reconciled, Completed True Reconciled, Ready False Waiting"},
	} {
		conditions := tc.progress.Conditions()
		var got []string
		for _, c := range conditions {
			got = append(got, c.Type+" "+string(c.Status)+" "+c.Reason)
		}
		if text := strings.Join(got, ", "); text != tc.want {
			t.Errorf("%s: %s", name, text)
		}
		if requests.IsFailed(conditions) != (tc.progress.State == requests.HasFailed) || requests.IsCompleted(conditions) != (tc.progress.State == requests.HasCompleted) {
			t.Errorf("%s is read as another state", name)
		}
		if requests.Changed(conditions, conditions) || !requests.Changed(nil, conditions) {
			t.Errorf("%s: the change is not seen", name)
		}
	}
}

func TestDenials(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		err           error
		create, other requests.Denial
	}{
		"invalid":   {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil), requests.Rejected, requests.NotDenied},
		"too large": {apierrors.NewRequestEntityTooLargeError("m"), requests.Rejected, requests.NotDenied},
		"forbidden": {apierrors.NewForbidden(pods, "a", errors.New("exceeded quota")), requests.Blocked, requests.NotDenied},
		"missing":   {apierrors.NewNotFound(pods, "a"), requests.Blocked, requests.NotDenied},
		"conflict":  {apierrors.NewConflict(pods, "a", errors.New("m")), requests.NotDenied, requests.NotDenied},
		"a break":   {errors.New("EOF"), requests.NotDenied, requests.NotDenied},
	} {
		c := failing{fake.NewClientBuilder().Build(), tc.err}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
		err := requests.Apply(t.Context(), c, "owner", requests.Step{Verb: requests.Create, Object: pod})
		if got := requests.DenialOf(err); got != tc.create || !errors.Is(err, tc.err) || !strings.HasPrefix(err.Error(), "creating *v1.Pod n/a: ") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		err = requests.Apply(t.Context(), c, "owner", requests.Change(pod, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }))
		if got := requests.DenialOf(err); got != tc.other || pod.Labels != nil {
			t.Errorf("%s of a change: %v, %v", name, got, err)
		}
	}
}

// failing is a client whose writes fail.
type failing struct {
	client.Client

	err error
}

func (f failing) Create(context.Context, client.Object, ...client.CreateOption) error { return f.err }

func (f failing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return f.err
}

// TestDeletions: objects are deleted as they were read. A claim that CDI took for the content of a DataVolume loses its owner, and stays.
func TestDeletions(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1"}
	adopted := meta
	adopted.Annotations = map[string]string{"cdi.kubevirt.io/storage.prePopulated": "a"}
	for name, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"a pod":                  {&corev1.Pod{ObjectMeta: adopted}, ""},
		"a DataVolume":           {&cdiv1beta1.DataVolume{ObjectMeta: meta}, ""},
		"one with another claim": {&cdiv1beta1.DataVolume{ObjectMeta: adopted}, "Orphan"},
	} {
		c := &deleting{Client: fake.NewClientBuilder().Build()}
		if err := requests.Apply(t.Context(), c, "owner", requests.Step{Verb: requests.Remove, Object: tc.object}); err != nil {
			t.Fatal(err)
		}
		got := ""
		if c.options.PropagationPolicy != nil {
			got = string(*c.options.PropagationPolicy)
		}
		if got != tc.want || *c.options.Preconditions.UID != tc.object.GetUID() {
			t.Errorf("%s: %+v", name, c.options)
		}
	}
}

// deleting is a client that notes the options of a deletion.
type deleting struct {
	client.Client

	options client.DeleteOptions
}

func (d *deleting) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	d.options.ApplyOptions(options)
	return nil
}

func TestTimes(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for passed, want := range map[time.Duration]time.Duration{0: 2 * time.Second, time.Minute: 15 * time.Second, time.Hour: 2 * time.Minute} {
		if got := requests.NextAttempt(begin, begin.Add(passed)); got != want {
			t.Errorf("after %s: %s", passed, got)
		}
	}
	completed := []metav1.Condition{{Type: v1beta1.RequestCompleted, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(begin)}}
	if left := requests.Left(completed, 30, begin.Add(10*time.Second)); left != 20*time.Second {
		t.Errorf("%s are left", left)
	}
}
