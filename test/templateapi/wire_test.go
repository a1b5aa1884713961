package templateapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/test/await"
)

var update = flag.Bool("update", false, "write the golden files")

// wireRequest is a request to the API. VERSION in it is the version, and DIGEST the digest of the template.
type wireRequest struct {
	name                string
	method, path, query string
	contentType, accept string
	body                string
}

// wireRequests are in the order in which they are sent.
func wireRequests() []wireRequest {
	const fedora = "namespaces/templates/virtualmachinetemplates/fedora/"
	const values = `"parameters":{"NAME":"wire-VERSION"}`
	return []wireRequest{
		{name: "process", path: fedora + "process", body: `{"apiVersion":"subresources.template.kubevirt.io/VERSION","kind":"ProcessOptions",` + values + `}`},
		{name: "process without apiVersion and kind", path: fedora + "process", body: `{` + values + `}`},
		{name: "process in YAML", path: fedora + "process", contentType: "application/yaml", body: "parameters:\n  NAME: wire-VERSION\n"},
		{name: "process, answered in YAML", path: fedora + "process", accept: "application/yaml", body: `{` + values + `}`},
		{name: "process for another namespace", path: fedora + "process", body: `{` + values + `,"targetNamespace":"shop"}`},
		{name: "process without a required value", path: fedora + "process", body: `{}`},
		{name: "process with an unknown parameter", path: fedora + "process", body: `{"parameters":{"NAME":"a","OTHER":"b"}}`},
		{name: "process with a value of another type", path: fedora + "process", body: `{"parameters":{"NAME":1}}`},
		{name: "process with an unknown field", path: fedora + "process", body: `{` + values + `,"other":1}`},
		{name: "process with an unknown field, strictly", path: fedora + "process", query: "fieldValidation=Strict", body: `{` + values + `,"other":1}`},
		{name: "process with an unknown field, ignored", path: fedora + "process", query: "fieldValidation=Ignore", body: `{` + values + `,"other":1}`},
		{name: "process with a field twice, strictly", path: fedora + "process", query: "fieldValidation=Strict", body: `{"parameters":{"NAME":"a","NAME":"b"}}`},
		{name: "process with another kind", path: fedora + "process", body: `{"apiVersion":"subresources.template.kubevirt.io/VERSION","kind":"RevokeOptions"}`},
		{name: "process with a kind of another group", path: fedora + "process", body: `{"apiVersion":"v1","kind":"Pod"}`},
		{name: "process with text after the body", path: fedora + "process", body: `{` + values + `} {}`},
		{name: "process with a body that is not JSON", path: fedora + "process", body: `{`},
		{name: "process with a content type that is not taken", path: fedora + "process", contentType: "text/plain", body: `{` + values + `}`},
		{name: "process with an answer that is not given", path: fedora + "process", accept: "application/vnd.kubernetes.protobuf", body: `{` + values + `}`},
		{name: "process of a template that does not exist", path: "namespaces/templates/virtualmachinetemplates/absent/process", body: `{` + values + `}`},
		{name: "process in a namespace that does not exist", path: "namespaces/absent/virtualmachinetemplates/fedora/process", body: `{` + values + `}`},
		{name: "process by GET", method: http.MethodGet, path: fedora + "process"},
		{name: "the template itself", method: http.MethodGet, path: strings.TrimSuffix(fedora, "/")},
		{name: "create in a dry run", path: fedora + "create", query: "dryRun=All", body: `{` + values + `}`},
		{name: "create with an unknown dry run", path: fedora + "create", query: "dryRun=Some", body: `{` + values + `}`},
		{name: "create", path: fedora + "create", body: `{"apiVersion":"subresources.template.kubevirt.io/VERSION","kind":"ProcessOptions",` + values + `}`},
		{name: "create again", path: fedora + "create", body: `{` + values + `}`},
		{name: "create with a name that is not valid", path: fedora + "create", body: `{"parameters":{"NAME":"Not a name"}}`},
		{name: "create in a namespace that does not exist", path: fedora + "create", body: `{` + values + `,"targetNamespace":"absent"}`},
		{name: "approve in a dry run", path: fedora + "approve", query: "dryRun=All", body: `{}`},
		{name: "approve without a digest", path: fedora + "approve", body: `{}`},
		{name: "approve another digest", path: fedora + "approve", body: `{"digest":"sha256:00"}`},
		{name: "approve", path: fedora + "approve", body: `{"apiVersion":"subresources.template.kubevirt.io/VERSION","kind":"ApproveOptions","digest":"DIGEST","message":"reviewed"}`},
		{name: "revoke in a dry run", path: fedora + "revoke", query: "dryRun=All", body: `{}`},
		{name: "revoke", path: fedora + "revoke", body: `{"message":"old image"}`},
		{name: "discovery", method: http.MethodGet},
	}
}

// wire compares the answers of both versions with golden files.
func (f *fixture) wire(t *testing.T) {
	transport, err := rest.TransportFor(f.Config())
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: transport}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		var page strings.Builder
		digest := ""
		for _, r := range wireRequests() {
			answer, body := f.send(t, web, r, version, digest)
			if r.name == "approve in a dry run" {
				review := &subresources.TemplateReview{}
				if err := json.Unmarshal(body, review); err != nil {
					t.Fatal(err)
				}
				digest = review.Digest
			}
			page.WriteString(answer)
		}
		file := filepath.Join("testdata", "wire."+version+".golden")
		got := strings.ReplaceAll(page.String(), version, "VERSION")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("answers of %s; go test -update writes them (-want +got):\n%s", version, diff)
		}
	}
}

