package manifests

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestURLs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; path {
		case "/vm.yaml":
			fmt.Fprint(w, "kind: A\n---\n[\n---\nkind: B\n")
		case "/moved":
			http.Redirect(w, r, "/vm.yaml", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/large":
			fmt.Fprint(w, strings.Repeat("# 3456789\n", MaxFile/10+1))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	secure := httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	for _, c := range []struct {
		path string
		want []string
	}{
		{server.URL + "/vm.yaml?token=secret#fragment", []string{"SERVER/vm.yaml: document 1 A", "SERVER/vm.yaml: document 3 B", "SERVER/vm.yaml: document 2: line 3: did not find expected node content"}},
		{server.URL + "/moved", []string{"SERVER/moved: document 1 A", "SERVER/moved: document 3 B", "SERVER/moved: document 2: line 3: did not find expected node content"}},
		{strings.Replace(server.URL, "://", "://user:secret@", 1) + "/absent", []string{"SERVER/absent: the server answers 404 Not Found"}},
		{server.URL + "/loop", []string{"SERVER/loop: is redirected more than 5 times"}},
		{server.URL + "/file", []string{"SERVER/file: is redirected from http to file"}},
		{server.URL + "/large", []string{"SERVER/large: must be no larger than 16 MiB"}},
		{secure.URL + "/vm.yaml?token=secret", []string{"SECURE/vm.yaml: tls: failed to verify certificate: x509: certificate signed by unknown authority"}},
	} {
		t.Run(c.path, func(t *testing.T) {
			content, err := ReadEach(context.Background(), []string{c.path}, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range content.Documents {
				got = append(got, d.Location()+" "+d.Object.GetKind())
				if d.File != "" {
					t.Errorf("%s has the file %s", d.Location(), d.File)
				}
			}
			for i := range content.Unreadable {
				got = append(got, content.Unreadable[i].Error())
			}
			for i := range got {
				got[i] = strings.NewReplacer(server.URL, "SERVER", secure.URL, "SECURE").Replace(got[i])
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoRedirectToLess follows no redirect from https to http.
func TestNoRedirectToLess(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "kind: A\n") }))
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(secure.Close)
	client := secure.Client()
	client.CheckRedirect = redirects
	response, err := client.Get(secure.URL)
	if response != nil {
		defer response.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "is redirected from https to http") {
		t.Errorf("got %v, %v", response, err)
	}
}
