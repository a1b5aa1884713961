package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/test/catalog"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/ports"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/soak"
)

// TestSoakSignatures: only a soak finds that a changed byte of an artifact, a statement or a bundle is accepted, because Sigstore's
// libraries take a minute to compile.
func TestSoakSignatures(t *testing.T) {
	soak.Only(t)
	folder, platform := built(t)
	d := build(t, folder, platform)
	key := sign(t, d)
	verify := func() (string, error) {
		output, err := exec.CommandContext(t.Context(), tool(t, "tools", "signing"), "verify", "-key", key, d.folder).CombinedOutput()
		return string(output), err
	}
	if output, err := verify(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	cli := fmt.Sprintf("kubectl-virtward_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{
		cli, cli + ".spdx.json", cli + ".cdx.json", cli + ".sigstore.json", "virtward_" + version + ".oci.tar", "virtward-0.1.0.tgz",
		"virtward-0.1.0.tgz.intoto.json", "install.yaml", "virtward.krew.yaml", "CHANGELOG.md", "INSTALL.md", "references.json", "checksums.txt",
		"provenance.intoto.json", "provenance.intoto.json.sigstore.json",
	} {
		restore := flip(t, d.file(name))
		if output, err := verify(); err == nil {
			t.Errorf("a changed byte of %s is accepted: %s", name, output)
		}
		restore()
	}
	if err := os.WriteFile(d.file("malware"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := verify(); err == nil || !strings.Contains(output, "nothing signed names malware") {
		t.Errorf("a file that nothing covers: %v\n%s", err, output)
	}
	if err := os.Remove(d.file("malware")); err != nil {
		t.Fatal(err)
	}
	if output, err := verify(); err != nil {
		t.Fatalf("with the bytes as they were: %v\n%s", err, output)
	}
	other := filepath.Join(t.TempDir(), "other")
	run(t, "openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", other)
	run(t, "openssl", "ec", "-in", other, "-pubout", "-out", other+".pub")
	key = other + ".pub"
	if output, err := verify(); err == nil {
		t.Errorf("the key of others is accepted: %s", output)
	}
}

// sign signs a release with a key of its own, and returns the file of the public key.
func sign(t *testing.T, d *dist) string {
	t.Helper()
	run(t, tool(t, "tools", "signing"), "sign", "-key", filepath.Join(t.TempDir(), "release.key"), d.folder)
	return d.file("cosign.pub")
}

// TestSoakReproducible: only a soak finds that two builds of a commit differ, because both compile everything: from clones in
// different folders, at different times, with build caches of their own. VIRTWARD_RELEASE_PLATFORMS replaces all platforms.
func TestSoakReproducible(t *testing.T) {
	soak.Only(t)
	platforms := os.Getenv("VIRTWARD_RELEASE_PLATFORMS")
	if platforms == "" {
		platforms = "linux/amd64,linux/arm64,linux/s390x,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"
	}
	address := ports.Address(t)
	commit := strings.TrimSpace(run(t, "git", "-C", root, "rev-parse", "HEAD")) // others can commit meanwhile
	var sums [2][]byte
	for i := range sums {
		begin := time.Now()
		home := filepath.Join(t.TempDir(), strings.Repeat("deeper/", i*3))
		clone, out := filepath.Join(home, "clone"), filepath.Join(home, "dist")
		run(t, "git", "clone", "--quiet", root, clone)
		run(t, "git", "-C", clone, "checkout", "--quiet", "--detach", commit)
		run(t, "find", clone, "-exec", "touch", "--date", fmt.Sprintf("20%d0-01-01", i+1), "{}", "+")
		command := exec.CommandContext(t.Context(), tool(t, "tools", "release"), "build", "-root", clone, "-version", version, "-platforms", platforms,
			"-programs", filepath.Join(home, "programs"), "-out", out, "-helm", tool(t, "tools", "helm"),
			"-repository", address+"/virtward", "-url", "http://"+address)
		command.Env = append(os.Environ(), "GOCACHE="+filepath.Join(home, "cache"), fmt.Sprintf("TZ=Etc/GMT%+d", i*5))
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		var err error
		if sums[i], err = os.ReadFile(filepath.Join(out, "checksums.txt")); err != nil {
			t.Fatal(err)
		}
		t.Logf("build %d of %s took %s, with %s of processor time", i+1, platforms, time.Since(begin).Round(time.Second),
			(command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Round(time.Second))
		d := &dist{folder: out, address: address}
		testKrew(t, d, strings.Split(platforms, ","))
		emulate(t, filepath.Join(home, "programs"))
	}
	if !bytes.Equal(sums[0], sums[1]) {
		t.Errorf("the builds differ:\n%s\n%s", sums[0], sums[1])
	}
}

// emulators start programs of other architectures. Debian's package qemu-user-static has them.
var emulators = map[string]string{"linux_arm64": "qemu-aarch64-static", "linux_s390x": "qemu-s390x-static"}

// emulate starts the programs of other architectures once.
func emulate(t *testing.T, folder string) {
	t.Helper()
	for platform, emulator := range emulators {
		if _, err := os.Stat(filepath.Join(folder, platform)); err != nil {
			continue
		}
		if _, err := exec.LookPath(emulator); err != nil {
			t.Errorf("%v: apt-get install qemu-user-static", err)
			continue
		}
		for _, name := range programs {
			words := []string{"--version"}
			if strings.HasPrefix(name, "kubectl-virtward") {
				words = []string{"--help"}
			}
			if output := run(t, emulator, append([]string{filepath.Join(folder, platform, name)}, words...)...); !strings.Contains(output, "irtward") {
				t.Errorf("%s for %s says %q", name, platform, output)
			}
		}
	}
}

// machine is a root file system without Go, which has kubectl and Helm, and the network of this machine.
type machine struct {
	root, kubeconfig string
}

// newMachine makes a machine with Debian's packages from the configured mirror.
func newMachine(t *testing.T, kubeconfig string) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a root file system needs root")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Fatalf("%v: apt-get install mmdebstrap", err)
	}
	sources, err := filepath.Glob("/etc/apt/sources.list.d/*.sources")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/etc/apt/sources.list"); err == nil {
		sources = append(sources, "/etc/apt/sources.list")
	}
	m := &machine{root: filepath.Join(t.TempDir(), "machine"), kubeconfig: "/srv/kubeconfig"}
	run(t, "mmdebstrap", append([]string{"--variant=essential", "--include=curl,ca-certificates,openssl", codename(t), m.root}, sources...)...)
	for source, target := range map[string]string{
		tool(t, "kubectl"): "/usr/local/bin/kubectl", tool(t, "tools", "helm"): "/usr/local/bin/helm", kubeconfig: m.kubeconfig,
		filepath.Join(root, "examples", "policy", "memory-limit", "policy.yaml"): "/srv/policy.yaml",
		filepath.Join(root, "examples", "vm-analytics.yaml"):                     "/srv/vm.yaml",
	} {
		run(t, "cp", source, filepath.Join(m.root, target))
	}
	if output, err := m.run(t, "command -v go"); err == nil {
		t.Fatalf("the machine has Go: %s", output)
	}
	return m
}

// codename is that of this machine's Debian, whose sources the other machine has.
func codename(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, "bash", "-c", ". /etc/os-release; echo $VERSION_CODENAME"))
}

