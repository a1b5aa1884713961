package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// release is a chart with its own programs.
type release struct {
	name string
	// source is the folder with charts/virtward, and programs that with its programs.
	source, programs string
}

// releaseBefore returns the release of the newest tag, or of the commit in upgrade-from.txt. It builds its programs from its own
// sources, in bin/upgrade-from, and keeps them there.
func releaseBefore(ctx context.Context) release {
	GinkgoHelper()
	root, err := filepath.Abs("../..")
	Expect(err).NotTo(HaveOccurred())
	run := func(dir, script string, words ...string) string {
		GinkgoHelper()
		cmd := exec.CommandContext(ctx, "bash", append([]string{"-euo", "pipefail", "-c", script, "bash"}, words...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		output, err := cmd.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s\n%s", script, output)
		return strings.TrimSpace(string(output))
	}
	commit := run(root, `git rev-parse --verify --quiet "$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null)^{commit}" || sed '/^#/d' test/e2e/upgrade-from.txt`)
	r := release{name: commit[:8], source: filepath.Join(root, "bin", "upgrade-from", commit)}
	r.programs = filepath.Join(r.source, "bin")
	if _, err := os.Stat(filepath.Join(r.programs, "complete")); errors.Is(err, fs.ErrNotExist) {
		Expect(os.MkdirAll(r.source, 0o750)).To(Succeed())
		run(root, `git cat-file -e "$1^{commit}" || git fetch --quiet origin "$1"; git archive "$1" | tar -x -C "$2"`, commit, r.source)
		run(r.source, `go build -buildvcs=false -ldflags '-s -w' -o bin/ ./cmd/virtward ./cmd/virtward-apiserver && touch bin/complete`)
	}
	return r
}

// valuesOf renames the values of the current chart for the chart of a release.
func (r *release) valuesOf(values map[string]any) map[string]any {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(r.source, "charts", "virtward", "values.yaml"))
	Expect(err).NotTo(HaveOccurred())
	known := map[string]any{}
	Expect(yaml.Unmarshal(content, &known)).To(Succeed())
	values = maps.Clone(values)
	if _, is := known["goldenImages"]; !is { // docs/upgrade.md
		values["images"] = values["goldenImages"]
		delete(values, "goldenImages")
	}
	return values
}

// fleet is an installation whose pods change with its release, as Deployments roll: a new pod is ready before an old one ends.
type fleet struct {
	*installation

	calls, deletions *balancer
	pods             []*controlplane.Virtward
	served           []replica
	server           *controlplane.Virtward
	revisions        int
}

// roll replaces all processes by those of a release.
func (f *fleet) roll(ctx context.Context, r release, load func()) {
	GinkgoHelper()
	run := func(workload controlplane.Workload) *controlplane.Virtward {
		GinkgoHelper()
		workload.Namespace = controlplane.VirtwardNamespace
		p, err := f.plane.RunVirtward(ctx, workload)
		Expect(err).NotTo(HaveOccurred())
		return p
	}
	f.revisions++
	binary := filepath.Join(r.programs, "virtward")
	if f.controller != nil {
		Expect(f.controller.Stop()).To(Succeed())
	}
	f.controller = run(controlplane.Workload{Deployment: controlplane.VirtwardController, Binary: binary, Args: []string{"--rotation-settle=1s"}})
	before := f.server
	f.server = run(controlplane.Workload{
		Deployment: controlplane.VirtwardAPIServer, Binary: filepath.Join(r.programs, "virtward-apiserver"), Replica: "-" + strconv.Itoa(f.revisions),
		Args: []string{"--shutdown-delay-duration=1s", "--permit-port-sharing", "--bind-address=127.0.0.1", "--kubeconfig=$(KUBECONFIG)", "--authentication-kubeconfig=$(KUBECONFIG)", "--authorization-kubeconfig=$(KUBECONFIG)"},
	})
	if before != nil {
		Expect(before.Stop()).To(Succeed())
	}
	serve := func() {
		var calls, deletions []int
		for _, s := range f.served {
			calls, deletions = append(calls, s.webhook), append(deletions, s.deletions)
		}
		f.calls.to(calls...)
		f.deletions.to(deletions...)
	}
	old := len(f.pods)
	for range 2 {
		ports, args := another(f.plane)
		probed := f.chart.Values["health"].(map[string]any)["port"].(int)
		if !slices.ContainsFunc(f.served, func(r replica) bool { return r.health == probed }) { // the probe of the Deployment needs a pod at the port of the chart
			ports.health = probed
			args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--health-address=") })
		}
		p := run(controlplane.Workload{Deployment: controlplane.VirtwardService, Binary: binary, Args: args, Replica: "-" + strconv.Itoa(ports.webhook)})
		Eventually(ports.ready).WithContext(ctx).Should(Succeed())
		f.pods, f.served = append(f.pods, p), append(f.served, ports)
		serve()
		load()
		if old == 0 {
			continue
		}
		old--
		ended := f.pods[old]
		f.pods, f.served = slices.Delete(f.pods, old, old+1), slices.Delete(f.served, old, old+1)
		serve()
		time.Sleep(time.Second) // of the pod's preStop
		Expect(ended.Stop()).To(Succeed())
		load()
	}
}

// upgrade installs the chart of a release, over another one.
func (f *fleet) upgrade(ctx context.Context, r release) {
	GinkgoHelper()
	chart := f.chart
	chart.Dir, chart.Values = filepath.Join(r.source, "charts", "virtward"), r.valuesOf(chart.Values)
	Expect(f.plane.InstallChart(ctx, chart)).To(Succeed())
	f.point(ctx)
}

// rollback is helm rollback to the revision before.
func (f *fleet) rollback(ctx context.Context) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, f.plane.Binary("tools/helm"), "rollback", controlplane.VirtwardRelease, "--namespace", controlplane.VirtwardNamespace)
	cmd.Env = f.plane.Environment(f.plane.Kubeconfig())
	output, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	f.point(ctx)
}

