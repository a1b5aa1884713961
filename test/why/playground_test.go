package why

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/cli/playground/answers"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

// recorder forwards the requests of a user to the API server, and records them.
type recorder struct {
	mutex sync.Mutex
	sent  []string
}

// record starts a server for a user, and returns a kubeconfig that names it and has no credentials.
func record(t *testing.T, plane *controlplane.ControlPlane, user string, config *rest.Config) (*recorder, string) {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mutex.Lock()
		r.sent = append(r.sent, request.Method+" "+request.URL.String())
		r.mutex.Unlock()
		forward.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	kubeconfig, err := plane.WriteKubeconfig("playground-"+user, &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return r, kubeconfig
}

// take returns the requests since it was called before, sorted.
func (r *recorder) take() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	sent := r.sent
	r.sent = nil
	slices.Sort(sent)
	return sent
}

// page is the page of a playground, as a browser uses it.
type page struct {
	t       *testing.T
	address string
	key     string
	cookies []*http.Cookie
	// end ends the command, and returns what it wrote to the standard error.
	end func() string
}

var pageLink = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/#token=(\w+)`)

// written are the bytes that a running command wrote.
type written struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.buffer.Write(p)
}

func (w *written) String() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.buffer.String()
}

// openPage runs the command, and opens its link.
func openPage(t *testing.T, args ...string) *page {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out, errOut written
	ended := make(chan int, 1)
	go func() {
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}
		ended <- cli.Run(ctx, "development", append([]string{"/usr/local/bin/kubectl-virtward", "playground"}, args...), streams)
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	p := &page{t: t, end: func() string {
		stop()
		return errOut.String()
	}}
	token := ""
	await.Until(t, func() error {
		link := pageLink.FindStringSubmatch(out.String())
		if link == nil {
			return fmt.Errorf("no link: %s%s", out.String(), errOut.String())
		}
		p.address, token = link[1], link[2]
		return nil
	})
	var session struct{ Key string }
	p.send(http.MethodPost, "/session", map[string]string{"token": token}, &session)
	p.key = session.Key
	return p
}

