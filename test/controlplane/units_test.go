package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/virtward/virtward/test/ports"
)

// none is no definition at all, which is quicker where they do not matter.
var none = []*apiextensionsv1.CustomResourceDefinition{}

// skipShort is planes.Skip, which this package cannot import.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a control plane")
	}
}

func TestAFailedStartShowsTheLogAndLeavesNothing(t *testing.T) {
	skipShort(t)
	parent := t.TempDir()
	_, err := Start(t.Context(), Options{Parent: parent, CRDs: none, APIServerArgs: []string{"--no-such-flag"}})
	if err == nil {
		t.Fatal("a control plane started with a flag that does not exist")
	}
	for _, want := range []string{"kube-apiserver ended", "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(parent, homePrefix+"*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAMissingBinaryIsNamed(t *testing.T) {
	_, err := Start(t.Context(), Options{Root: "/nowhere", Parent: t.TempDir(), CRDs: none})
	if want := "starting etcd: fork/exec /nowhere/bin/" + components() + "/etcd: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSweepSparesWhatIsInUse(t *testing.T) {
	parent := t.TempDir()
	used, err := newHome(parent)
	if err != nil {
		t.Fatal(err)
	}
	stale, err := newHome(parent)
	if err != nil {
		t.Fatal(err)
	}
	_ = stale.lock.Close() // as the kernel does when the owner dies
	fresh := filepath.Join(parent, homePrefix+"fresh")
	old := filepath.Join(parent, homePrefix+"old")
	foreign := filepath.Join(parent, "another-user")
	for _, folder := range []string{fresh, old, foreign} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * grace)
	for _, folder := range []string{old, foreign} {
		if err := os.Chtimes(folder, past, past); err != nil {
			t.Fatal(err)
		}
	}
	sweep(parent)
	for folder, want := range map[string]bool{used.path: true, stale.path: false, fresh: true, old: false, foreign: true} {
		if _, err := os.Stat(folder); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", filepath.Base(folder), err == nil, want)
		}
	}
}

func TestReplaceFilesShowsOneStateAtATime(t *testing.T) {
	folder := t.TempDir()
	states := []map[string][]byte{
		{"tls.crt": []byte("1"), "tls.key": []byte("1")},
		{"tls.crt": []byte("2"), "ca.crt": []byte("2")},
		{},
	}
	for _, state := range states {
		if err := replaceFiles(folder, state); err != nil {
			t.Fatal(err)
		}
		got := map[string][]byte{}
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), "..") {
				content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
				if err != nil {
					t.Fatal(err)
				}
				got[entry.Name()] = content
			}
		}
		if diff := cmp.Diff(state, got); diff != "" {
			t.Errorf("the folder differs (-want +got):\n%s", diff)
		}
		if len(entries) != len(state)+2 { // ..data and the folder that it points to
			t.Errorf("%d entries for %d files: old ones are left", len(entries), len(state))
		}
	}
}

func TestPathsOfTheContainerBecomePathsHere(t *testing.T) {
	list := []*mount{{mountPath: "/certs/extra", folder: "/home/b"}, {mountPath: "/certs", folder: "/home/a"}}
	for word, want := range map[string]string{
		"--cert-dir=/certs":            "--cert-dir=/home/a",
		"/certs/tls.crt":               "/home/a/tls.crt",
		"--extra=/certs/extra/x":       "--extra=/home/b/x",
		"--other=/certs2":              "--other=/certs2",
		"--prefixed=/etc/certs":        "--prefixed=/etc/certs",
		"--readable=certificates here": "--readable=certificates here",
	} {
		if got := onThisMachine(word, list); got != want {
			t.Errorf("%s became %s, want %s", word, got, want)
		}
	}
}

