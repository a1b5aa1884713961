package importserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
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
	"github.com/virtward/virtward/vmdk"
)

// maxAnonymous bounds the anonymous memory of the process, and leastSpeed is the part of the speed of qemu-img that it must have.
const (
	maxAnonymous = 100_000_000
	leastSpeed   = 0.6
)

// TestSoakDisk serves a large disk from a source whose connections break every 500 MB: VIRTWARD_SOAK_GIB is its size in GiB, 20 by
// default, of which a fifth does not compress.
func TestSoakDisk(t *testing.T) {
	if os.Getenv("VIRTWARD_SOAK") == "" {
		t.Skip("VIRTWARD_SOAK has no duration")
	}
	programs(t, "qemu-img", "nbdkit")
	gib := int64(20)
	if text := os.Getenv("VIRTWARD_SOAK_GIB"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			t.Fatalf("VIRTWARD_SOAK_GIB is %q", text)
		}
		gib = n
	}
	folder := t.TempDir()
	file, sum := largeImage(t, folder, gib<<30)
	source := &large{file: file, cut: 500_000_000}
	origin := httptest.NewServer(source)
	t.Cleanup(origin.Close)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	size := info.Size()
	target := filepath.Join(folder, "target.raw")

	source.cut = 0 // qemu-img does not continue
	begun := time.Now()
	execute(t, "nbdkit", "-U", "-", "--readonly", "curl", "url="+origin.URL, "--run", fmt.Sprintf(`qemu-img convert -O raw "$uri" %s`, target))
	direct := time.Since(begun)
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	source.cut = 500_000_000

	s := startProcess(t, folder, &transfer.Plan{
		Files: []transfer.File{{URL: origin.URL, Size: size, Validator: `"1"`}}, Sources: transfer.Sources{Networks: []string{"127.0.0.1/32"}},
		Disks: []transfer.Disk{{Name: "large.vmdk", Format: "vmdk", Parts: []transfer.Part{{Size: size, Digest: sum}}}},
	})
	scratch := filepath.Join(folder, "scratch.vmdk")
	begun = time.Now()
	s.download(t, "/disks/0", scratch)
	through := time.Since(begun)
	if got := digestOf(t, scratch); got != sum {
		t.Errorf("the disk has the digest %s, want %s", got, sum)
	}
	speed := direct.Seconds() / through.Seconds()
	t.Logf("%d MB of a disk of %d GiB: qemu-img %.1f s, through the server %.1f s (%.0f %%); connections broke %d times; RssAnon at most %d kB", size/1_000_000, gib, direct.Seconds(), through.Seconds(), 100*speed, source.cuts.Load(), s.most.Load()/1000)
	if most := s.most.Load(); most > maxAnonymous || most == 0 {
		t.Errorf("the process has %d bytes of anonymous memory", most)
	}
	if speed < leastSpeed {
		t.Errorf("%.0f %% of the speed of qemu-img", 100*speed)
	}
	if source.cuts.Load() < size/source.cut {
		t.Errorf("connections broke %d times", source.cuts.Load())
	}
}

// largeImage writes a streamOptimized VMDK of a size, and returns its name and digest. A fifth does not compress, the rest is sparse.
func largeImage(t *testing.T, folder string, size int64) (name, sum string) {
	t.Helper()
	name = filepath.Join(folder, "large.vmdk")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hashed, out := sha256.New(), bufio.NewWriterSize(f, 1<<20)
	if err := vmdk.Write(io.MultiWriter(out, hashed), &fifth{random: rand.NewChaCha8([32]byte{2})}, size, "large.vmdk"); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return name, "sha256:" + hex.EncodeToString(hashed.Sum(nil))
}

// fifth is content of which one MiB of five is random.
type fifth struct {
	random *rand.ChaCha8
	at     int64
}

func (f *fifth) Read(p []byte) (int, error) {
	block := f.at >> 20
	p = p[:min(int64(len(p)), (block+1)<<20-f.at)]
	if block%5 == 0 {
		_, _ = f.random.Read(p) // it returns no error
	} else {
		clear(p)
	}
	f.at += int64(len(p))
	return len(p), nil
}

// large is a web server with a file whose connections break.
type large struct {
	file string
	cut  int64
	cuts atomic.Int64
}

func (l *large) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, err := os.Open(l.file)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	w.Header().Set("ETag", `"1"`)
	if l.cut > 0 {
		w = &limited{ResponseWriter: w, left: l.cut, cuts: &l.cuts}
	}
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), f)
}

// limited breaks a connection after some bytes.
type limited struct {
	http.ResponseWriter

	left int64
	cuts *atomic.Int64
}

func (l *limited) Write(p []byte) (int, error) {
	n, err := l.ResponseWriter.Write(p[:min(int64(len(p)), l.left)])
	if l.left -= int64(n); l.left <= 0 && n < len(p) {
		l.cuts.Add(1)
		panic(http.ErrAbortHandler)
	}
	return n, err //nolint:wrapcheck // it is a writer of a test
}

// process is the program of a test.
type process struct {
	url    string
	client *http.Client
	// most is the largest anonymous memory in bytes.
	most atomic.Int64
}

// startProcess builds and starts the program.
func startProcess(t *testing.T, folder string, plan *transfer.Plan) *process {
	t.Helper()
	program := filepath.Join(folder, "virtward-import-server")
	execute(t, "go", "build", "-ldflags", "-s -w", "-o", program, "../cmd/virtward-import-server")
	write := func(name string, data []byte) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	certificate, key := selfSigned(t)
	plan.Serving = transfer.Serving{CertificateFile: write("tls.crt", certificate), KeyFile: write("tls.key", key), TokenFile: write("token", []byte(token))}
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "--plan", write("plan.json", data), "--address", "127.0.0.1:0")
	command.Env = append(os.Environ(), "MEMORY_LIMIT="+strconv.Itoa(128<<20))
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = command.Wait() })
	lines := bufio.NewScanner(output)
	p := &process{}
	for p.url == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "starting" {
			p.url = "https://" + line.Address
		}
	}
	if p.url == "" {
		t.Fatal("the program does not start")
	}
	go func() {
		for lines.Scan() { // the program must not wait for its log
			continue
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	go p.watch(ctx, command.Process.Pid)
	return p
}

// watch measures the memory of the process.
func (p *process) watch(ctx context.Context, pid int) {
	for ctx.Err() == nil {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // empty once it has ended
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "RssAnon:" {
				n, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel writes numbers
				p.most.Store(max(p.most.Load(), n<<10))
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// download writes an answer into a file.
func (p *process) download(t *testing.T, path, file string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(transfer.TokenHeader, token)
	response, err := p.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := io.Copy(f, response.Body); err != nil || response.StatusCode != http.StatusOK || n != response.ContentLength {
		t.Fatalf("%d, %d bytes, %v", response.StatusCode, n, err)
	}
}

func digestOf(t *testing.T, file string) string {
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
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// selfSigned is a certificate for loopback and its key, in PEM.
func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := pem.Encode(&out, &pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), out.Bytes()
}
