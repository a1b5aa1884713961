package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/catalog"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

func TestSandbox(t *testing.T) {
	planes.Skip(t)
	s := startSandbox(t, "-audit", "-library", "Audit")
	admin := adminOf(t, s.kubeconfig)
	t.Run("it prints what to copy", func(t *testing.T) { s.testHints(t) })
	t.Run("a killed process stays down, and its Deployment and its endpoint follow", func(t *testing.T) { s.testKill(t, admin) })
	t.Run("a process that ends by itself starts again", func(t *testing.T) { s.testCrash(t, admin) })
	t.Run("commands name what is wrong", func(t *testing.T) { s.testMistakes(t) })
	t.Run("it serves the older versions of pools", func(t *testing.T) { s.testPools(t, admin) })
	t.Run("KubeVirt and CDI look deployed", func(t *testing.T) { s.testVersions(t) })
	t.Run("every common template is ready", func(t *testing.T) { s.testTemplates(t, admin) })
	s.stop(t)
	if _, err := os.Stat(s.kubeconfig); !os.IsNotExist(err) {
		t.Errorf("after the end %s is there (%v)", s.kubeconfig, err)
	}
}

func adminOf(t *testing.T, kubeconfig string) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // the lists after each page do not wait
	scheme, err := controlplane.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

func (s *sandbox) testHints(t *testing.T) {
	for _, want := range []string{
		"The sandbox is up after", "audit.log", "create rolebinding alice", "policies of the library have the enforcement Audit", "get reports.openreports.io",
		"virtward-sandbox kill virtward-webhook",
	} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, s.out)
		}
	}
	path := strings.Split(s.variable(t, "PATH"), ":")
	for _, program := range []string{"kubectl", "kubectl-virtward", "helm"} {
		if _, err := os.Stat(filepath.Join(path[0], program)); err == nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(path[1], program)); err != nil {
			t.Errorf("%s is in none of %v", program, path)
		}
	}
}

// webhookIs waits until the Deployment and the endpoint of the webhook are ready, or not.
func webhookIs(t *testing.T, admin client.Client, ready bool) {
	t.Helper()
	await.Until(t, func() error {
		d, key := &appsv1.Deployment{}, client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardService}
		if err := admin.Get(t.Context(), key, d); err != nil {
			return err
		}
		if (d.Status.ReadyReplicas == *d.Spec.Replicas) != ready || d.Status.ObservedGeneration != d.Generation {
			return fmt.Errorf("the Deployment has the status %+v", d.Status)
		}
		if address, _ := controlplane.HostAddress(); address == "" { // there are no EndpointSlices without one
			return nil
		}
		list := &discoveryv1.EndpointSliceList{}
		if err := admin.List(t.Context(), list, client.InNamespace(key.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: key.Name}); err != nil {
			return err
		}
		if len(list.Items) != 1 || len(list.Items[0].Endpoints) != 1 || *list.Items[0].Endpoints[0].Conditions.Ready != ready {
			return fmt.Errorf("the EndpointSlices are %+v", list.Items)
		}
		return nil
	})
}

// call sends a command to the sandbox.
func (s *sandbox) call(t *testing.T, words ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := command(t.Context(), s.kubeconfig, words[0], words[1:], &out)
	return out.String(), err
}

// enable runs kubectl virtward enable.
func (s *sandbox) enable(t *testing.T) string {
	t.Helper()
	path := s.variable(t, "PATH")
	enable := exec.CommandContext(t.Context(), filepath.Join(strings.Split(path, ":")[0], "kubectl-virtward"), "enable")
	enable.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	output, err := enable.CombinedOutput()
	if err != nil {
		t.Errorf("enable: %v\n%s", err, output)
	}
	return string(output)
}

func (s *sandbox) testKill(t *testing.T, admin client.Client) {
	webhookIs(t, admin, true)
	if got := s.enable(t); strings.Contains(got, "warning") {
		t.Errorf("enable warns of a ready process:\n%s", got)
	}
	got, err := s.call(t, "kill", controlplane.VirtwardService)
	if want := "virtward-webhook is down until you start it: virtward-sandbox start virtward-webhook\n"; got != want || err != nil {
		t.Errorf("kill answers %q, %v", got, err)
	}
	webhookIs(t, admin, false)
	if address, _ := controlplane.HostAddress(); address != "" {
		if got, want := s.enable(t), "warning: Service virtward-system/virtward-webhook has no ready endpoint"; !strings.Contains(got, want) {
			t.Errorf("enable does not warn:\n%s", got)
		}
	}
	select { // longer than the delay of a restart
	case <-time.After(5 * time.Second):
	case <-t.Context().Done():
	}
	webhookIs(t, admin, false)
	if _, err := s.call(t, "kill", controlplane.VirtwardService); err == nil || err.Error() != "virtward-webhook does not run" {
		t.Errorf("a second kill: %v", err)
	}
	if got, err := s.call(t, "start", controlplane.VirtwardService); got != "virtward-webhook is ready\n" || err != nil {
		t.Errorf("start answers %q, %v", got, err)
	}
	webhookIs(t, admin, true)
	if _, err := s.call(t, "start", controlplane.VirtwardService); err == nil || err.Error() != "virtward-webhook is running already" {
		t.Errorf("a second start: %v", err)
	}
}