// send sends a request with the session, and decodes the response.
func (p *page) send(method, path string, body, into any) {
	p.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.address+path, bytes.NewReader(data))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Origin", p.address)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("Virtward-Playground-Key", p.key)
	for _, cookie := range p.cookies {
		request.AddCookie(cookie)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		p.t.Fatalf("%s %s: %d: %s", method, path, response.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		p.t.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	p.cookies = append(p.cookies, response.Cookies()...)
}

// played are the objects of a namespace and of the cluster, and a Secret that the command must not read.
const played = `
{apiVersion: v1, kind: Namespace, metadata: {name: played, labels: {team: blue}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: users, namespace: played}, stringData: {password: hunter2}}
---
{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterInstancetype, metadata: {name: played.medium}, spec: {cpu: {guest: 2}, memory: {guest: 4Gi}}}
---
{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachinePreference, metadata: {name: fedora, namespace: played}, spec: {devices: {preferredDiskBus: virtio}}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: db, namespace: played}
spec:
  runStrategy: Halted
  instancetype: {name: played.medium}
  preference: {name: fedora, kind: VirtualMachinePreference}
  template:
    spec:
      domain: {devices: {disks: [{name: root}]}}
      volumes:
      - {name: root, containerDisk: {image: quay.io/containerdisks/fedora:42}}
      - {name: init, cloudInitNoCloud: {userData: "password: hunter2"}}
---
{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachineDefaults, metadata: {name: evictions}, spec: {template: {evictionStrategy: LiveMigrate}}}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: two-gibibytes}
spec:
  enforcement: Deny
  validations: [{expression: "quantity(vm.spec.domain.memory.guest).compareTo(quantity('2Gi')) <= 0", message: at most 2Gi, fieldPath: spec.domain.memory.guest}]
`

// TestPlayground: playground begins with copies of what the user may read. Each request lists or gets, also while the page is used, and
// no file is written.
func TestPlayground(t *testing.T) {
	plane := shared.Start(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(home)
	for document := range strings.SplitSeq(played, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		create(t, plane.Client(), object)
	}
	create(
		t, plane.Client(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "played", Name: "viewer"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines"}, Verbs: []string{"list"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "played", Name: "viewer"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "viewer"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "vera"}}},
	)

	lists := []string{
		"GET /api/v1/namespaces/played",
		"GET /apis/kubevirt.io/v1/kubevirts?limit=100",
		"GET /apis/kubevirt.io/v1/namespaces/played/virtualmachines?limit=20",
		"GET /apis/policy.virtward.io/v1alpha1/namespaces/played/virtualmachinepolicyexceptions?limit=100",
		"GET /apis/policy.virtward.io/v1alpha1/rulesettings?limit=100",
		"GET /apis/policy.virtward.io/v1alpha1/virtualmachinedefaults?limit=100",
		"GET /apis/policy.virtward.io/v1alpha1/virtualmachinepolicies?limit=100",
	}
	references := []string{
		"GET /apis/instancetype.kubevirt.io/v1beta1/namespaces/played/virtualmachinepreferences/fedora",
		"GET /apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes/played.medium",
	}
	requests := func(user string, r *recorder, want ...[]string) {
		t.Helper()
		all := slices.Concat(want...)
		slices.Sort(all)
		if got := r.take(); !slices.Equal(got, all) {
			t.Errorf("%s: the requests are\n%s\nwant\n%s", user, strings.Join(got, "\n"), strings.Join(all, "\n"))
		}
	}
	userConfig := func(name string) *rest.Config {
		config, err := plane.UserConfig(name)
		if err != nil {
			t.Fatal(err)
		}
		return config
	}

	t.Run("a user without rights", func(t *testing.T) {
		r, kubeconfig := record(t, plane, "gil", userConfig("gil"))
		got := clitest.Call(t, "", "playground", "--from-cluster", "-n", "played", "--kubeconfig", kubeconfig)
		if got.Code != clitest.ExitFailed || got.Out != "" {
			t.Errorf("%+v", got)
		}
		for _, want := range []string{
			"note: not read: you may not read virtualmachines.kubevirt.io in namespace played\n",
			"note: not read: you may not read virtualmachinepolicies.policy.virtward.io\n",
			"error: --from-cluster: nothing could be read of the cluster and its namespace played: use files with -f, or another namespace with -n\n",
		} {
			if !strings.Contains(got.ErrOut, want) {
				t.Errorf("no %q in\n%s", want, got.ErrOut)
			}
		}
		requests("gil", r, lists)
	})

	t.Run("a user who may list virtual machines", func(t *testing.T) {
		r, kubeconfig := record(t, plane, "vera", userConfig("vera"))
		p := openPage(t, "--from-cluster", "-n", "played", "--kubeconfig", kubeconfig)
		start, answer := p.begin()
		if len(start.Files) != 1 || start.Files[0].Name != "cluster-vms.yaml" {
			t.Errorf("%+v", start.Files)
		}
		notes := strings.Join(start.Notes, "\n")
		for _, want := range []string{
			"not read: you may not read virtualmachineclusterinstancetypes.instancetype.kubevirt.io played.medium",
			"not read: you may not read virtualmachinepreferences.instancetype.kubevirt.io fedora in namespace played",
			"not read: you may not read namespaces played", "not read: you may not read kubevirts.kubevirt.io",
		} {
			if !strings.Contains(notes, want) {
				t.Errorf("no %q in\n%s", want, notes)
			}
		}
		if !strings.Contains(answer, "played.medium") || strings.Contains(answer, "at most 2Gi") {
			t.Errorf("the answer is %s", answer)
		}
		requests("vera", r, lists, references)
		if errOut := p.end(); !strings.Contains(errOut, "note: not read: you may not read namespaces played\n") {
			t.Errorf("the notes are\n%s", errOut)
		}
	})

	t.Run("an administrator", func(t *testing.T) {
		r, kubeconfig := record(t, plane, "admin", plane.Config())
		p := openPage(t, "--from-cluster", "-n", "played", "--kubeconfig", kubeconfig)
		start, answer := p.begin()
		content := map[string]string{}
		for _, f := range start.Files {
			content[f.Name] = f.Text
		}
		for name, parts := range map[string][]string{
			"cluster-vms.yaml":      {"kind: VirtualMachine\n", "name: db", "name: played.medium"},
			"cluster-objects.yaml":  {"team: blue", "kind: VirtualMachineClusterInstancetype", "guest: 4Gi", "kind: VirtualMachinePreference", "preferredDiskBus: virtio"},
			"cluster-policies.yaml": {"kind: VirtualMachineDefaults", "evictionStrategy: LiveMigrate", "kind: VirtualMachinePolicy\n", "name: two-gibibytes"},
		} {
			for _, part := range parts {
				if !strings.Contains(content[name], part) {
					t.Errorf("%s has no %q:\n%s", name, part, content[name])
				}
			}
		}
		for name, text := range content {
			for _, part := range []string{"hunter2", "managedFields", "resourceVersion", "uid:"} {
				if strings.Contains(text, part) {
					t.Errorf("%s has %q:\n%s", name, part, text)
				}
			}
		}
		for _, part := range []string{`"instancetype/played.medium"`, `"preference/fedora"`, `"site/evictions"`, "at most 2Gi"} {
			if !strings.Contains(answer, part) {
				t.Errorf("no %q in the answer:\n%s", part, answer)
			}
		}
		requests("admin", r, lists, references)
		if want := []string{"left out: spec.template.spec.volumes[1].cloudInitNoCloud.userData of VirtualMachine db"}; !slices.Equal(start.Notes, want) {
			t.Errorf("the notes are %q", start.Notes)
		}
		p.end()
	})

	files, err := os.ReadDir(home)
	if err != nil || len(files) > 0 {
		t.Errorf("the command wrote files: %v %v", files, err)
	}
}

// begin returns what the page begins with, and the answer for these files.
func (p *page) begin() (answers.Start, string) {
	p.t.Helper()
	var start answers.Start
	p.send(http.MethodGet, "/start", nil, &start)
	var answer json.RawMessage
	p.send(http.MethodPost, "/answer", answers.Question{Files: start.Files, Platforms: []answers.Platform{{}}}, &answer)
	return start, string(answer)
}
