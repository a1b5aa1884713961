package controlplane

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		replicas    *int32
		ready       int32
		want        int32
		unavailable int32
		available   corev1.ConditionStatus
	}{
		{nil, 1, 1, 0, corev1.ConditionTrue},
		{nil, 0, 0, 1, corev1.ConditionFalse},
		{new(int32(2)), 2, 2, 0, corev1.ConditionTrue},
		{new(int32(2)), 1, 1, 1, corev1.ConditionFalse},
		{new(int32(4)), 3, 3, 1, corev1.ConditionTrue},
		{new(int32(1)), 3, 1, 0, corev1.ConditionTrue},
		{new(int32(0)), 0, 0, 0, corev1.ConditionTrue},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: appsv1.DeploymentSpec{Replicas: c.replicas}}
		got := statusOf(d, c.ready)
		if got.ReadyReplicas != c.want || got.AvailableReplicas != c.want || got.UnavailableReplicas != c.unavailable || got.ObservedGeneration != 7 ||
			len(got.Conditions) != 2 || got.Conditions[0].Type != appsv1.DeploymentAvailable || got.Conditions[0].Status != c.available {
			t.Errorf("%d ready: %+v", c.ready, got)
		}
		d.Status = got
		if again := statusOf(d, c.ready); !equality.Semantic.DeepEqual(got, again) {
			t.Errorf("a second status differs:\n%s", cmp.Diff(got, again))
		}
	}
}

// TestSelectorIsKept: the EndpointSlices of a Service that points at this machine need its selector.
func TestSelectorIsKept(t *testing.T) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "a"}}}
	patch, err := localhostPatch(service)
	want := `{"metadata":{"annotations":{"sandbox.virtward.io/selector":"{\"app\":\"a\"}"}},"spec":{"externalName":"localhost","selector":null,"type":"ExternalName"}}`
	if string(patch) != want || err != nil {
		t.Errorf("the patch is %s (%v)", patch, err)
	}
	service.Annotations, service.Spec.Selector = map[string]string{selectorAnnotation: `{"app":"a"}`}, nil
	if diff := cmp.Diff(map[string]string{"app": "a"}, selectorOf(service)); diff != "" {
		t.Errorf("the selector differs (-want +got):\n%s", diff)
	}
	patch, err = localhostPatch(service) // the note stays
	if want := `{"spec":{"externalName":"localhost","selector":null,"type":"ExternalName"}}`; string(patch) != want || err != nil {
		t.Errorf("the second patch is %s (%v)", patch, err)
	}
	if got := selectorOf(&corev1.Service{}); len(got) > 0 {
		t.Errorf("the selector of a Service without one is %v", got)
	}
}

func TestSliceFor(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
			{Name: "named", Port: 443, TargetPort: intstr.FromString("https")}, {Name: "number", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "same", Port: 90},
		}},
	}
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 9443}}}}
	slice := sliceFor(service, d, discoveryv1.AddressTypeIPv4)
	got := map[string]int32{}
	for _, port := range slice.Ports {
		got[*port.Name] = *port.Port
	}
	if diff := cmp.Diff(map[string]int32{"named": 9443, "number": 8080, "same": 90}, got); diff != "" {
		t.Errorf("the ports differ (-want +got):\n%s", diff)
	}
	if slice.Name != "web-sandbox" || slice.Labels[discoveryv1.LabelServiceName] != "web" {
		t.Errorf("the slice is %+v", slice.ObjectMeta)
	}
}

// TestRestartDelays: a process that ends at once again and again starts later and later, and one that ran for long soon.
func TestRestartDelays(t *testing.T) {
	starter := newStarter()
	defer starter.stop()
	v := &Virtward{controlPlane: &ControlPlane{starter: starter}, command: command{name: "true", path: "/bin/true", log: t.TempDir() + "/log"}}
	if _, err := v.launch(); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ends := func() { <-v.process.done }
	starts := func(after time.Duration) bool {
		before := v.process
		v.restart(now.Add(after))
		return v.process != before
	}
	for _, delay := range []time.Duration{3 * time.Second, 6 * time.Second, 12 * time.Second, 24 * time.Second, 48 * time.Second, time.Minute, time.Minute} {
		ends()
		if starts(0) || starts(delay-time.Millisecond) {
			t.Errorf("it starts before %s", delay)
		}
		if !starts(delay) {
			t.Errorf("it does not start after %s", delay)
		}
		now = now.Add(delay)
	}
	ends()
	now = now.Add(time.Hour)
	if starts(0) || !starts(3*time.Second) {
		t.Error("after an hour, it does not start after 3s")
	}
	ends()
	v.held = true
	if starts(0) || starts(time.Hour) {
		t.Error("a process that was killed on purpose starts")
	}
}

// TestReturnToLead: a process that lost its Lease starts again, and one that ends for another reason stays down.
func TestReturnToLead(t *testing.T) {
	starter := newStarter()
	defer starter.stop()
	for name, c := range map[string]struct {
		says string
		held bool
		want bool
	}{
		"it lost its Lease":                  {says: "virtward: leader election lost", want: true},
		"it fails":                           {says: "panic: boom"},
		"it lost its Lease, and was stopped": {says: "virtward: leader election lost", held: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Virtward{controlPlane: &ControlPlane{starter: starter}, command: command{name: "sh", path: "/bin/sh", args: []string{"-c", "echo '" + c.says + "'; exit 1"}, log: t.TempDir() + "/log"}}
			if _, err := v.launch(); err != nil {
				t.Fatal(err)
			}
			before := v.process
			<-before.done
			v.held = c.held
			v.returnToLead()
			if again := v.process != before; again != c.want {
				t.Errorf("it starts again: %t, want %t", again, c.want)
			}
			<-v.process.done
		})
	}
}
