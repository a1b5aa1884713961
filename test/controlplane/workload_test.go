package controlplane

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// asWorkload is the environment variable with which the test's binary runs as the container of testdata/chart.
const asWorkload = "SANDBOX_WORKLOAD=1"

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asWorkload) {
		if err := workload(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "workload:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// workload serves /readyz, its user name at the API server at /user, and the mounted greeting.
func workload(words []string) error {
	set := flag.NewFlagSet("workload", flag.ContinueOnError)
	listen := set.String("listen", "", "")
	greeting := set.String("greeting", "", "")
	namespace := set.String("namespace", "", "")
	if err := set.Parse(words); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/user", func(w http.ResponseWriter, r *http.Request) {
		review := &authenticationv1.SelfSubjectReview{}
		err := api.Create(r.Context(), review)
		fmt.Fprint(w, *namespace, " ", review.Status.UserInfo.Username, " ", err)
	})
	http.HandleFunc("/greeting", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, *greeting) })
	fmt.Println("workload starts")
	return http.ListenAndServe(*listen, nil) //nolint:gosec // a test's own server
}

func TestWorkload(t *testing.T) {
	skipShort(t)
	c, err := Start(t.Context(), Options{Parent: t.TempDir(), CRDs: none, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	port, err := c.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	chart := Chart{
		Dir: "test/controlplane/testdata/chart", Release: "release", Namespace: "work",
		Values: map[string]any{"port": port, "greeting": "hello"},
	}
	if err := c.InstallChart(t.Context(), chart); err != nil {
		t.Fatal(err)
	}
	v, err := c.RunVirtward(t.Context(), Workload{Namespace: "work", Binary: os.Args[0], Env: []string{asWorkload}})
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("http://127.0.0.1:%d", port)

	t.Run("the process is the Deployment's container", func(t *testing.T) { testIdentity(t, v, address) })
	t.Run("a changed Secret reaches the volume", func(t *testing.T) { testMountedSecret(t, c, chart, address) })
	t.Run("killed and started again", func(t *testing.T) { testRestart(t, v, address) })
	t.Run("a Service becomes a name for this machine", func(t *testing.T) { testService(t, c) })
	t.Run("the audit log tells who did what", func(t *testing.T) { testAudit(t, c) })
	t.Run("a chart that fails is explained", func(t *testing.T) { testBadChart(t, c) })
	t.Run("the process ends with the control plane", func(t *testing.T) {
		pid := v.PID()
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		if pid == 0 || syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d still runs", pid)
		}
	})
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return string(body)
}

func testIdentity(t *testing.T, v *Virtward, address string) {
	if got, want := get(t, address+"/user"), "work system:serviceaccount:work:workload <nil>"; got != want {
		t.Errorf("the workload is %s, want %s", got, want)
	}
	if got := get(t, address+"/greeting"); got != "hello" {
		t.Errorf("the mounted greeting is %q, want hello", got)
	}
	if want := "--namespace=work"; !slices.Contains(v.Args(), want) {
		t.Errorf("the arguments are %v, without %s", v.Args(), want)
	}
}

func testMountedSecret(t *testing.T, c *ControlPlane, chart Chart, address string) {
	chart.Values["greeting"] = "goodbye"
	if err := c.InstallChart(t.Context(), chart); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the volume follows the Secret", func(context.Context) error {
		if got := get(t, address+"/greeting"); got != "goodbye" {
			return fmt.Errorf("the greeting is %q", got)
		}
		return nil
	})
}

func testRestart(t *testing.T, v *Virtward, address string) {
	before := v.PID()
	v.Kill()
	if v.PID() != 0 {
		t.Error("the killed process still runs")
	}
	if err := v.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := v.Start(t.Context()); err == nil || err.Error() != "workload is running already" {
		t.Errorf("a second start: %v", err)
	}
	if err := v.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := v.PID(); after == 0 || after == before {
		t.Errorf("process %d after %d", after, before)
	}
	if got := get(t, address+"/greeting"); got != "goodbye" {
		t.Errorf("after the restart the greeting is %q", got)
	}
	log, err := os.ReadFile(v.Log())
	if got := strings.Count(string(log), "workload starts"); got != 3 || err != nil {
		t.Errorf("the log shows %d starts (%v), want 3:\n%s", got, err, log)
	}
}

func testService(t *testing.T, c *ControlPlane) {
	if err := c.PointServiceAtLocalhost(t.Context(), "work", "workload"); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{}
	if err := c.Client().Get(t.Context(), client.ObjectKey{Namespace: "work", Name: "workload"}, service); err != nil {
		t.Fatal(err)
	}
	if service.Spec.Type != corev1.ServiceTypeExternalName || service.Spec.ExternalName != "localhost" || service.Spec.ClusterIP != "" {
		t.Errorf("the Service is %+v", service.Spec)
	}
	err := c.PointServiceAtLocalhost(t.Context(), "work", "gone")
	if want := `pointing Service work/gone at localhost: services "gone" not found`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func testAudit(t *testing.T, c *ControlPlane) {
	eventually(t, "the audit log has the workload's review", func(context.Context) error {
		log, err := os.ReadFile(c.AuditLog())
		if err != nil {
			return err
		}
		if !strings.Contains(string(log), `"username":"system:serviceaccount:work:workload"`) {
			return fmt.Errorf("%d bytes without it", len(log))
		}
		return nil
	})
}

func testBadChart(t *testing.T, c *ControlPlane) {
	err := c.InstallChart(t.Context(), Chart{Dir: t.TempDir(), Release: "bad", Namespace: "work"})
	if err == nil || !strings.HasPrefix(err.Error(), "helm upgrade: ") || !strings.Contains(err.Error(), "Chart.yaml") {
		t.Errorf("got %v", err)
	}
	_, err = c.RunVirtward(t.Context(), Workload{Namespace: "default", Binary: filepath.Join(t.TempDir(), "none")})
	if want := "namespace default has 0 Deployments (): name one"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
