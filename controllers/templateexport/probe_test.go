package templateexport_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/templateexport"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/exportserver/exports"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/ovf/transfer"
)

// TestProbe holds what is believed of a pod: a status of the right form, from the server with the certificate of the export.
func TestProbe(t *testing.T) {
	const token = "a token for the status"
	material, err := diskservers.NewMaterial(&exports.Servers, "templates", "0123", time.Now(), time.Hour)
	must(t, err)
	other, err := diskservers.NewMaterial(&exports.Servers, "templates", "0123", time.Now(), time.Hour)
	must(t, err)
	ready := `{"phase":"Ready","done":4,"all":4,"name":"mill.ova","size":42,"tag":"` + strings.Repeat("0a", 16) + `","requests":0,"completed":3,"sent":9}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		with   *servers.Material
		want   string
	}{
		"a status":            {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, ready) }},
		"another certificate": {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, ready) }, with: other, want: "certificate"},
		"a redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.com/", http.StatusFound)
		}, want: "the server answers with the code 302"},
		"an error": {answer: func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, want: "the server answers with the code 404"},
		"without an end": {answer: func(w http.ResponseWriter, _ *http.Request) {
			for block := strings.Repeat(" ", 1<<16); ; {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
		}, want: "more than 900 KiB"},
		"another form": {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"phase":"Done"}`) }, want: `phase is "Done"`},
		"not a size": {answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"phase":"Measuring","done":5,"all":4}`)
		}, want: "not possible"},
		"other content": {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, want: "the status: "},
	} {
		t.Run(name, func(t *testing.T) {
			with := material
			if c.with != nil {
				with = c.with
			}
			pair, err := tls.X509KeyPair(with.Certificate, with.Key)
			must(t, err)
			ip := "127.83." + strconv.Itoa(os.Getpid()>>8&0xff) + "." + strconv.Itoa(os.Getpid()&0xff)
			listener, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(servers.Port)))
			must(t, err)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(transfer.TokenHeader) != token || r.URL.Path != "/status" {
					http.Error(w, "no token", http.StatusForbidden)
					return
				}
				c.answer(w, r)
			}))
			must(t, server.Listener.Close())
			server.Listener, server.TLS = listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
			server.Config.ErrorLog = nil
			server.StartTLS()
			defer server.Close()
			pod := &corev1.Pod{}
			pod.Annotations, pod.Status.PodIP = map[string]string{exports.AnnotationStatusToken: token}, ip
			status, err := templateexport.LiveProber{}.Status(t.Context(), pod, exports.Links("templates", v1beta1.ExportOVA, material, &exports.Outside{}).Internal)
			switch {
			case c.want == "" && (err != nil || status.Phase != exportserver.PhaseReady || status.Completed != 3):
				t.Errorf("got %+v, %v", status, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %+v, %v", status, err)
			}
		})
	}
	for name, link := range map[string]*v1beta1.ExportLink{"no certificate": {URL: "https://a"}, "no URL": {URL: "https://a b:%"}} {
		if _, err := (templateexport.LiveProber{}).Status(t.Context(), &corev1.Pod{}, link); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
