// Package helm runs Helm for tests of the charts.
package helm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	// Root is the root of the project, from the folder of a package in test/.
	Root = "../.."
	// Chart is the chart of Virtward, from the root.
	Chart = "charts/virtward"
)

// inputs lists the charts, which only Helm reads: so that go test runs the tests again when a chart has changed.
var inputs = sync.OnceValue(func() error {
	return filepath.WalkDir(filepath.Join(Root, "charts"), func(_ string, _ fs.DirEntry, err error) error { return err })
})

// Run runs Helm without anything of the user's: no configuration, no cluster. It runs in processes that are kept for further commands. It
// returns what Helm prints; with an error, also its complaints. Short runs skip the test where bin/ lacks Helm.
func Run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join(Root, "bin", "tools", "helm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); errors.Is(err, fs.ErrNotExist) && testing.Short() {
		t.Skipf("Helm is not built: make %s", binary)
	} else if err != nil {
		t.Fatalf("Helm is not built: %v; make %s", err, binary)
	}
	if err := inputs(); err != nil {
		t.Fatal(err)
	}
	one := <-idle
	defer func() { idle <- one }()
	if one == nil {
		if one, err = serve(binary); err != nil {
			t.Fatal(err)
		}
	}
	result, err := one.run(WithImage(args))
	if err != nil {
		one = nil
		t.Fatalf("helm %v: %v", args, err)
	}
	if result.Code != 0 {
		return strings.TrimSpace(result.Complaints + result.Output), fmt.Errorf("exit code %d", result.Code)
	}
	return result.Output, nil
}

// idle are Helm's processes: one for each core, which run one command after another. A place without a process is nil.
var idle = func() chan *server {
	servers := make(chan *server, goruntime.GOMAXPROCS(0))
	for range cap(servers) {
		servers <- nil
	}
	return servers
}()

// server is a process of Helm that runs many commands: tools/helm. It ends with its input, when the tests end.
type server struct {
	commands *json.Encoder
	results  *json.Decoder
}

type result struct {
	Output     string `json:"output"`
	Complaints string `json:"complaints"`
	Code       int    `json:"code"`
}

func serve(binary string) (*server, error) {
	command := exec.Command(binary, "commands")
	command.Dir = Root
	command.Env = []string{"HOME=/nonexistent", "PATH=" + os.Getenv("PATH"), "GOGC=400"}
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &server{commands: json.NewEncoder(input), results: json.NewDecoder(output)}, nil
}

func (s *server) run(args []string) (result, error) {
	if err := s.commands.Encode(map[string][]string{"args": args}); err != nil {
		return result{}, err
	}
	var r result
	return r, s.results.Decode(&r)
}

// WithImage adds the value that the chart requires before those of the test.
func WithImage(args []string) []string {
	at := slices.Index(args, Chart)
	if at < 0 {
		return args
	}
	return slices.Insert(slices.Clone(args), at+1, "--set-json", `image.repository="virtward/virtward"`)
}
