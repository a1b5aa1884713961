package glances

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Identity is what the middleware of Keystone would tell Glance about the account. Without a project, Glance has no tasks.
var Identity = map[string]string{"X-Identity-Status": "Confirmed", "X-User-Id": "virtward", "X-Project-Id": "images", "X-Roles": "admin,member,reader"}

// Start starts the glance-api of Debian: without Keystone, with a database and a store of files. It returns its URL.
func Start(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a Glance")
	}
	program, err := exec.LookPath("glance-api")
	if err != nil {
		t.Skip("no glance-api: apt-get install glance-api, and the tests run against it too")
	}
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	must(t, listener.Close())
	for _, name := range []string{"images", "staging", "tasks", "etc"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	paste, err := os.ReadFile("/etc/glance/glance-api-paste.ini")
	must(t, err)
	paste = append(paste, "\n[pipeline:glance-api-headers]\npipeline = versionnegotiation context rootapp\n"...)
	must(t, os.WriteFile(filepath.Join(dir, "etc", "glance-api-paste.ini"), paste, 0o600))
	policy := strings.Builder{}
	for _, rule := range []string{"publicize_image", "communitize_image", "add_image", "get_image", "get_images", "modify_image", "delete_image", "upload_image", "deactivate", "tasks_api_access"} {
		fmt.Fprintf(&policy, "%q: \"\"\n", rule)
	}
	must(t, os.WriteFile(filepath.Join(dir, "etc", "policy.yaml"), []byte(policy.String()), 0o600))
	configuration := strings.NewReplacer("DIR", dir, "PORT", fmt.Sprint(port)).Replace(`[DEFAULT]
bind_host = 127.0.0.1
bind_port = PORT
workers = 0
log_file = DIR/glance.log
enabled_import_methods = [glance-direct,web-download]
node_staging_uri = file://DIR/staging
[database]
connection = sqlite:///DIR/glance.sqlite
[glance_store]
stores = file,http
default_store = file
filesystem_store_datadir = DIR/images
[paste_deploy]
flavor = headers
config_file = DIR/etc/glance-api-paste.ini
[oslo_policy]
policy_file = DIR/etc/policy.yaml
enforce_scope = false
enforce_new_defaults = false
[task]
work_dir = DIR/tasks
[import_filtering_opts]
allowed_ports = []
`)
	file := filepath.Join(dir, "glance-api.conf")
	must(t, os.WriteFile(file, []byte(configuration), 0o600))
	if out, err := exec.CommandContext(t.Context(), "glance-manage", "--config-file", file, "db_sync").CombinedOutput(); err != nil {
		t.Fatalf("creating the database: %v: %s", err, out)
	}
	process := exec.Command(program, "--config-file", file)
	process.Dir, process.SysProcAttr = dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "glance.log"))
			t.Logf("the log of Glance ends with:\n%s", log[max(0, len(log)-6000):])
		}
	})
	endpoint := fmt.Sprintf("http://127.0.0.1:%d/", port)
	for deadline := time.Now().Add(90 * time.Second); ; {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint+"v2/images", nil)
		must(t, err)
		for name, value := range Identity {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return endpoint
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("Glance does not start: %v", err)
		}
		<-time.After(200 * time.Millisecond)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
