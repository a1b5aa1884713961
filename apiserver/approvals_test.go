package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/approvals"
)

const release = "virtward-system"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newKeys are keys in the Secret that the chart creates.
func newKeys(t *testing.T, objects ...kruntime.Object) (*secretKeys, *fake.Clientset) {
	t.Helper()
	if objects == nil {
		objects = []kruntime.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: release, Name: ApprovalKeys}}}
	}
	client := fake.NewClientset(objects...)
	drawn := byte(0)
	return newSecretKeys(client.CoreV1().Secrets(release), func() []byte {
		drawn++
		return bytes.Repeat([]byte{drawn}, approvals.KeyBytes)
	}), client
}

// TestKeysAreMadeOnce holds that all replicas agree on the first key.
func TestKeysAreMadeOnce(t *testing.T) {
	first, client := newKeys(t)
	second := newSecretKeys(first.secrets, func() []byte { return bytes.Repeat([]byte{9}, approvals.KeyBytes) })
	var writers sync.Mutex
	version := 0
	client.PrependReactor("update", "secrets", func(action clienttesting.Action) (bool, kruntime.Object, error) { // optimistic concurrency, which the fake does not have
		writers.Lock()
		defer writers.Unlock()
		secret := action.(clienttesting.UpdateAction).GetObject().(*corev1.Secret)
		if secret.ResourceVersion != "" && secret.ResourceVersion != fmt.Sprint(version) || secret.ResourceVersion == "" && version > 0 {
			return true, nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("it changed"))
		}
		version++
		secret.ResourceVersion = fmt.Sprint(version)
		return false, nil, nil
	})
	var all sync.WaitGroup
	for _, keys := range []*secretKeys{first, second, first, second} {
		all.Go(func() {
			if read, err := keys.Read(t.Context()); err != nil || read.Newest() != 1 || read.Rotating() {
				t.Errorf("%+v, %v", read, err)
			}
		})
	}
	all.Wait()
	before, err := first.Read(t.Context())
	must(t, err)
	approval := &v1beta1.TemplateApproval{Digest: "sha256:1"}
	approval.Signature, err = before.Sign("a", approval)
	must(t, err)
	other, err := second.Read(t.Context())
	must(t, err)
	must(t, other.Verify("a", approval))
}

func TestKeysRotateOnRequest(t *testing.T) {
	keys, client := newKeys(t)
	_, err := keys.Read(t.Context())
	must(t, err)
	secrets := client.CoreV1().Secrets(release)
	secret, err := secrets.Get(t.Context(), ApprovalKeys, metav1.GetOptions{})
	must(t, err)
	secret.Annotations = map[string]string{RotateAnnotation: "true", "other": "kept"}
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t, err)
	for range 2 {
		read, err := keys.Read(t.Context())
		must(t, err)
		if read.Newest() != 2 || !read.Rotating() {
			t.Errorf("the newest key is %d", read.Newest())
		}
	}
	secret, err = secrets.Get(t.Context(), ApprovalKeys, metav1.GetOptions{})
	must(t, err)
	if _, requested := secret.Annotations[RotateAnnotation]; requested || secret.Annotations["other"] != "kept" {
		t.Errorf("annotations %v", secret.Annotations)
	}
}

func TestKeysThatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []kruntime.Object
		want    string
	}{
		"no Secret": {[]kruntime.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: ApprovalKeys}}}, "the Secret virtward-approval-keys is missing, and helm upgrade creates it"},
		"no key": {
			[]kruntime.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: release, Name: ApprovalKeys}, Data: map[string][]byte{"key.1": []byte("hunter2")}}},
			"in the Secret virtward-approval-keys: data[key.1]: it must be 32 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys, _ := newKeys(t, tc.objects...)
			_, err := keys.Read(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if _, changed := keys.Change(t.Context(), func(*approvals.Keyring) {}); changed == nil || changed.Error() != err.Error() {
				t.Errorf("a change: %v", changed)
			}
			if answer := keysAnswer(err); !apierrors.IsInternalError(answer) {
				t.Errorf("answered %v", answer)
			}
		})
	}
}

// catalogue is a cluster with templates, which keeps their statuses.
type catalogue struct {
	backend

	templates []*v1beta1.VirtualMachineTemplate
	written   []string
}