func (f *fleet) point(ctx context.Context) {
	GinkgoHelper()
	for _, service := range []string{controlplane.VirtwardService, controlplane.VirtwardAPIServer} {
		Expect(f.plane.PointServiceAtLocalhost(ctx, controlplane.VirtwardNamespace, service)).To(Succeed())
	}
}

// templateCalls processes a template again and again, until it is stopped.
type templateCalls struct {
	cancel context.CancelFunc
	done   chan struct{}
	passed atomic.Int64

	mu     sync.Mutex
	errors []string
}

func (f *fleet) subresource(ctx context.Context, name, subresource string, body, answer any) error {
	config := rest.CopyConfig(f.plane.Config())
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &subresources.V1Beta1, "/apis", scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return err
	}
	written, err := json.Marshal(body)
	if err != nil {
		return err
	}
	read, err := c.Post().Namespace("default").Resource(subresources.Resource).Name(name).SubResource(subresource).SetHeader("Content-Type", "application/json").Body(written).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("%w: %s", err, read)
	}
	return json.Unmarshal(read, answer)
}

func (f *fleet) process() *templateCalls {
	ctx, cancel := context.WithCancel(context.Background())
	l := &templateCalls{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for ctx.Err() == nil {
			processed := &subresources.ProcessedVirtualMachineTemplate{}
			err := f.subresource(ctx, "fedora", subresources.Process, &subresources.ProcessOptions{Parameters: map[string]string{"NAME": "web"}}, processed)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				l.mu.Lock()
				l.errors = append(l.errors, err.Error())
				l.mu.Unlock()
			default:
				l.passed.Add(1)
			}
		}
	}()
	return l
}

func (l *templateCalls) stop() {
	l.cancel()
	<-l.done
}

