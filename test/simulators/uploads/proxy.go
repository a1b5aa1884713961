// Package uploads simulates the upload proxy of CDI, and the upload servers of volumes behind it.
//
// Input: volumes that are ready for an upload, requests for tokens, and files over HTTPS. Output: the size and the checksum of what
// each volume received. The simulator keeps no file. It answers as CDI's proxy and upload server do: 401 for a token, 503 for a
// volume that is not ready or receives another file, 409 for one that has its file, and 400 for a disk that the volume cannot hold.
// A test scripts other answers, and connections that break off.
package uploads

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/virtualimages"
)

// Fault is what a request gets instead of CDI's own answer.
type Fault struct {
	// Status and Body are an answer; 0 for none.
	Status int
	Body   string
	// Drop breaks the connection after a number of bytes of the file; 0 for never.
	Drop int64
	// Stall is a time in which the file is not read. The connection ends afterwards.
	Stall time.Duration
}

// Received is a file that a volume has.
type Received struct {
	Bytes int64
	// Checksum is sha256: and hex digits.
	Checksum string
}

// volume is one that is ready for its file.
type volume struct {
	size     int64
	busy     bool
	received *Received
}

// grant is what a token permits.
type grant struct {
	volume string
	ends   time.Time
}

// Proxy is the simulator. Create it with New.
type Proxy struct {
	*httptest.Server

	mu      sync.Mutex
	volumes map[string]*volume
	tokens  map[string]grant
	// script returns the fault of a request by its number, beginning with 1.
	script   func(number int, r *http.Request) Fault
	requests []string
	lifetime time.Duration
	// old tells that the proxy has no asynchronous path.
	old bool
}

// New starts a proxy, until Close.
func New() *Proxy {
	p := &Proxy{volumes: map[string]*volume{}, tokens: map[string]grant{}, lifetime: 5 * time.Minute}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1beta1/upload", p.upload)
	mux.HandleFunc("POST /v1beta1/upload-async", p.asynchronous(p.upload))
	mux.HandleFunc("HEAD /v1beta1/upload-async", p.asynchronous(p.ready))
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.faulty(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	p.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that break off
	p.StartTLS()
	return p
}

// Authority is the certificate that signs that of the proxy, in PEM.
func (p *Proxy) Authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
}

// Follow replaces the script; nil for none.
func (p *Proxy) Follow(script func(number int, r *http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script, p.requests = script, nil
}

// Requests are METHOD PATH of the requests since the last Follow.
func (p *Proxy) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// SetLifetime replaces the lifetime of new tokens.
func (p *Proxy) SetLifetime(lifetime time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lifetime = lifetime
}

// SetOld replaces the version: one of before the asynchronous path.
func (p *Proxy) SetOld(old bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.old = old
}

// Ready starts the upload server of a volume, which has a number of bytes.
func (p *Proxy) Ready(name string, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.volumes[name] == nil {
		p.volumes[name] = &volume{size: size}
	}
}

// Received is the file of a volume; nil before it has one.
func (p *Proxy) Received(name string) *Received {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.volumes[name]; v != nil {
		return v.received
	}
	return nil
}

// Receive stores a file of a number of bytes in a volume that is ready for one, without a request.
func (p *Proxy) Receive(name string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.volumes[name]; v != nil && !v.busy && v.received == nil {
		v.received = &Received{Bytes: bytes}
	}
}

// Token is one for a volume.
func (p *Proxy) Token(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	token := rand.Text()
	p.tokens[token] = grant{name, time.Now().Add(p.lifetime)}
	return token
}

// faulty answers a request as the script says, and reports whether it did.
func (p *Proxy) faulty(w http.ResponseWriter, r *http.Request) bool {
	p.mu.Lock()
	p.requests = append(p.requests, r.Method+" "+r.URL.Path)
	number, script := len(p.requests), p.script
	p.mu.Unlock()
	if script == nil {
		return false
	}
	f := script(number, r)
	switch {
	case f.Stall > 0:
		<-time.After(f.Stall)
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		http.Error(w, f.Body, f.Status)
		return true
	case f.Drop > 0:
		_, _ = io.CopyN(io.Discard, r.Body, f.Drop) // the connection ends either way
		panic(http.ErrAbortHandler)
	}
	return false
}

// granted is the volume of the token of a request. It answers a request without one.
func (p *Proxy) granted(w http.ResponseWriter, r *http.Request) *volume {
	var token string
	if n, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer %s", &token); err != nil || n != 1 {
		w.WriteHeader(http.StatusBadRequest)
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	granted, known := p.tokens[token]
	switch v := p.volumes[granted.volume]; {
	case !known || time.Now().After(granted.ends):
		w.WriteHeader(http.StatusUnauthorized)
	case v == nil:
		http.Error(w, "timed out waiting for the condition", http.StatusServiceUnavailable)
	default:
		return v
	}
	return nil
}

func (p *Proxy) asynchronous(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		old := p.old
		p.mu.Unlock()
		if old {
			http.NotFound(w, r)
			return
		}
		serve(w, r)
	}
}

func (p *Proxy) ready(w http.ResponseWriter, r *http.Request) { p.granted(w, r) }

// upload receives a file. One that breaks off leaves the volume as it was.
func (p *Proxy) upload(w http.ResponseWriter, r *http.Request) {
	v := p.granted(w, r)
	if v == nil {
		return
	}
	p.mu.Lock()
	switch {
	case v.busy:
		p.mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case v.received != nil:
		p.mu.Unlock()
		w.WriteHeader(http.StatusConflict)
		return
	}
	v.busy = true
	p.mu.Unlock()
	received, status, err := receive(r.Body, v.size)
	p.mu.Lock()
	defer p.mu.Unlock()
	v.busy = false
	if err != nil {
		http.Error(w, "Saving stream failed: "+err.Error(), status)
		return
	}
	v.received = received
}

// receive reads a file, and checks the size of its disk as CDI does.
func receive(from io.Reader, size int64) (*Received, int, error) {
	sum, head := sha256.New(), make([]byte, sources.HeadBytes)
	n, err := io.ReadFull(from, head)
	if n == 0 {
		return nil, http.StatusInternalServerError, fmt.Errorf("no data: %w", err)
	}
	head = head[:n]
	if virtual := virtualimages.Inspect(head, nil).VirtualSize; virtual > size {
		return nil, http.StatusBadRequest, fmt.Errorf("virtual image size %d is larger than the reported available storage %d", virtual, size)
	}
	sum.Write(head)
	rest, err := io.Copy(sum, from)
	if err != nil {
		return nil, http.StatusInternalServerError, fmt.Errorf("reading the file: %w", err)
	}
	return &Received{int64(n) + rest, "sha256:" + hex.EncodeToString(sum.Sum(nil))}, http.StatusOK, nil
}
