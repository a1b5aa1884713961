package status

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/texts"
)

const (
	// defaultHome is the namespace of an installation whose webhooks do not name it.
	defaultHome = "virtward-system"
	// podTimeout bounds the request to one pod.
	podTimeout = 5 * time.Second
	// maxAnswer bounds what is read of a pod, in bytes.
	maxAnswer = 64 << 10
)

// home returns the namespace of the installation: that of the Service which the webhooks call.
func (c *cluster) home(ctx context.Context) string {
	for _, kind := range killswitch.Kinds() {
		objects, err := killswitch.List(ctx, c.client, kind)
		if err != nil || !kind.Webhook {
			continue
		}
		for i := range objects {
			for _, webhook := range killswitch.Conditioned(&objects[i]) {
				if namespace, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "namespace"); namespace != "" {
					return namespace
				}
			}
		}
	}
	return defaultHome
}

// processes reports for each Deployment whether its replicas are ready, and asks each pod. One that every installation has is an
// error if it is missing.
func (c *cluster) processes(ctx context.Context) []Result {
	home := c.home(ctx)
	deployments, err := c.list(ctx, appsv1.SchemeGroupVersion.WithResource("deployments"), home, killswitch.PartOf)
	switch {
	case err != nil:
		return []Result{unknown("Deployments", err)}
	case len(deployments) == 0:
		return []Result{{Subject: "Deployments", State: Error, Message: "the namespace " + home + " has no Deployment of Virtward", Remedy: "upgrade the release"}}
	}
	found := make([]Result, len(deployments))
	var running sync.WaitGroup
	for i := range deployments {
		running.Go(func() { found[i] = c.process(ctx, &deployments[i]) })
	}
	running.Wait()
	return slices.Concat(found, withoutDeployment(deployments, home))
}

// withoutDeployment reports the processes that the chart always installs, and that have no Deployment.
func withoutDeployment(deployments []unstructured.Unstructured, home string) (results []Result) {
	for _, p := range processes.All() {
		if p.Job || p.Daemon || p.Switch != "" || slices.ContainsFunc(deployments, func(d unstructured.Unstructured) bool { return d.GetName() == p.Name }) {
			continue
		}
		results = append(results, Result{Subject: p.Name, State: Error, Message: "the namespace " + home + " has no such Deployment: the process " + p.Purpose, Remedy: "upgrade the release"})
	}
	return results
}

// process reports the state of one Deployment.
func (c *cluster) process(ctx context.Context, object *unstructured.Unstructured) Result {
	r := Result{Subject: object.GetName(), State: OK}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
		r.State, r.Message = Unknown, "cannot be read: "+err.Error()
		return r
	}
	wanted, ready := 1, int(deployment.Status.ReadyReplicas)
	if deployment.Spec.Replicas != nil {
		wanted = int(*deployment.Spec.Replicas)
	}
	r.Message = fmt.Sprintf("%d of %d replicas are ready", ready, wanted)
	switch {
	case wanted == 0:
		r.State, r.Message, r.Remedy = Warning, "scaled to 0", "kubectl scale deployment "+r.Subject+" --namespace "+object.GetNamespace()+" --replicas 1"
		return r
	case ready == 0:
		r.State = Error
	case ready < wanted:
		r.State = Warning
	}
	pods, notes, state := c.asked(ctx, deployment)
	r.State = worst(r.State, state)
	if row, known := processes.Find(r.Subject); known && r.State == Error {
		notes = append(notes, "the process "+row.Purpose)
	}
	if pods > 0 {
		notes = append([]string{texts.Count(pods, "pod answers", "pods answer")}, notes...)
	}
	r.Message = strings.Join(append([]string{r.Message}, notes...), "; ")
	if r.State == Error || r.State == Warning {
		r.Remedy = "kubectl describe pods --namespace " + object.GetNamespace() + " --selector app.kubernetes.io/component=" + object.GetLabels()["app.kubernetes.io/component"]
	}
	return r
}

// asked asks the pods of a Deployment whether they are ready, through the API server. It returns the number of those that are, and
// what the others lack. Without one that is ready, the process does not work.
func (c *cluster) asked(ctx context.Context, deployment *appsv1.Deployment) (ready int, notes []string, state State) {
	selector := metav1.FormatLabelSelector(deployment.Spec.Selector)
	pods, err := c.list(ctx, corev1.SchemeGroupVersion.WithResource("pods"), deployment.Namespace, selector)
	if err != nil {
		return 0, []string{"no pod was called: " + err.Error()}, OK
	}
	state = OK
	for i := range pods {
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pods[i].Object, pod); err != nil || pod.DeletionTimestamp != nil {
			continue
		}
		port := healthPort(pod)
		if port == 0 || pod.Status.Phase != corev1.PodRunning {
			continue // the Deployment counts it as not ready
		}
		note, answers := c.ask(ctx, pod, port)
		switch {
		case answers && note == "":
			ready++
		case answers:
			state = Warning
			notes = append(notes, "pod "+pod.Name+": "+note)
		default: // so it is for the others
			return ready, append(notes, "not all pods were called: "+note), state
		}
	}
	if state == Warning && ready == 0 {
		state = Error
	}
	return ready, notes, state
}

// healthPort returns the port named health of a pod.
func healthPort(pod *corev1.Pod) int32 {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == "health" {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// ask returns what a pod lacks to be ready, and whether it answers.
func (c *cluster) ask(ctx context.Context, pod *corev1.Pod, port int32) (note string, answers bool) {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	answer, err := c.raw(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/readyz", pod.Namespace, pod.Name, port))
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(answer, maxAnswer))
		_ = answer.Close() // it was read
	}
	switch {
	case err == nil:
		return "", true
	case apierrors.IsForbidden(err):
		return "not permitted: get pods/proxy in the namespace " + pod.Namespace, false
	case apierrors.IsInternalError(err): // the answer of the pod; the API server says 503 if it does not reach one
		return err.Error(), true
	}
	return "the API server does not reach pod " + pod.Name + ": " + err.Error(), false
}