func examplePod() podOf {
	container := corev1.Container{
		Name: "webhook",
		Env: []corev1.EnvVar{
			{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
			{Name: "GOMEMLIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}},
			{Name: "GOMAXPROCS", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
			{Name: "SERVICE", Value: "virtward.$(POD_NAMESPACE).svc $(UNKNOWN)"},
		},
		Ports:          []corev1.ContainerPort{{Name: "health", ContainerPort: 8081}},
		ReadinessProbe: &corev1.Probe{},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("128Mi"), corev1.ResourceCPU: resource.MustParse("1500m"),
		}},
	}
	container.ReadinessProbe.HTTPGet = &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("health")}
	return podOf{
		deployment: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "virtward-system", Name: "virtward"}},
		container:  container,
	}
}

func TestVariablesAreThoseOfAPod(t *testing.T) {
	got, _, err := examplePod().variables(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POD_NAMESPACE=virtward-system", "GOMEMLIMIT=134217728", "GOMAXPROCS=2", "SERVICE=virtward.virtward-system.svc $(UNKNOWN)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the environment differs (-want +got):\n%s", diff)
	}
}

func TestTheProbeFollowsTheDeployment(t *testing.T) {
	pod := examplePod()
	if got, err := probe(pod.container); got != "http://127.0.0.1:8081/readyz" || err != nil {
		t.Errorf("got %s (%v)", got, err)
	}
	pod.container.Ports[0].Name = "other"
	_, err := probe(pod.container)
	if want := `the readiness probe's port "health" is not a port of container webhook`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAVolumeThatCannotBeMountedIsNamed(t *testing.T) {
	pod := corev1.PodSpec{Volumes: []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}}
	container := corev1.Container{Name: "webhook", VolumeMounts: []corev1.VolumeMount{{Name: "disk", MountPath: "/host"}}}
	list, err := mounts(pod, container, "ns", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = list[0].sync(t.Context(), nil)
	if want := "the sandbox cannot mount the volume at /host: only secret, configMap and emptyDir"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	container.VolumeMounts[0].Name = "gone"
	_, err = mounts(pod, container, "ns", t.TempDir())
	if want := `container webhook mounts volume "gone", which the pod does not have`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestItemsSelectTheFilesOfAVolume(t *testing.T) {
	content := map[string][]byte{"tls.crt": []byte("1"), "ca.key": []byte("secret")}
	for name, tt := range map[string]struct {
		items    []corev1.KeyToPath
		want     map[string][]byte
		complete bool
	}{
		"no items":          {want: content, complete: true},
		"a key by its path": {items: []corev1.KeyToPath{{Key: "tls.crt", Path: "cert.pem"}}, want: map[string][]byte{"cert.pem": []byte("1")}, complete: true},
		"a key that is not there": {
			items: []corev1.KeyToPath{{Key: "tls.crt", Path: "tls.crt"}, {Key: "tls.key", Path: "tls.key"}},
			want:  map[string][]byte{"tls.crt": []byte("1")},
		},
	} {
		got, complete := selected(content, tt.items)
		if diff := cmp.Diff(tt.want, got); diff != "" || complete != tt.complete {
			t.Errorf("%s: complete %t; the files differ (-want +got):\n%s", name, complete, diff)
		}
	}
}

func TestThePortsOfOurChartAreFree(t *testing.T) {
	reserved, err := ports.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reserved.Release)
	given := map[string]any{"webhook": map[string]any{"timeoutSeconds": 5}, "replicas": 1}
	chart, err := (&ControlPlane{ports: reserved}).VirtwardChart(given)
	if err != nil {
		t.Fatal(err)
	}
	webhook, _ := chart.Values["webhook"].(map[string]any)
	if webhook["timeoutSeconds"] != 5 || webhook["port"] != webhook["servicePort"] || chart.Values["replicas"] != 1 {
		t.Errorf("the values are %v", chart.Values)
	}
	if len(given["webhook"].(map[string]any)) != 1 {
		t.Errorf("the caller's values were changed: %v", given)
	}
}
