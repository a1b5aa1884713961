package main

import (
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

	latencies []time.Duration
	// apiServer and webhook are the least CPU times for a create.
	apiServer, webhook time.Duration
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
	// batches and batch are for the CPU time: the least of some batches in each namespace, in turn.
	batches = 12
	batch   = 40
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
	j.lanes = []*lane{
		{namespace: withNothing, title: "without policies"},
		{namespace: withVirtward, title: fmt.Sprintf("Virtward, its built-in rules and %d policies", len(all)), process: installed.PID()},
		{namespace: withNative, title: fmt.Sprintf("%d ValidatingAdmissionPolicies", len(all))},
	}
	var running []*process
	defer func() {
		for _, p := range running {
			err = errors.Join(err, p.stop())
		}
	}()
	for i := range peers {
		l := &lane{namespace: withPeer + strconv.Itoa(i), title: fmt.Sprintf("%s's engine with %d policies, behind a small server", peers[i].title, len(all))}
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
		for _, object := range []client.Object{virtwardPolicy(policy), native, binding} {
			if err := j.plane.Client().Create(ctx, object); err != nil {
				return fmt.Errorf("policy %s, %T: %w", policy.Name, object, err)
			}
		}
	}
	for _, l := range j.lanes[1:] {
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
	for _, l := range j.lanes[1:] {
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
			beforeServer, beforeWebhook, err := cpuTimes(apiServer, l.process)
			if err != nil {
				return err
			}
			for range batch {
				if _, err := j.create(ctx, l); err != nil {
					return fmt.Errorf("%s: %w", l.title, err)
				}
				j.count++
			}
			afterServer, afterWebhook, err := cpuTimes(apiServer, l.process)
			if err != nil {
				return err
			}
			server, webhook := (afterServer-beforeServer)/batch, (afterWebhook-beforeWebhook)/batch
			if n == 0 {
				l.apiServer, l.webhook = server, webhook
			}
			l.apiServer, l.webhook = min(l.apiServer, server), min(l.webhook, webhook)
		}
	}
	return nil
}

// cpuTimes returns the CPU time of the API server and of a webhook, which is 0 without one.
func cpuTimes(apiServer, webhook int) (ofServer, ofWebhook time.Duration, err error) {
	if ofServer, err = cpuTimeOf(apiServer); err == nil && webhook != 0 {
		ofWebhook, err = cpuTimeOf(webhook)
	}
	return ofServer, ofWebhook, err
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

// difference returns the median of the differences to the creates without policies.
func (j *journey) difference(l *lane) time.Duration {
	differences := make([]time.Duration, len(l.latencies))
	for i := range differences {
		differences[i] = l.latencies[i] - j.lanes[0].latencies[i]
	}
	return median(differences)
}

// sorted returns the lanes with policies. Those that are faster than Virtward, by the difference or by the CPU time of the API
// server, are the first ones.
func (j *journey) sorted() []*lane {
	lanes := slices.Clone(j.lanes[1:])
	own := lanes[0]
	faster := func(l *lane) bool { return j.difference(l) < j.difference(own) || l.apiServer < own.apiServer }
	slices.SortStableFunc(lanes, func(a, b *lane) int {
		switch {
		case faster(a) && !faster(b):
			return -1
		case faster(b) && !faster(a):
			return 1
		}
		return 0
	})
	return lanes
}

// markdown returns the table of creates.
func (j *journey) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Through kube-apiserver, %d creates in each namespace in turn, of %d of the VMIs:\n\n", pairs, len(j.objects))
	b.WriteString("| Creates | p50 | Paired difference, p50 | CPU of kube-apiserver | CPU of the webhook |\n|---|---|---|---|---|\n")
	for _, l := range append(j.sorted(), j.lanes[0]) {
		difference := ""
		if l != j.lanes[0] {
			difference = milliseconds(j.difference(l))
		}
		webhook := ""
		if l.process != 0 {
			webhook = milliseconds(l.webhook)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", l.title, milliseconds(median(l.latencies)), difference, milliseconds(l.apiServer), webhook)
	}
	return b.String()
}

func median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