func (c *catalogue) Templates(_ context.Context, limit int64, from string) (page []v1beta1.VirtualMachineTemplate, next string, err error) {
	start := 0
	if from != "" {
		if _, err := fmt.Sscan(from, &start); err != nil {
			return nil, "", err
		}
	}
	end := min(len(c.templates), start+int(limit))
	for _, template := range c.templates[start:end] {
		page = append(page, *template.DeepCopy())
	}
	if end < len(c.templates) {
		next = fmt.Sprint(end)
	}
	return page, next, nil
}

func (c *catalogue) WriteApproval(_ context.Context, template *v1beta1.VirtualMachineTemplate, approval *v1beta1.TemplateApproval, condition metav1.Condition) error {
	for _, stored := range c.templates {
		if stored.UID != template.UID {
			continue
		}
		if stored.ResourceVersion != template.ResourceVersion {
			return apierrors.NewConflict(templateResource, template.Name, errors.New("it changed"))
		}
		stored.ResourceVersion += "0"
		stored.Status.Approval = approval.DeepCopy()
		meta.SetStatusCondition(&stored.Status.Conditions, condition)
		c.written = append(c.written, stored.Name)
	}
	return nil
}

func (c *catalogue) add(t *testing.T, name string, change func(*v1beta1.VirtualMachineTemplate)) *v1beta1.VirtualMachineTemplate {
	t.Helper()
	template := &v1beta1.VirtualMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid of " + name), ResourceVersion: "1", Generation: 1},
		Spec:       v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &kruntime.RawExtension{Raw: []byte(minimal)}},
	}
	if change != nil {
		change(template)
	}
	c.templates = append(c.templates, template)
	return template
}

func (c *catalogue) condition(t *testing.T, name string) metav1.Condition {
	t.Helper()
	for _, template := range c.templates {
		if template.Name == name {
			if found := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateApproved); found != nil {
				return *found
			}
		}
	}
	return metav1.Condition{}
}

// approvedBy is a change of a template that has an approval of its spec, signed unless there are no keys.
func approvedBy(t *testing.T, keys Keys) func(*v1beta1.VirtualMachineTemplate) {
	return func(template *v1beta1.VirtualMachineTemplate) {
		t.Helper()
		digest, err := templates.Digest(template)
		must(t, err)
		template.Status.Approval = &v1beta1.TemplateApproval{Digest: digest, ApprovedBy: "ann", ApprovedAt: metav1.NewTime(time.Unix(1000, 0))}
		if keys != nil {
			_, err = keys.Change(t.Context(), func(k *approvals.Keyring) {
				k.End(template.UID)
				template.Status.Approval.Signature, err = k.Sign(template.UID, template.Status.Approval)
			})
			must(t, err)
		}
		template.Status.Conditions = []metav1.Condition{{Type: v1beta1.TemplateApproved, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonApproved}}
	}
}

func newUpkeep(cluster Cluster, keys Keys) *upkeep {
	return &upkeep{storage: storage{Services: &Services{Cluster: cluster, Keys: keys, Clock: clock.RealClock{}, memory: newGates(defaultInFlight)}}}
}

