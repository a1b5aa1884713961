package templates

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// commands are the blocks of commands of a page.
var commands = regexp.MustCompile("(?s)```sh\n(.*?)```")

// tutorial runs the commands of docs/template-capture.md.
func (f *fixture) tutorial(t *testing.T) {
	page, err := os.ReadFile("../../docs/template-capture.md")
	must(t, err)
	bin, err := filepath.Abs("../../bin")
	must(t, err)
	f.machine(t, "db", "db-root")
	blocks := commands.FindAllSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of commands", len(blocks))
	}
	run := func(block []byte) {
		t.Helper()
		shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", string(block))
		shell.Env = append(os.Environ(), "KUBECONFIG="+f.Kubeconfig(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
		if output, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s\n%v\n%s", block, err, output)
		}
	}
	run([]byte("kubectl wait apiservice v1beta1.subresources.template.kubevirt.io --for condition=Available --timeout=30s"))
	run(blocks[0][1])
	vm := &kubevirtv1.VirtualMachine{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "db-2"}, vm))
	source := vm.Spec.DataVolumeTemplates[0].Spec.Source.PVC
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: source.Namespace, Name: source.Name}, &corev1.PersistentVolumeClaim{}))
	run(blocks[1][1])
	f.gone(t, &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}})
}
