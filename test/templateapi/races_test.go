package templateapi

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
)

// The requests are sent at the same time until this many of each kind succeeded, at most for racing.
const (
	enough = 5
	racing = 30 * time.Second
)

// races edits a template, approves the digest that was reviewed, revokes it and creates virtual machines, all at the same time. No
// virtual machine has the text that was not approved, and none is created after a revocation was answered.
func (m *matrix) races(t *testing.T) {
	m.make("catalogue", "raced", parameterized)
	approver := m.users["approver"]
	review, err := m.review(approver, "catalogue", "raced", subresources.Approve, subresources.ApproveOptions{}, true)
	m.must(err)
	approve := func() error {
		_, err := m.review(approver, "catalogue", "raced", subresources.Approve, subresources.ApproveOptions{Digest: review.Digest}, false)
		return err
	}
	create := func() (string, error) {
		made, err := m.post(m.users["user"], "catalogue", "raced", subresources.Create, m.strict("raced"), "dryRun=All")
		if err != nil {
			return "", err
		}
		return made.VirtualMachine.Spec.Template.Spec.Volumes[0].CloudInitNoCloud.UserData, nil
	}
	admin := m.templates()
	reviewed := m.read("catalogue", "raced").Spec.VirtualMachine.Raw
	other := []byte(strings.ReplaceAll(string(reviewed), "${TEXT}", `${TEXT}\nruncmd: [reboot]`))
	edit := func(vm []byte) error {
		template := &v1beta1.VirtualMachineTemplate{}
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "catalogue", Name: "raced"}, template); err != nil {
			return err
		}
		template.Spec.VirtualMachine.Raw = vm
		return admin.Update(t.Context(), template)
	}
	toggle := func() error {
		if err := edit(other); err != nil {
			return err
		}
		return edit(reviewed)
	}

	ctx, stop := context.WithTimeout(t.Context(), racing)
	defer stop()
	var wait sync.WaitGroup
	var edits, approvals, created atomic.Int64
	met := func() bool { return min(edits.Load(), approvals.Load(), created.Load()) >= enough }
	repeat := func(count *atomic.Int64, do func() error) {
		wait.Go(func() {
			for ctx.Err() == nil && !met() {
				err := do()
				switch {
				case err == nil:
					count.Add(1)
				case !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsTooManyRequests(err):
					t.Error(err)
					return
				}
			}
		})
	}
	repeat(&edits, toggle)
	repeat(&approvals, approve)
	for range 3 {
		repeat(&created, func() error {
			text, err := create()
			if strings.Contains(text, "reboot") {
				t.Errorf("created with the text that was not approved: %s", text)
			}
			return err
		})
	}
	wait.Wait()
	t.Logf("%d edits, %d approvals, %d virtual machines", edits.Load(), approvals.Load(), created.Load())
	if !met() {
		t.Error("the requests do not meet")
	}

	m.must(edit(reviewed)) // it may have ended in the middle
	for range 5 {
		m.must(approve())
		if _, err := create(); err != nil {
			t.Errorf("after an approval: %v", err)
		}
		_, err := m.review(approver, "catalogue", "raced", subresources.Revoke, subresources.RevokeOptions{}, false)
		m.must(err)
		if _, err := create(); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			t.Errorf("after a revocation: %v", err)
		}
	}
}