func (s *sandbox) testCrash(t *testing.T, admin client.Client) {
	// The processes are children of this one. Another sandbox on this machine has processes with the same words.
	found, err := exec.CommandContext(t.Context(), "pgrep", "-P", strconv.Itoa(os.Getpid()), "-f", "^"+filepath.Join(strings.Split(s.variable(t, "PATH"), ":")[0], "virtward")+" webhook").Output()
	if err != nil {
		t.Skipf("pgrep: %v", err)
	}
	var pid int
	if _, err := fmt.Sscan(string(found), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	webhookIs(t, admin, false)
	webhookIs(t, admin, true)
}

func (s *sandbox) testMistakes(t *testing.T) {
	for words, want := range map[string]string{
		"kill":                     "kill needs the name of one process, such as virtward-webhook",
		"kill webhook":             `there is no process "webhook": the processes are virtward-apiserver, virtward-controller, virtward-images, virtward-rollouts, virtward-templates, virtward-virtualimages, virtward-webhook`,
		"start kube-apiserver":     `there is no process "kube-apiserver": the processes are `,
		"start virtward-webhook x": "start needs the name of one process",
	} {
		if _, err := s.call(t, strings.Fields(words)...); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", words, err, want)
		}
	}
	err := command(t.Context(), filepath.Join(t.TempDir(), "config"), "kill", []string{"virtward-webhook"}, &bytes.Buffer{})
	if want := "KUBECONFIG is not that of a running sandbox: copy the lines that make sandbox prints"; err == nil || err.Error() != want {
		t.Errorf("another kubeconfig: %v", err)
	}
}

func (s *sandbox) testPools(t *testing.T, admin client.Client) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		pool := &unstructured.Unstructured{}
		if err := pool.UnmarshalJSON([]byte(`{"apiVersion":"pool.kubevirt.io/` + version + `","kind":"VirtualMachinePool","metadata":{"namespace":"default","name":"pool-` + version + `"},
			"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"virtualMachineTemplate":{"metadata":{"labels":{"a":"b"}},"spec":{"runStrategy":"Halted","template":{"metadata":{"labels":{"a":"b"}},
			"spec":{"domain":{"memory":{"guest":"1Gi"},"devices":{}}}}}}}}`)); err != nil {
			t.Fatal(err)
		}
		if err := admin.Create(t.Context(), pool); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// testVersions: commands read the versions of both operators.
func (s *sandbox) testVersions(t *testing.T) {
	sh := newShell(t, s)
	for command, want := range map[string]string{
		"kubectl get kubevirts -A -o jsonpath='{.items[*].status.phase} {.items[*].status.observedKubeVirtVersion}'": "Deployed v1.9.0",
		"kubectl get cdis -o jsonpath='{.items[*].status.phase} {.items[*].status.observedVersion}'":                 "Deployed v1.65.0",
	} {
		if got, err := sh.Run(t.Context(), command); got != want || err != nil {
			t.Errorf("$ %s\n%s (%v), want %s", command, got, err, want)
		}
	}
}

// testTemplates installs the chart of templates, as README says: whatever they refer to exists.
func (s *sandbox) testTemplates(t *testing.T, admin client.Client) {
	sh := newShell(t, s)
	if output, err := sh.Run(t.Context(), "helm install catalogue charts/virtward-common-templates -n vm-templates --create-namespace"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	await.Until(t, func() error {
		list := &v1beta1.VirtualMachineTemplateList{}
		if err := admin.List(t.Context(), list, client.InNamespace("vm-templates")); err != nil {
			return err
		}
		if len(list.Items) < len(catalog.Images()) {
			return fmt.Errorf("there are %d templates", len(list.Items))
		}
		for i := range list.Items {
			ready := meta.FindStatusCondition(list.Items[i].Status.Conditions, v1beta1.TemplateReady)
			if ready == nil || ready.Status != metav1.ConditionTrue {
				return fmt.Errorf("the template %s is not ready: %+v", list.Items[i].Name, ready)
			}
		}
		return nil
	})
}

func TestParse(t *testing.T) {
	if _, err := parse([]string{"stop"}); err == nil || err.Error() != `unknown command "stop": it must be kill or start` {
		t.Errorf("got %v", err)
	}
	if _, err := parse([]string{"-help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	if err := dispatch(context.Background(), []string{"kill"}, &bytes.Buffer{}); err == nil || err.Error() != "kill needs the name of one process, such as virtward-webhook" {
		t.Errorf("got %v", err)
	}
}

// TestPolicies: the commands agree with what the enforcement does.
func TestPolicies(t *testing.T) {
	for enforcement, want := range map[string]string{"Deny": "policy exempt POLICY", "Warn": "get reports.openreports.io"} {
		out := &output{}
		(&hints{arguments: arguments{library: enforcement}}).policies(out)
		if !strings.Contains(out.String(), "enforcement "+enforcement) || !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
}