// TestUpkeepCorrectsConditions holds that the conditions say which approvals count, also of templates that no user uses.
func TestUpkeepCorrectsConditions(t *testing.T) {
	keys, _ := newKeys(t)
	c := &catalogue{}
	c.add(t, "never", nil)
	c.add(t, "signed", approvedBy(t, keys))
	c.add(t, "unsigned", approvedBy(t, nil))
	c.add(t, "changed", approvedBy(t, keys)).Spec.Message = "new"
	c.add(t, "copied", func(template *v1beta1.VirtualMachineTemplate) {
		template.Status = *c.templates[1].Status.DeepCopy()
	})
	c.add(t, "condition", func(template *v1beta1.VirtualMachineTemplate) {
		template.Status.Conditions = []metav1.Condition{{Type: v1beta1.TemplateApproved, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonApproved}}
	})
	c.add(t, "revoked", func(template *v1beta1.VirtualMachineTemplate) {
		template.Status.Conditions = []metav1.Condition{{Type: v1beta1.TemplateApproved, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonRevoked}}
	})
	replayed := c.add(t, "replayed", approvedBy(t, keys))
	_, err := keys.Change(t.Context(), func(k *approvals.Keyring) { k.End(replayed.UID) })
	must(t, err)
	u := newUpkeep(c, keys)
	must(t, u.pass(t.Context()))
	for name, want := range map[string]string{
		"never": " ", "signed": "True Approved", "unsigned": "False NotSigned", "changed": "False Changed", "copied": "False SignatureInvalid",
		"condition": "False NotApproved", "revoked": "False Revoked", "replayed": "False Ended",
	} {
		got := c.condition(t, name)
		if string(got.Status)+" "+got.Reason != want {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
		if again := strings.Contains(got.Message, "kubectl virtward template approve "+name+" -n a"); again != (name == "unsigned" || name == "copied" || name == "replayed") {
			t.Errorf("%s: the message is %q", name, got.Message)
		}
	}
	c.written = nil
	must(t, u.pass(t.Context()))
	if len(c.written) > 0 {
		t.Errorf("a second pass writes %v", c.written)
	}
	must(t, u.memory.returned(t.Context()))
}

// TestUpkeepRenewsSignatures holds that a rotation of the key ends no approval, and that old keys are removed when none needs
// them.
func TestUpkeepRenewsSignatures(t *testing.T) {
	keys, _ := newKeys(t)
	c := &catalogue{}
	for i := range 7 {
		c.add(t, fmt.Sprintf("t%d", i), approvedBy(t, keys))
	}
	forged := c.add(t, "forged", approvedBy(t, nil))
	rotate := func() {
		t.Helper()
		_, err := keys.Change(t.Context(), func(k *approvals.Keyring) { must(t, k.Add(keys.newKey())) })
		must(t, err)
	}
	rotating := func() bool {
		t.Helper()
		read, err := keys.Read(t.Context())
		must(t, err)
		return read.Rotating()
	}
	rotate()
	u := newUpkeep(c, keys)
	must(t, u.pass(t.Context()))
	if len(c.written) != 8 || !rotating() {
		t.Errorf("the first pass writes %v", c.written)
	}
	must(t, u.pass(t.Context()))
	if !rotating() {
		t.Error("the old key is removed after one pass without approvals of it: a request can still write one")
	}
	late := c.templates[0]
	must(t, u.pass(t.Context()))
	if rotating() {
		t.Error("the old key stays")
	}
	read, err := keys.Read(t.Context())
	must(t, err)
	for _, template := range c.templates[:7] {
		must(t, read.Verify(template.UID, template.Status.Approval))
	}
	if forged.Status.Approval.Signature != "" {
		t.Error("a forged approval is signed")
	}
	// An approval of the old key that appears late begins the passes again, and so does another rotation.
	approvedBy(t, keys)(late)
	rotate()
	must(t, u.pass(t.Context()))
	must(t, u.pass(t.Context()))
	rotate()
	must(t, u.pass(t.Context()))
	must(t, u.pass(t.Context()))
	if !rotating() {
		t.Error("the old keys are removed too early")
	}
	must(t, u.pass(t.Context()))
	if rotating() {
		t.Error("the old keys stay")
	}
}

// TestUpkeepDoesNotOverwrite holds that a request that changes an approval during a pass wins.
func TestUpkeepDoesNotOverwrite(t *testing.T) {
	keys, _ := newKeys(t)
	c := &catalogue{}
	unsigned := c.add(t, "unsigned", approvedBy(t, nil))
	raced := newUpkeep(&racing{catalogue: c, during: func() {
		approvedBy(t, keys)(unsigned)
		unsigned.ResourceVersion = "2"
	}}, keys)
	if err := raced.pass(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if c.condition(t, "unsigned").Status != metav1.ConditionTrue || unsigned.Status.Approval.Signature == "" {
		t.Errorf("the status is %+v", unsigned.Status)
	}
	must(t, newUpkeep(c, keys).pass(t.Context()))
	if c.condition(t, "unsigned").Status != metav1.ConditionTrue {
		t.Errorf("the status is %+v", unsigned.Status)
	}
}

// racing changes templates after they are listed.
type racing struct {
	*catalogue

	during func()
}

func (r *racing) Templates(ctx context.Context, limit int64, from string) (page []v1beta1.VirtualMachineTemplate, next string, err error) {
	page, next, err = r.catalogue.Templates(ctx, limit, from)
	r.during()
	return page, next, err
}
