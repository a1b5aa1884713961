package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/compare/engine"
	"github.com/virtward/virtward/test/controlplane"
)

// The namespaces of the comparison through the API server. Only the policies of its engine match a namespace.
const (
	withNothing  = "compare-none"
	withRules    = "compare-rules"
	withVirtward = "compare-virtward"
	withNative   = "compare-native"
	withPeer     = "compare-peer-"
)

// lane is how a create is evaluated.
type lane struct {
	namespace string
	title     string
	// process is the webhook; 0 for none.
	process int
	// base is the lane that is the same without policies; nil for that lane.
	base *lane

	latencies []time.Duration
	// costs are those of a create, one for each batch.
	costs []cost
}

// cost is what creates cost the API server and a webhook: CPU time, and bytes that the API server allocates.
type cost struct {
	apiServer, webhook time.Duration
	allocated          float64
}

// journey measures creates through a real API server.
type journey struct {
	plane   *controlplane.ControlPlane
	lanes   []*lane
	objects []*v1.VirtualMachineInstance
	count   int
}

const (
	// pairs is the number of creates in each namespace whose times are compared with those beside them.
	pairs = 600
	// batches and batch are for the CPU time: the median of some batches in each namespace, in turn. The API server collects its
	// garbage several times in each batch.
	batches = 12
	batch   = 200
)

// throughAPIServer measures creates without policies, with policies in Virtward, with the same policies as native
// ValidatingAdmissionPolicies, and with the engines of peers behind a small HTTPS server.
func throughAPIServer(ctx context.Context, peers []program, all []engine.Policy, samples []json.RawMessage) (j *journey, err error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	j = &journey{plane: plane}
	exempt := []any{withNothing, withNative}
	for i := range peers {
		exempt = append(exempt, withPeer+strconv.Itoa(i))
	}
	installed, err := plane.InstallVirtward(ctx, map[string]any{"webhook": map[string]any{"exemptNamespaces": exempt}}, controlplane.Workload{})
	if err != nil {
		return nil, err
	}
	nothing := &lane{namespace: withNothing, title: "without policies"}
	rules := &lane{namespace: withRules, title: "Virtward, its built-in rules without policies", process: installed.PID()}
	virtward := &lane{namespace: withVirtward, title: fmt.Sprintf("Virtward, its built-in rules and %d policies", len(all)), process: installed.PID(), base: rules}
	native := &lane{namespace: withNative, title: fmt.Sprintf("%d ValidatingAdmissionPolicies", len(all)), base: nothing}
	j.lanes = []*lane{nothing, rules, virtward, native}
	var running []*process
	defer func() {
		for _, p := range running {
			err = errors.Join(err, p.stop())
		}
	}()
	for i := range peers {
		l := &lane{namespace: withPeer + strconv.Itoa(i), base: nothing, title: fmt.Sprintf("%s's engine with %d policies, behind a small server", peers[i].title, len(all))}
		p, err := j.run(ctx, &peers[i], l, all)
		if err != nil {
			return nil, err
		}
		running = append(running, p)
		j.lanes = append(j.lanes, l)
	}
	for _, l := range j.lanes {
		if err := plane.EnsureNamespace(ctx, l.namespace); err != nil {
			return nil, err
		}
	}
	denied, err := j.choose(all, samples)
	if err != nil {
		return nil, err
	}
	if err := j.install(ctx, all); err != nil {
		return nil, err
	}
	if err := j.verify(ctx, denied); err != nil {
		return nil, err
	}
	return j, j.measure(ctx)
}

