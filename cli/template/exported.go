package template

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/downloads"
	"github.com/virtward/virtward/cli/forwards"
	"github.com/virtward/virtward/exportserver/exports"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/texts"
)

// exportKind is the kind of exports, and exportResource their resource.
const exportKind = "VirtualMachineTemplateExport"

// maxFollowed bounds the objects from a volume to its content: DataSources can refer to each other.
const maxFollowed = 5

var (
	exportResource = v1beta1.GroupVersion.WithResource("virtualmachinetemplateexports")
	secretResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// export is what the command reads of a VirtualMachineTemplateExport.
type export = v1beta1.VirtualMachineTemplateExport

// sourceNamespaces are the namespaces of the volumes of the template, beside that of the export. They are read again by the cluster, so that
// what cannot be read here is left to it.
func (x *exporting) sourceNamespaces(ctx context.Context, namespace string) ([]string, error) {
	object, err := x.cluster.Client.Resource(apikinds.Templates.GroupVersionResource()).Namespace(namespace).Get(ctx, x.template, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	template := &v1beta1.VirtualMachineTemplate{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, template); err != nil {
		return nil, fmt.Errorf("the template %s/%s: %w", namespace, x.template, err)
	}
	of := &v1beta1.VirtualMachineTemplateExport{}
	of.Namespace, of.Spec.Format = namespace, x.format()
	var namespaces []string
	for _, v := range exports.Evaluate(of, template).Volumes {
		at := &v.Source
		for range maxFollowed {
			if at == nil {
				break
			}
			if at.Namespace != namespace && !slices.Contains(namespaces, at.Namespace) && len(namespaces) < v1beta1.MaxExportNamespaces {
				namespaces = append(namespaces, at.Namespace)
			}
			at = x.follow(ctx, at)
		}
	}
	return namespaces, nil
}

// follow is what a DataSource refers to; nil for other objects, and for one that cannot be read.
func (x *exporting) follow(ctx context.Context, at *v1beta1.ExportSource) *v1beta1.ExportSource {
	if at.Kind != apikinds.DataSource {
		return nil
	}
	object, err := x.cluster.Client.Resource(apikinds.DataSources.GroupVersionResource()).Namespace(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	source := &cdiv1beta1.DataSource{}
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, source) != nil {
		return nil
	}
	next, fault := exports.Follow(source)
	if fault != nil {
		return nil
	}
	return next
}

func exportOf(object *unstructured.Unstructured) (*export, error) {
	e := &export{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, e); err != nil {
		return nil, fmt.Errorf("the export %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return e, nil
}

// isReady reports whether the file can be downloaded. The error is why it cannot be exported.
func isReady(e *export) (bool, error) {
	ready := meta.FindStatusCondition(e.Status.Conditions, v1beta1.RequestReady)
	progressing := meta.FindStatusCondition(e.Status.Conditions, v1beta1.RequestProgressing)
	switch {
	case ready == nil || progressing == nil:
		return false, nil
	case ready.Status == metav1.ConditionTrue:
		return true, nil
	case progressing.Status == metav1.ConditionFalse:
		return false, fmt.Errorf("the export failed: %s: %s", progressing.Reason, texts.OneLine(cmp.Or(progressing.Message, ready.Message)))
	}
	return false, nil
}

// doing says what happens now; empty if it is not known.
func doing(e *export) string {
	current := meta.FindStatusCondition(e.Status.Conditions, v1beta1.RequestProgressing)
	if current == nil {
		return ""
	}
	return strings.TrimRight(texts.OneLine(current.Reason+": "+current.Message), ": ")
}

// connect returns the options of the download: the link outside of the cluster, or the one inside through a port of its pod. The function
// ends the connections.
func (x *exporting) connect(ctx context.Context, e *export) (o downloads.Options, end func(), err error) {
	end = func() {}
	token, err := x.token(ctx, e)
	if err != nil {
		return o, end, err
	}
	links := cmp.Or(e.Status.Links, &v1beta1.ExportLinks{})
	link, inside := links.External, false
	if link == nil || x.portForward {
		link, inside = links.Internal, true
	}
	if link == nil {
		return o, end, errors.New("the export has no link")
	}
	at, err := url.Parse(link.URL)
	if err != nil || at.Scheme != "https" || at.Hostname() == "" {
		return o, end, fmt.Errorf("the link of the export is %q: it must be a URL with https", link.URL)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableCompression: true, ResponseHeaderTimeout: time.Minute, TLSHandshakeTimeout: 30 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	end = transport.CloseIdleConnections
	if link.Cert != "" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(link.Cert)) {
			return o, end, errors.New("the link of the export has no certificate in PEM")
		}
		transport.TLSClientConfig.RootCAs = roots
	}
	if inside {
		service, err := x.service(e.Namespace, at)
		if err != nil {
			return o, end, err
		}
		transport.Proxy, transport.DialContext = nil, service.DialContext
		end = func() {
			transport.CloseIdleConnections()
			service.Close()
		}
	}
	// A token must not follow a redirect.
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return downloads.Options{
		Client: client, URL: link.URL, Header: http.Header{transfer.TokenHeader: {token}}, To: x.to, Overwrite: x.overwrite, ErrOut: x.program.Streams.ErrOut,
	}, end, nil
}

// service dials the Service of a link, which is NAME.NAMESPACE.svc.
func (x *exporting) service(namespace string, at *url.URL) (*forwards.Service, error) {
	name, rest, _ := strings.Cut(at.Hostname(), ".")
	if within, _, _ := strings.Cut(rest, "."); within != namespace {
		return nil, fmt.Errorf("the link of the export is %s: it must be a Service of its namespace", at.Hostname())
	}
	port := 443
	if text := at.Port(); text != "" {
		var err error
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return nil, fmt.Errorf("the link of the export has the port %q", text)
		}
	}
	config, err := x.Config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return forwards.New(config, namespace, name, int32(port)) //nolint:gosec // bounded above
}

// token reads the token of an export.
func (x *exporting) token(ctx context.Context, e *export) (string, error) {
	name := e.Status.TokenSecretRef
	if name == "" {
		return "", errors.New("the export has no Secret with a token")
	}
	secret, err := x.cluster.Client.Resource(secretResource).Namespace(e.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the token of the export: %w", err)
	}
	text, _, _ := unstructured.NestedString(secret.Object, "data", "token") // empty if it is absent
	token, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(token) == 0 {
		return "", fmt.Errorf("the Secret %s has no key token", name)
	}
	return strings.TrimSpace(string(token)), nil
}
