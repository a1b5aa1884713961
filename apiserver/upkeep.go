package apiserver

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/approvals"
)

const (
	// checkedAtOnce is the number of templates that a page has. Their memory is that of templates that requests read.
	checkedAtOnce = 3
	// passesToDrop is the number of passes without an approval of an old key, after which old keys are removed. A request
	// that reads the keys before a new one is added writes its approval within seconds, so a later pass finds it.
	passesToDrop = 2
)

// upkeep corrects what the statuses of all templates say of their approvals, and signs approvals of old keys again. No decision
// depends on it: each request verifies the approval itself.
type upkeep struct {
	storage

	// key is the number of the newest key in the passes before, and clean how many of them found no approval of an older one.
	key   uint64
	clean int
}

// run passes over all templates at each interval, until the context ends.
func (u *upkeep) run(ctx context.Context, interval time.Duration) {
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if err := u.pass(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Info("the approvals of some templates are not checked; the next pass does", "error", err.Error())
		}
	}, interval, 0.2, true)
}

// pass checks all templates once. Old keys are removed when no approval needs them.
func (u *upkeep) pass(ctx context.Context) error {
	keys, err := u.Keys.Read(ctx)
	if err != nil {
		return err
	}
	renewed, failed := 0, []error(nil)
	for from, more := "", true; more; more = from != "" {
		page, next, release, err := u.page(ctx, from)
		if err != nil {
			return err
		}
		for i := range page {
			again, err := u.check(ctx, &page[i], keys)
			if again {
				renewed++
			}
			if err != nil && len(failed) < maxCauses {
				failed = append(failed, err)
			}
		}
		release()
		from = next
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return u.dropOld(ctx, keys, renewed)
}

// page reads some templates, with memory for them.
func (u *upkeep) page(ctx context.Context, from string) (page []v1beta1.VirtualMachineTemplate, next string, release func(), err error) {
	release, err = u.memory.acquire(ctx, u.memory.reads, checkedAtOnce)
	if err != nil {
		return nil, "", nil, err
	}
	page, next, err = u.Cluster.Templates(ctx, checkedAtOnce, from)
	if err != nil {
		release()
		return nil, "", nil, err
	}
	return page, next, release, nil
}

// check writes the status of a template if its approval or its condition is to be changed. It reports whether an old key has
// signed the approval.
func (u *upkeep) check(ctx context.Context, template *v1beta1.VirtualMachineTemplate, keys *approvals.Keyring) (renewed bool, err error) {
	present := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateApproved)
	approval := template.Status.Approval
	if approval == nil && (present == nil || present.Status != metav1.ConditionTrue) {
		return false, nil
	}
	if approval != nil {
		var signature string
		if signature, renewed = keys.Renew(template.UID, approval); renewed {
			approval.Signature = signature
		}
	}
	condition, err := u.condition(ctx, template, keys)
	if err != nil || !renewed && !outdated(present, condition, approval) {
		return renewed, err
	}
	return renewed, u.write(ctx, template, approval, condition)
}

// condition computes the condition of a template, with memory for its digest.
func (s *storage) condition(ctx context.Context, template *v1beta1.VirtualMachineTemplate, keys templates.Verifier) (condition metav1.Condition, err error) {
	release, err := s.memory.reserve(ctx, &template.Spec, nil)
	if err != nil {
		return metav1.Condition{}, err
	}
	defer release()
	err = s.memory.compute(ctx, func() error {
		digest, _ := templates.Digest(template) // without a digest, no approval is valid
		condition = templates.ApprovalCondition(template, digest, keys)
		return nil
	})
	return condition, err
}

// outdated reports whether the condition of a template is to be written. The condition after the end of an approval names who
// ended it, so it stays.
func outdated(present *metav1.Condition, want metav1.Condition, approval *v1beta1.TemplateApproval) bool {
	return present == nil || present.Status != want.Status || approval != nil && present.Reason != want.Reason
}

// dropOld removes the older keys after enough passes without an approval that they have signed.
func (u *upkeep) dropOld(ctx context.Context, keys *approvals.Keyring, renewed int) error {
	if u.key != keys.Newest() || renewed > 0 {
		u.key, u.clean = keys.Newest(), 0
	}
	if renewed > 0 || !keys.Rotating() {
		return nil
	}
	if u.clean++; u.clean < passesToDrop {
		return nil
	}
	_, err := u.Keys.Change(ctx, func(current *approvals.Keyring) {
		if current.Newest() == u.key {
			current.DropOld()
		}
	})
	return err
}
