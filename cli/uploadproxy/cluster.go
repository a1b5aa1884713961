package uploadproxy

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/cli/options"
)

// The kinds of CDI that an upload uses.
var (
	tokenRequests = schema.GroupVersionResource{Group: "upload.cdi.kubevirt.io", Version: "v1beta1", Resource: "uploadtokenrequests"}
	configs       = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "cdiconfigs"}
)

// maxAuthorities bounds the file with the certificates in bytes.
const maxAuthorities = 1 << 20

// Flags say where the proxy is. Their zero value is what the cluster says.
type Flags struct {
	url, authority string
	insecure       bool
}

// Add adds the flags to a command.
func (f *Flags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "uploadproxy-url", "", "URL of CDI's upload proxy. By default that of the cdiconfig config")
	flags.StringVar(&f.authority, "uploadproxy-ca", "", "File with certificates of authorities that sign that of the upload proxy")
	flags.BoolVar(&f.insecure, "insecure", false, "Accept every certificate of the upload proxy, and http")
}

// Find returns the options with the proxy that the flags name, or else CDI's configuration.
func (f *Flags) Find(ctx context.Context, cluster dynamic.Interface) (Options, error) {
	found := Options{URL: f.url, Insecure: f.insecure}
	var err error
	if found.Authorities, err = f.authorities(); err != nil {
		return Options{}, err
	}
	if found.URL != "" && (len(found.Authorities) > 0 || f.insecure) {
		return found, nil
	}
	url, authorities, err := configured(ctx, cluster)
	if err != nil && found.URL == "" {
		return Options{}, err
	}
	if found.URL == "" {
		found.URL = url
	}
	if len(found.Authorities) == 0 {
		found.Authorities = authorities
	}
	return found, nil
}

// authorities are the certificates of the file.
func (f *Flags) authorities() ([]byte, error) {
	if f.authority == "" {
		return nil, nil
	}
	if info, err := os.Stat(f.authority); err == nil && info.Size() > maxAuthorities {
		return nil, options.Usagef("--uploadproxy-ca: %s has more than 1 MiB", f.authority)
	}
	data, err := os.ReadFile(f.authority)
	if err != nil {
		return nil, options.Usagef("--uploadproxy-ca: %w", err)
	}
	return data, nil
}

// configured is what CDI's configuration says about the proxy.
func configured(ctx context.Context, cluster dynamic.Interface) (url string, authorities []byte, err error) {
	const remedy = "give the URL of CDI's upload proxy with --uploadproxy-url"
	read, err := cluster.Resource(configs).Get(ctx, "config", metav1.GetOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("reading the cdiconfig config: %w: %s", err, remedy)
	}
	field := func(path ...string) string {
		text, _, _ := unstructured.NestedString(read.Object, path...) // another type counts as none
		return text
	}
	url, authorities = field("spec", "uploadProxyURLOverride"), []byte(field("status", "uploadProxyCA"))
	if url == "" {
		url = field("status", "uploadProxyURL")
	}
	if url == "" {
		return "", authorities, errors.New("the cdiconfig config has no URL of the upload proxy: " + remedy)
	}
	return url, authorities, nil
}

// Token requests a token for the upload of a claim, with the rights of the user.
func Token(ctx context.Context, cluster dynamic.Interface, namespace, claim string) (string, error) {
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": tokenRequests.GroupVersion().String(), "kind": "UploadTokenRequest",
		"metadata": map[string]any{"name": claim, "namespace": namespace},
		"spec":     map[string]any{"pvcName": claim},
	}}
	answer, err := cluster.Resource(tokenRequests).Namespace(namespace).Create(ctx, request, metav1.CreateOptions{FieldManager: "kubectl-virtward"})
	if err != nil {
		return "", fmt.Errorf("requesting a token of CDI: %w", err)
	}
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	if token == "" {
		return "", errors.New("CDI answers a request for a token without one")
	}
	return token, nil
}
