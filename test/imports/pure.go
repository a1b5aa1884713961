package imports

import (
	"slices"
	"strings"
)

// pure are the folders of pure packages, with all folders below them. The purity rules of .golangci.yml have the same; a test
// compares them.
var pure = []string{
	"addresses", "api", "cel", "diagnostics", "domain", "effective", "fieldpath", "goldenimages", "hypervisors", "instancetypes", "launcher", "limits/decode", "migrations", "mutators",
	"nodelabels", "nodetuning", "ovf", "placement", "plugins", "policies", "provenance", "rollouts", "sources", "startup", "templates", "texts", "validators", "virtualimages", "vmdk", "oci",
}

// apart are folders below these that are not pure, with the reason.
var apart = map[string]string{
	"sources/artifacts":                 "it reads and writes registries",
	"sources/artifacts/artifactstest":   "it is a registry for tests",
	"sources/registry":                  "it reads registries",
	"sources/signatures":                "it reads signatures in registries",
	"sources/signatures/signaturestest": "it signs for tests",
	"sources/transfers":                 "it starts transfers",
	"sources/web":                       "it reads servers",
	"templates/randomness":              "it draws from the operating system; the edges pass its values to the core",
}

// Pure reports whether the package in a folder of this module is declared pure. Programs of go generate are not.
func Pure(folder string) bool {
	parts := strings.Split(folder, "/")
	if _, excluded := apart[folder]; excluded || slices.Contains(parts, "gen") {
		return false
	}
	return slices.ContainsFunc(pure, func(p string) bool { return folder == p || strings.HasPrefix(folder, p+"/") })
}

// leaves are packages of this module that are not pure, and that pure ones import, with the reason.
var leaves = map[string]string{
	"platform": "pure packages use its Facts, which are values; its watcher and its reader, which have clients, are beside them",
}

// impure are what no pure package reaches.
var impure = []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", "k8s.io/client-go/dynamic", "sigs.k8s.io/controller-runtime", "net/http", "os/exec"}

// isImpure reports whether a package is impure. A scheme has types and no client.
func isImpure(p *Package) bool {
	return slices.ContainsFunc(impure, func(i string) bool {
		return (p.ImportPath == i || strings.HasPrefix(p.ImportPath, i+"/")) && !strings.HasPrefix(p.ImportPath, "k8s.io/client-go/kubernetes/scheme")
	})
}

// library is a module, or a part of it, that pure packages import though it reaches something impure.
type library struct {
	path, reaches, reason string
}

// libraries are the permitted ones. What a library reaches besides is an error.
var libraries = []library{
	{"github.com/open-policy-agent/opa/v1", "net/http os/exec", "built-in functions send requests and the coverage opens a browser; the capabilities of policies have no such function"},
	{"k8s.io/api", "net/http", "types; through apimachinery"},
	{"k8s.io/apimachinery", "net/http", "types and codecs; meta/v1 has the codes of HTTP, and runtime the proxy of streams"},
	{"k8s.io/apiextensions-apiserver", "net/http os/exec", "the validation of schemas; through the feature gates of apiserver"},
	{"k8s.io/apiserver/pkg", "net/http os/exec", "the CEL environment of Kubernetes; through apimachinery and the feature gates"},
	{"k8s.io/component-helpers/resource", "net/http", "the sum of what the containers of a pod request; through apimachinery"},
	{"k8s.io/component-helpers/scheduling", "net/http", "the scheduler's matching of nodes; through apimachinery"},
	{"k8s.io/kube-openapi/pkg/validation", "net/http os/exec", "the validation of schemas, with a bound of the errors; schemas are not loaded from URLs"},
	{"k8s.io/pod-security-admission", "net/http", "the checks of Pod Security; through apimachinery"},
	{"kubevirt.io/api", "net/http", "types; through apimachinery"},
	{"kubevirt.io/containerized-data-importer-api", "net/http", "types; through apimachinery"},
}

// libraryOf returns the permitted library that a package belongs to.
func libraryOf(path string) (library, bool) {
	i := slices.IndexFunc(libraries, func(l library) bool { return path == l.path || strings.HasPrefix(path, l.path+"/") })
	if i < 0 {
		return library{}, false
	}
	return libraries[i], true
}