// run starts the webhook of a peer, and lets the API server call it for the namespace of a lane.
func (j *journey) run(ctx context.Context, peer *program, l *lane, all []engine.Policy) (*process, error) {
	port, err := j.plane.TakePort()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	load := engine.Load{
		Listen:    &engine.Listen{Address: address, Certificate: certificate, Key: key},
		Namespace: engine.Namespace{Name: l.namespace, Labels: map[string]string{corev1.LabelMetadataName: l.namespace}},
	}
	for _, policy := range all {
		load.Policies = append(load.Policies, probed(policy))
	}
	running, err := start(peer)
	if err != nil {
		return nil, err
	}
	loaded := engine.Loaded{}
	err = running.ask(load, &loaded)
	if err == nil && loaded.Error != "" {
		err = errors.New(loaded.Error)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", peer.title, err), running.stop())
	}
	l.process = running.command.Process.Pid
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
	configuration.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: l.namespace + ".virtward.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
		ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new("https://" + address), CABundle: certificate},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: load.Namespace.Labels},
		Rules:             []admissionregistrationv1.RuleWithOperations{instances},
	}}
	if err := j.plane.Client().Create(ctx, configuration); err != nil {
		return nil, errors.Join(err, running.stop())
	}
	return running, nil
}

// instances are the requests that policies match.
var instances = admissionregistrationv1.RuleWithOperations{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
	Rule:       admissionregistrationv1.Rule{APIGroups: []string{v1.GroupVersion.Group}, APIVersions: []string{v1.GroupVersion.Version}, Resources: []string{"virtualmachineinstances"}},
}

// install creates all policies in both forms, and waits until each is active.
func (j *journey) install(ctx context.Context, all []engine.Policy) error {
	for _, policy := range all {
		policy = probed(policy)
		native, binding, err := nativePolicy(policy)
		if err != nil {
			return err
		}
		policy.NamespaceLabels = map[string]string{corev1.LabelMetadataName: withVirtward}
		for _, object := range []client.Object{virtwardPolicy(policy), native, binding} {
			if err := j.plane.Client().Create(ctx, object); err != nil {
				return fmt.Errorf("policy %s, %T: %w", policy.Name, object, err)
			}
		}
	}
	for _, l := range j.evaluating() {
		for _, policy := range all {
			if err := j.awaitDenial(ctx, l.namespace, policy.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// probe is a label by which a policy denies, if its value is the name of the policy. It shows when each policy is active.
const probe = "compare.virtward.io/probe"

// active is the message of the denial.
func active(policy string) string { return "policy <" + policy + "> is active" }

// probed returns the policy with a validation for the label.
func probed(policy engine.Policy) engine.Policy {
	policy.Validations = append(slices.Clone(policy.Validations), engine.Validation{
		Expression: fmt.Sprintf("%s.metadata.?labels[?'%s'].orValue('') != '%s'", engine.Object, probe, policy.Name),
		Message:    active(policy.Name),
	})
	return policy
}

// awaitDenial waits until a policy denies an object that it otherwise allows.
func (j *journey) awaitDenial(ctx context.Context, namespace, policy string) error {
	last := error(nil)
	for range 300 {
		vmi := j.objects[0].DeepCopy()
		vmi.Namespace, vmi.Labels[probe] = namespace, policy
		if last = j.plane.Client().Create(ctx, vmi, client.DryRunAll); last != nil && strings.Contains(last.Error(), active(policy)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("policy %s is not active in namespace %s: %w", policy, namespace, last)
}

// nativePolicy returns the policy for instances in the namespace of native policies, and its binding.
func nativePolicy(policy engine.Policy) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, error) {
	inlined, err := policy.Inlined("object")
	if err != nil {
		return nil, nil, err
	}
	native := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	native.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: withNative}},
		ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: instances}},
	}
	for _, c := range inlined.Conditions {
		native.Spec.MatchConditions = append(native.Spec.MatchConditions, admissionregistrationv1.MatchCondition(c))
	}
	for _, v := range inlined.Variables {
		native.Spec.Variables = append(native.Spec.Variables, admissionregistrationv1.Variable(v))
	}
	for _, v := range inlined.Validations {
		native.Spec.Validations = append(native.Spec.Validations,
			admissionregistrationv1.Validation{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression})
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	binding.Spec.PolicyName = policy.Name
	binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	return native, binding, nil
}

// choose keeps the objects that the policies allow, and returns the others.
func (j *journey) choose(all []engine.Policy, samples []json.RawMessage) (denied []*v1.VirtualMachineInstance, err error) {
	evaluating, err := newVirtward(&engine.Load{Policies: all, Reviews: samples, Namespace: namespace})
	if err != nil {
		return nil, err
	}
	for i, data := range samples {
		answer, err := evaluating.Evaluate(i)
		if err != nil {
			return nil, err
		}
		names, err := evaluating.Denying(answer)
		if err != nil {
			return nil, err
		}
		review := &admissionv1.AdmissionReview{}
		if err := json.Unmarshal(data, review); err != nil {
			return nil, err
		}
		vmi := &v1.VirtualMachineInstance{}
		if err := json.Unmarshal(review.Request.Object.Raw, vmi); err != nil {
			return nil, err
		}
		vmi.ObjectMeta = metav1.ObjectMeta{Name: vmi.Name, Labels: vmi.Labels, Annotations: vmi.Annotations}
		if len(names) > 0 {
			denied = append(denied, vmi)
		} else {
			j.objects = append(j.objects, vmi)
		}
	}
	if len(j.objects) == 0 {
		return nil, errors.New("all requests are denied")
	}
	return denied, nil
}

// verify returns an error unless every lane with policies allows what the policies allow, and denies what they deny.
func (j *journey) verify(ctx context.Context, denied []*v1.VirtualMachineInstance) error {
	for _, l := range j.evaluating() {
		for i, vmi := range slices.Concat(j.objects, denied) {
			object := vmi.DeepCopy()
			object.Namespace = l.namespace
			err := j.plane.Client().Create(ctx, object, client.DryRunAll)
			if wanted := i >= len(j.objects); wanted && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) || !wanted && err != nil {
				return fmt.Errorf("%s: %s should be denied: %t, but the answer is: %w", l.title, vmi.Name, wanted, err)
			}
		}
	}
	return nil
}