// send returns the request and its answer as text, and the body of the answer.
func (f *fixture) send(t *testing.T, web *http.Client, r wireRequest, version, digest string) (text string, answer []byte) {
	t.Helper()
	fill := strings.NewReplacer("VERSION", version, "DIGEST", digest).Replace
	url := f.Config().Host + "/apis/" + subresources.Group + "/" + version + "/" + r.path
	if r.query != "" {
		url += "?" + r.query
	}
	if r.method == "" {
		r.method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(t.Context(), r.method, strings.TrimSuffix(url, "/"), strings.NewReader(fill(r.body)))
	if err != nil {
		t.Fatal(err)
	}
	if r.contentType == "" {
		r.contentType = "application/json"
	}
	if r.method == http.MethodPost {
		request.Header.Set("Content-Type", r.contentType)
	}
	if r.accept != "" {
		request.Header.Set("Accept", r.accept)
	}
	response, err := web.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "== %s\n%s %s\n", r.name, r.method, strings.TrimPrefix(request.URL.RequestURI(), "/apis/"))
	if r.body != "" {
		fmt.Fprintf(&out, "%s: %s\n", r.contentType, strings.TrimSpace(r.body))
	}
	fmt.Fprintf(&out, "-- %d %s\n", response.StatusCode, response.Header.Get("Content-Type"))
	for _, warning := range response.Header.Values("Warning") {
		fmt.Fprintf(&out, "Warning: %s\n", warning)
	}
	fmt.Fprintf(&out, "%s\n", strings.TrimSpace(stable(answer)))
	return out.String(), answer
}

// volatile is what differs from run to run.
var volatile = regexp.MustCompile(`"signature": "[^"]*"|sha256:[0-9a-f]{64}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|"resourceVersion": "\d+"|scheme.go:\d+`)

// stable is an answer in indented JSON without what differs from run to run.
func stable(answer []byte) string {
	var parsed map[string]any
	if err := json.Unmarshal(answer, &parsed); err == nil {
		if vm, ok := parsed["virtualMachine"].(map[string]any); ok {
			if meta, ok := vm["metadata"].(map[string]any); ok {
				delete(meta, "managedFields")
			}
		}
		var indented bytes.Buffer
		encoder := json.NewEncoder(&indented)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(parsed); err == nil {
			answer = indented.Bytes()
		}
	}
	return volatile.ReplaceAllStringFunc(string(answer), func(text string) string {
		switch {
		case strings.HasPrefix(text, "sha256:"):
			return "DIGEST"
		case strings.HasPrefix(text, `"signature"`):
			return `"signature": "SIGNATURE"`
		case strings.HasPrefix(text, `"resourceVersion"`):
			return `"resourceVersion": "N"`
		case strings.HasPrefix(text, "scheme.go"):
			return "scheme.go"
		case strings.Contains(text, "T"):
			return "TIME"
		}
		return "UID"
	})
}

// openapi holds that the schemas of the API are published, with descriptions.
func (f *fixture) openapi(t *testing.T) {
	transport, err := rest.TransportFor(f.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		var document struct {
			Paths      map[string]any `json:"paths"`
			Components struct {
				Schemas map[string]struct {
					Description string `json:"description"`
				} `json:"schemas"`
			} `json:"components"`
		}
		await.Until(t, func() error {
			response, err := (&http.Client{Transport: transport}).Get(f.Config().Host + "/openapi/v3/apis/" + subresources.Group + "/" + version)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			return json.NewDecoder(response.Body).Decode(&document)
		})
		var names []string
		for name, schema := range document.Components.Schemas {
			if kind, found := strings.CutPrefix(name, "io.kubevirt.template.subresources."); found {
				names = append(names, kind)
				if schema.Description == "" {
					t.Errorf("%s has no description", name)
				}
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "ApproveOptions ProcessOptions ProcessedVirtualMachineTemplate RevokeOptions TemplateReview" {
			t.Errorf("%s has the schemas %s", version, got)
		}
		for _, subresource := range []string{"process", "create", "approve", "revoke"} {
			if _, found := document.Paths["/apis/"+subresources.Group+"/"+version+"/namespaces/{namespace}/virtualmachinetemplates/{name}/"+subresource]; !found {
				t.Errorf("%s has no path of %s", version, subresource)
			}
		}
	}
}

// documented runs the examples of docs/templates.md with kubectl.
func (f *fixture) documented(t *testing.T) {
	page, err := os.ReadFile("../../docs/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "### With kubectl\n")
	if !found {
		t.Fatal("the section is gone")
	}
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, found = strings.Cut(block, "```\n")
	if !found {
		t.Fatal("the section has no commands")
	}
	example, _, _ := strings.Cut(strings.SplitN(string(page), "```yaml\n", 2)[1], "```\n")
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "fedora.yaml"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", block)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "PATH="+kubectl+":"+os.Getenv("PATH"), "KUBECONFIG="+f.Kubeconfig(), "HOME="+folder)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, want := range []string{"virtualmachinetemplate.template.kubevirt.io/fedora created", `"kind":"ProcessedVirtualMachineTemplate"`, `"kind":"TemplateReview"`, "FIELDS", "spec.parameters", `"name":"virtualmachinetemplates/process"`} {
		if !strings.Contains(strings.ReplaceAll(string(output), "FIELD:", "FIELDS"), want) {
			t.Errorf("the commands do not print %s:\n%s", want, output)
		}
	}
}