// run runs a line of the shell on the machine.
func (m *machine) run(t *testing.T, line string) (string, error) {
	t.Helper()
	begin := time.Now()
	const inside = `mount -t proc proc "$0/proc" && exec chroot "$0" /bin/bash -euo pipefail -c "cd /srv; $1"`
	command := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", inside, m.root, line)
	command.Env = []string{"HOME=/srv", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "KUBECONFIG=" + m.kubeconfig}
	output, err := command.CombinedOutput()
	t.Logf("$ %s   (%.1fs)\n%s", line, time.Since(begin).Seconds(), output)
	return string(output), err
}

// TestSoakInstallation: only a soak finds that a user without Go cannot install a release as its instructions say, because a root
// file system is made from Debian's packages. The processes run from the images that the chart pins.
func TestSoakInstallation(t *testing.T) {
	soak.Only(t)
	folder, platform := built(t)
	d := build(t, folder, platform)
	sign(t, d)
	d.serve(t)
	cluster := planes.Start(t, controlplane.Options{Images: true, Supervise: true})
	kubevirt, err := simulators.InstallKubeVirt(t.Context(), cluster, kubevirtv1.KubeVirtConfiguration{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kubevirt.Stop(context.Background()) })
	if err := catalog.Install(t.Context(), cluster.Client()); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, cluster.Kubeconfig())
	begin := time.Now()
	m.verifyFiles(t, d)
	for _, r := range d.references(t) { // cosign finds the signatures by their subjects
		_, name, _ := strings.Cut(r.Name, "/")
		if found := m.must(t, "curl -fsSL http://"+d.address+"/v2/"+name+"/referrers/"+r.Digest); !strings.Contains(found, "application/vnd.dev.sigstore.bundle.v0.3+json") {
			t.Errorf("%s has no signature in the registry: %s", r.Name, found)
		}
	}
	commands := d.commands(t, "# Install Virtward "+version)
	m.must(t, commands[0])
	// No kubelet runs here: the processes have ports of this machine, and Helm does not wait for pods.
	chart, err := cluster.VirtwardChart(nil)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := yaml.Marshal(chart.Values)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.root, "srv", "ports.yaml"), ports, 0o600); err != nil {
		t.Fatal(err)
	}
	m.must(t, strings.Replace(commands[1], " --wait", " --values ports.yaml", 1))
	startAll(t, cluster)
	eventually(t, func() error {
		_, err := m.run(t, commands[2])
		return err
	})
	t.Logf("installed and verified after %s", time.Since(begin).Round(time.Second))
	m.must(t, "kubectl apply -f policy.yaml")
	eventually(t, func() error {
		output, err := m.run(t, "kubectl apply -f vm.yaml --dry-run=server")
		if err == nil || !strings.Contains(output, "the VM would run with 16Gi of memory; the limit is 8Gi") {
			return fmt.Errorf("the virtual machine is not denied: %w\n%s", err, output)
		}
		return nil
	})
	err = cluster.Uninstall(t.Context(), controlplane.VirtwardNamespace, func(context.Context) error {
		_, err := m.run(t, "helm uninstall virtward --namespace virtward-system")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if left := m.must(t, "kubectl get validatingwebhookconfigurations,deployments --all-namespaces --output name"); strings.Contains(left, "virtward") {
		t.Errorf("after the uninstallation: %s", left)
	}
	t.Logf("installed, denied and uninstalled after %s", time.Since(begin).Round(time.Second))
	m.applyBundle(t, d)
}

// applyBundle applies the objects for clusters without Helm, as docs/install.md does, and again: nothing changes then.
func (m *machine) applyBundle(t *testing.T, d *dist) {
	t.Helper()
	m.must(t, "curl -fsSLO http://"+d.address+"/download/install.yaml")
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^ *(kubectl .*install\.yaml)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) == 0 {
		t.Fatal("the page does not apply install.yaml")
	}
	for _, command := range commands {
		m.must(t, command[1])
	}
	const versions = "kubectl get --filename install.yaml --output jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.generation}{\"\\n\"}{end}'"
	before := m.must(t, versions)
	for _, command := range commands {
		m.must(t, command[1])
	}
	if after := m.must(t, versions); after != before || !strings.Contains(before, "ValidatingWebhookConfiguration ") || !strings.Contains(before, "CustomResourceDefinition ") {
		t.Errorf("the objects were\n%s\nand became\n%s", before, after)
	}
	t.Logf("%d objects were applied without Helm", strings.Count(before, "\n"))
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for range 60 {
		if err = check(); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal(err)
}

// startAll runs a process of each Deployment, that of the certificates first.
func startAll(t *testing.T, cluster *controlplane.ControlPlane) {
	t.Helper()
	if err := cluster.PointServiceAtLocalhost(t.Context(), controlplane.VirtwardNamespace, controlplane.VirtwardService); err != nil {
		t.Fatal(err)
	}
	list := &appsv1.DeploymentList{}
	if err := cluster.Client().List(t.Context(), list, client.InNamespace(controlplane.VirtwardNamespace)); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(list.Items, func(a, b appsv1.Deployment) int {
		return boolean(b.Name == controlplane.VirtwardController) - boolean(a.Name == controlplane.VirtwardController)
	})
	for i := range list.Items {
		workload := controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: list.Items[i].Name}
		if workload.Deployment == controlplane.VirtwardController {
			workload.Args = []string{"--rotation-settle=2s"}
		}
		if _, err := cluster.RunVirtward(t.Context(), workload); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s runs from %s", workload.Deployment, list.Items[i].Spec.Template.Spec.Containers[0].Image)
	}
}

