package soak

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/virtward/virtward/ovf/transfer"
)

const (
	// MaxAnonymous bounds the anonymous memory of a server of disks, in bytes.
	MaxAnonymous = 100_000_000
	// LeastSpeed is the part of the speed of qemu-img that it has at least.
	LeastSpeed = 0.6
	// containerLimit is the memory limit of its container.
	containerLimit = 128 << 20
	// token is what requests have.
	token = "a token of more than 16 bytes"
)

// Process is a program of this module that serves a plan.
type Process struct {
	// URL has no slash at its end.
	URL    string
	client *http.Client
	pid    int
	// most is the largest anonymous memory in bytes.
	most atomic.Int64
}

// Start builds and starts a program of cmd in a folder, until the end of the test. The function returns the plan for the files that are
// served with.
func Start(t testing.TB, folder, program string, plan func(transfer.Serving) any) *Process {
	t.Helper()
	binary := filepath.Join(folder, program)
	Execute(t, "go", "build", "-ldflags", "-s -w", "-o", binary, "github.com/virtward/virtward/cmd/"+program)
	write := func(name string, data []byte) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	model := httptest.NewTLSServer(nil) // it has a certificate for loopback
	model.Close()
	key, err := x509.MarshalPKCS8PrivateKey(model.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(plan(transfer.Serving{
		CertificateFile: write("tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: model.Certificate().Raw})),
		KeyFile:         write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		TokenFile:       write("token", []byte(token)),
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, binary, "--plan", write("plan.json", data), "--address", "127.0.0.1:0")
	command.Env = append(os.Environ(), "MEMORY_LIMIT="+strconv.Itoa(containerLimit))
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = command.Wait() })
	p := &Process{pid: command.Process.Pid}
	lines := bufio.NewScanner(output)
	for p.URL == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "starting" {
			p.URL = "https://" + line.Address
		}
	}
	if p.URL == "" {
		t.Fatal("the program does not start")
	}
	go func() {
		for lines.Scan() { // the program must not wait for its log
			continue
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(model.Certificate())
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	go p.watch(ctx)
	return p
}

// watch measures the memory of the process.
func (p *Process) watch(ctx context.Context) {
	next := time.NewTicker(100 * time.Millisecond)
	defer next.Stop()
	for {
		p.most.Store(max(p.most.Load(), p.Anonymous()))
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// Anonymous is the anonymous memory of the process in bytes; 0 once it has ended.
func (p *Process) Anonymous() int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid)) // empty once it has ended
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "RssAnon:" {
			n, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel writes numbers
			return n << 10
		}
	}
	return 0
}

// Most is the largest anonymous memory until now. It is an error of the test if it is more than MaxAnonymous.
func (p *Process) Most(t testing.TB) int64 {
	t.Helper()
	most := p.most.Load()
	if most > MaxAnonymous || most == 0 {
		t.Errorf("the process has %d bytes of anonymous memory", most)
	}
	return most
}

// Get sends a request with the token.
func (p *Process) Get(t testing.TB, path string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(transfer.TokenHeader, token)
	response, err := p.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// Download writes an answer into a file, and returns the number of bytes.
func (p *Process) Download(t testing.TB, path, file string) int64 {
	t.Helper()
	response := p.Get(t, path)
	defer response.Body.Close()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := io.Copy(f, response.Body)
	if err != nil || response.StatusCode != http.StatusOK || n != response.ContentLength {
		t.Fatalf("%d, %d bytes, %v", response.StatusCode, n, err)
	}
	return n
}

// Speed compares two times for the same disk. It is an error of the test if it is less than LeastSpeed.
func Speed(t testing.TB, what string, ofProgram, measured time.Duration) {
	t.Helper()
	speed := ofProgram.Seconds() / measured.Seconds()
	t.Logf("%s: qemu-img %.1f s, the server %.1f s (%.0f %%)", what, ofProgram.Seconds(), measured.Seconds(), 100*speed)
	if speed < LeastSpeed {
		t.Errorf("%s: %.0f %% of the speed of qemu-img", what, 100*speed)
	}
}

// Timed returns how long something takes.
func Timed(do func()) time.Duration {
	begun := time.Now()
	do()
	return time.Since(begun)
}

// Execute runs a program.
func Execute(t testing.TB, name string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	command := exec.CommandContext(t.Context(), name, args...)
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
}

// Programs skips a test where a program is not installed.
func Programs(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed: Debian has it in qemu-utils and nbdkit", name)
		}
	}
}

// Digest is the SHA-256 digest of a file, in hexadecimal digits.
func Digest(t testing.TB, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Size is that of the disk of a test in bytes: $VIRTWARD_SOAK_GIB, or 20 GiB.
func Size(t testing.TB) int64 {
	t.Helper()
	text := os.Getenv("VIRTWARD_SOAK_GIB")
	if text == "" {
		return 20 << 30
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("VIRTWARD_SOAK_GIB is %q", text)
	}
	return n << 30
}