// create creates the next object in the namespace of a lane, and returns how long that took.
func (j *journey) create(ctx context.Context, l *lane) (time.Duration, error) {
	vmi := j.objects[j.count%len(j.objects)].DeepCopy()
	vmi.Namespace, vmi.Name = l.namespace, "vm-"+strconv.Itoa(j.count)
	began := time.Now()
	err := j.plane.Client().Create(ctx, vmi)
	return time.Since(began), err
}

func (j *journey) measure(ctx context.Context) error {
	const warming = 60
	for n := range warming + pairs {
		for i := range j.lanes {
			l := j.lanes[(i+n)%len(j.lanes)]
			took, err := j.create(ctx, l)
			if err != nil {
				return fmt.Errorf("%s: %w", l.title, err)
			}
			if n >= warming {
				l.latencies = append(l.latencies, took)
			}
		}
		j.count++
	}
	apiServer := j.plane.Processes()["kube-apiserver"]
	for n := range batches {
		first := j.count
		for i := range j.lanes {
			l := j.lanes[(i+n)%len(j.lanes)]
			j.count = first // the same objects for each lane
			before, err := j.spent(ctx, apiServer, l.process)
			if err != nil {
				return err
			}
			for range batch {
				if _, err := j.create(ctx, l); err != nil {
					return fmt.Errorf("%s: %w", l.title, err)
				}
				j.count++
			}
			after, err := j.spent(ctx, apiServer, l.process)
			if err != nil {
				return err
			}
			l.costs = append(l.costs, cost{
				apiServer: (after.apiServer - before.apiServer) / batch, webhook: (after.webhook - before.webhook) / batch,
				allocated: (after.allocated - before.allocated) / batch,
			})
		}
	}
	return nil
}