func boolean(is bool) int {
	if is {
		return 1
	}
	return 0
}

// verifyFiles verifies the signatures of the archive and of the chart in the registry as docs/release.md does without cosign.
func (m *machine) verifyFiles(t *testing.T, d *dist) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "release.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^ *(grep -o .*|openssl dgst .*)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) != 2 {
		t.Fatalf("the page has %d commands without cosign, want 2", len(commands))
	}
	base := "http://" + d.address + "/download/"
	archive := fmt.Sprintf("kubectl-virtward_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
	m.must(t, "curl -fsSLO "+base+"cosign.pub -fsSLO "+base+archive)
	m.must(t, "helm pull oci://"+d.repository()+"/charts/virtward --version 0.1.0 --plain-http")
	for _, file := range []string{archive, "virtward-0.1.0.tgz"} {
		m.must(t, "curl -fsSLO "+base+file+".sigstore.json")
		line := strings.ReplaceAll(commands[0][1]+" && "+commands[1][1], "FILE", file)
		m.must(t, line)
		flip(t, filepath.Join(m.root, "srv", file))
		if output, err := m.run(t, line); err == nil {
			t.Errorf("a changed byte of %s is accepted: %s", file, output)
		}
	}
}

// must is run for a line that succeeds.
func (m *machine) must(t *testing.T, line string) string {
	t.Helper()
	output, err := m.run(t, line)
	if err != nil {
		t.Fatal(err)
	}
	return output
}