var _ = Describe("An upgrade from the release before, a rollback, and the upgrade again, under load", Serial, func() {
	It("denies nothing wrongly, admits nothing without validation, and loses nothing", func(ctx SpecContext) {
		leaveToSoak() // it compiles the release before, which takes minutes
		root, err := filepath.Abs("../..")
		Expect(err).NotTo(HaveOccurred())
		before, now := releaseBefore(ctx), release{name: "this release", source: root, programs: filepath.Join(root, "bin")}
		plane := planes.Start(GinkgoTB(), controlplane.Options{})
		chart, err := plane.VirtwardChart(map[string]any{"templates": map[string]any{"mode": "manage"}})
		Expect(err).NotTo(HaveOccurred())
		f := &fleet{installation: &installation{plane: plane, chart: chart, admin: plane.Client()}}
		service := chart.Values["webhook"].(map[string]any)
		f.calls, f.deletions = balance(ctx, service["port"].(int)), balance(ctx, service["deletionsPort"].(int))

		By("installing " + before.name)
		f.upgrade(ctx, before)
		f.roll(ctx, before, func() {})
		f.awaitCalls(ctx)
		template := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(`
apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
metadata: {namespace: default, name: fedora}
spec:
  virtualMachine:
    metadata: {name: "${NAME}"}
    spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}
  parameters: [{name: NAME, required: true}]
`), &template.Object)).To(Succeed())
		settings := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(`{apiVersion: policy.virtward.io/v1alpha1, kind: RuleSettings, metadata: {name: kept}, spec: {}}`), &settings.Object)).To(Succeed())
		policy := policyObject("kept", `{enforcement: Deny, validations: [{expression: "!(vm.metadata.?labels.orValue({})[?'forbidden'].orValue('') == 'true')", message: it is forbidden}]}`)
		kept := []*unstructured.Unstructured{template, settings, policy}
		for _, object := range kept {
			Eventually(func(ctx context.Context) error { return client.IgnoreAlreadyExists(f.admin.Create(ctx, object)) }).WithContext(ctx).Should(Succeed())
		}
		review := &subresources.TemplateReview{}
		Eventually(func(ctx context.Context) error {
			digest, err := f.digest(ctx)
			if err != nil {
				return err
			}
			return f.subresource(ctx, "fedora", subresources.Approve, &subresources.ApproveOptions{Digest: digest}, review)
		}).WithContext(ctx).Should(Succeed())
		specs := map[string]any{}
		for _, object := range kept {
			specs[object.GetKind()] = object.Object["spec"]
		}
		f.rotated(ctx)
		failed := f.failedCalls(ctx)

		l, calls := startMixedLoad(f.admin, 2), f.process()
		defer l.stop()
		defer calls.stop()
		load := func() { l.more(ctx, 20) }
		load()
		for n, step := range []struct {
			name string
			to   release
			do   func(context.Context)
		}{
			{"upgrading", now, func(ctx context.Context) { f.upgrade(ctx, now) }},
			{"rolling back", before, f.rollback},
			{"upgrading again", now, func(ctx context.Context) { f.upgrade(ctx, now) }},
		} {
			By(step.name + " to " + step.to.name)
			processed := calls.passed.Load()
			step.do(ctx)
			load()
			f.roll(ctx, step.to, load)
			Eventually(calls.passed.Load).WithContext(ctx).Should(BeNumerically(">", processed+5), "templates that are processed")
			for _, object := range kept {
				now := object.DeepCopy()
				Expect(f.admin.Get(ctx, client.ObjectKeyFromObject(object), now)).To(Succeed())
				Expect(now.GetUID()).To(Equal(object.GetUID()))
				Expect(now.Object["spec"]).To(Equal(specs[object.GetKind()]), "the spec of %s", object.GetKind())
			}
			Eventually(func(g Gomega, ctx context.Context) { // the approval still counts
				found := &v1beta1.VirtualMachineTemplate{}
				g.Expect(f.read(ctx, found)).To(Succeed())
				g.Expect(found.Status.Approval).NotTo(BeNil())
				g.Expect(found.Status.Approval.Digest).To(Equal(review.Digest))
				g.Expect(found.Status.Conditions).To(ContainElement(And(HaveField("Type", v1beta1.TemplateApproved), HaveField("Status", BeEquivalentTo("True")))))
			}).WithContext(ctx).Should(Succeed())
			AddReportEntry(step.name, fmt.Sprintf("step %d: %d admitted, %d denied, %d templates processed", n+1, l.admitted.Load(), l.denied.Load(), calls.passed.Load()))
		}
		calls.stop()
		l.stop()
		Expect(l.unchecked.Load()).To(BeZero(), "an impossible VM or VMI was admitted")
		Expect(l.incomplete.Load()).To(BeZero(), "a VMI was admitted uncompleted")
		Expect(l.away.Load()).To(BeZero(), "requests that were denied wrongly: %v", l.errors())
		Expect(calls.errors).To(BeEmpty())
		Expect(f.failedCalls(ctx)).To(Equal(failed))
	}, NodeTimeout(20*time.Minute))
})

// read reads the template.
func (f *fleet) read(ctx context.Context, into *v1beta1.VirtualMachineTemplate) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("VirtualMachineTemplate"))
	if err := f.admin.Get(ctx, client.ObjectKey{Namespace: "default", Name: "fedora"}, object); err != nil {
		return err
	}
	written, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(written, into)
}

// digest is that of the template.
func (f *fleet) digest(ctx context.Context) (string, error) {
	template := &v1beta1.VirtualMachineTemplate{}
	if err := f.read(ctx, template); err != nil {
		return "", err
	}
	return templates.Digest(template)
}