// spent returns what the API server and a webhook have used since they started. There may be no webhook.
func (j *journey) spent(ctx context.Context, apiServer, webhook int) (c cost, err error) {
	if c.allocated, err = j.plane.Metric(ctx, "go_memstats_alloc_bytes_total", nil); err != nil {
		return c, err
	}
	if c.apiServer, err = cpuTimeOf(apiServer); err == nil && webhook != 0 {
		c.webhook, err = cpuTimeOf(webhook)
	}
	return c, err
}

// cpuTimeOf returns the CPU time of all threads of a process. Unlike /proc/PID/stat, it is exact to the nanosecond.
func cpuTimeOf(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("process %d has no threads: %w", pid, err)
	}
	var total time.Duration
	for _, thread := range threads {
		data, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has just ended
		}
		if err != nil {
			return 0, err
		}
		spent, _, _ := strings.Cut(string(data), " ")
		n, err := strconv.ParseInt(spent, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		total += time.Duration(n)
	}
	return total, nil
}

// evaluating returns the lanes with policies.
func (j *journey) evaluating() []*lane {
	return slices.DeleteFunc(slices.Clone(j.lanes), func(l *lane) bool { return l.base == nil })
}

// difference returns the median of the differences to the creates beside them.
func (l *lane) difference(base *lane) time.Duration {
	differences := make([]time.Duration, len(l.latencies))
	for i := range differences {
		differences[i] = l.latencies[i] - base.latencies[i]
	}
	return median(differences)
}

// cost returns the medians of the batches.
func (l *lane) cost() cost {
	of := func(value func(cost) float64) float64 {
		values := make([]float64, 0, len(l.costs))
		for _, c := range l.costs {
			values = append(values, value(c))
		}
		return median(values)
	}
	return cost{
		apiServer: time.Duration(of(func(c cost) float64 { return float64(c.apiServer) })),
		webhook:   time.Duration(of(func(c cost) float64 { return float64(c.webhook) })),
		allocated: of(func(c cost) float64 { return c.allocated }),
	}
}

// sorted returns the lanes but the first one, by the difference to it.
func (j *journey) sorted() []*lane {
	lanes := slices.Clone(j.lanes[1:])
	slices.SortStableFunc(lanes, func(a, b *lane) int { return cmp.Compare(a.difference(j.lanes[0]), b.difference(j.lanes[0])) })
	return lanes
}

// markdown returns the tables of creates.
func (j *journey) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Through kube-apiserver, %d creates in each namespace in turn, of %d of the VMIs:\n\n", pairs, len(j.objects))
	b.WriteString("| Creates | p50 | Paired difference, p50 | CPU of kube-apiserver | kube-apiserver allocates | CPU of the webhook |\n|---|---|---|---|---|---|\n")
	for _, l := range append(j.sorted(), j.lanes[0]) {
		difference, webhook, c := "", "", l.cost()
		if l != j.lanes[0] {
			difference = milliseconds(l.difference(j.lanes[0]))
		}
		if l.process != 0 {
			webhook = milliseconds(c.webhook)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", l.title, milliseconds(median(l.latencies)), difference, milliseconds(c.apiServer), megabytes(c.allocated), webhook)
	}
	b.WriteString("\nWhat the policies add, relative to creates that differ only in that no policy matches them:\n\n")
	b.WriteString("| Creates | Paired difference, p50 | CPU of kube-apiserver | kube-apiserver allocates | CPU of the webhook |\n|---|---|---|---|---|\n")
	for _, l := range j.sorted() {
		if l.base == nil {
			continue
		}
		c, base, webhook := l.cost(), l.base.cost(), ""
		if l.process != 0 {
			webhook = milliseconds(c.webhook - base.webhook)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", l.title, milliseconds(l.difference(l.base)), milliseconds(c.apiServer-base.apiServer), megabytes(c.allocated-base.allocated), webhook)
	}
	return b.String()
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.2f MB", bytes/1e6) }
