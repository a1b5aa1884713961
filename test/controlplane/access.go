package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	kupenstackv1alpha1 "github.com/virtward/virtward/api/kupenstack/v1alpha1"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	rolloutv1alpha1 "github.com/virtward/virtward/api/rollout/v1alpha1"
	templatev1beta1 "github.com/virtward/virtward/api/template/v1beta1"
)

// tokenSeconds is the lifetime of the tokens of service accounts: longer than that of any sandbox.
const tokenSeconds = 365 * 24 * 60 * 60

// Scheme knows the kinds of Kubernetes, of KubeVirt, of CDI, of templates and of rollouts that the sandbox serves.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		kubevirtv1.AddToScheme,
		instancetypev1beta1.AddToScheme,
		snapshotv1beta1.AddToScheme,
		cdiv1beta1.AddToScheme,
		templatev1beta1.AddToScheme,
		rolloutv1alpha1.AddToScheme,
		imagev1alpha1.AddToScheme,
		kupenstackv1alpha1.AddToScheme,
		policyv1alpha1.AddToScheme,
	)
	if err := builder.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the sandbox's scheme: %w", err)
	}
	return scheme, nil
}

// Config is the cluster admin's.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// Client is the cluster admin's, without a cache, for the kinds of Scheme.
func (c *ControlPlane) Client() client.WithWatch { return c.client }

// Kubeconfig is the path of the cluster admin's.
func (c *ControlPlane) Kubeconfig() string { return c.home.file("admin.kubeconfig") }

// UserConfig authenticates as a user with groups. The user has the rights that RBAC gives it: none, until
// the test binds a role.
func (c *ControlPlane) UserConfig(name string, groups ...string) (*rest.Config, error) {
	credentials, err := c.authority.client(name, groups...)
	if err != nil {
		return nil, err
	}
	config := c.anonymous()
	config.CertData, config.KeyData = credentials.certificate, credentials.key
	return config, nil
}

// ServiceAccountConfig authenticates as a service account that exists, with a token of the API server.
func (c *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("requesting a token of service account %s/%s: %w", namespace, name, err)
	}
	config := c.anonymous()
	config.BearerToken = request.Status.Token
	return config, nil
}

// WriteKubeconfig writes config into the sandbox's folder and returns the path.
func (c *ControlPlane) WriteKubeconfig(name string, config *rest.Config) (string, error) {
	const entry = "sandbox"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[entry] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos[entry] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	kubeconfig.Contexts[entry] = &clientcmdapi.Context{Cluster: entry, AuthInfo: entry, Namespace: "default"}
	kubeconfig.CurrentContext = entry
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return "", fmt.Errorf("writing the kubeconfig %s: %w", name, err)
	}
	return c.home.write(name+".kubeconfig", content)
}

// ServingCertificate is one for a server on this machine, and the bundle that trusts it: for the simulators
// of servers that the API server calls.
func (c *ControlPlane) ServingCertificate(names ...string) (tls.Certificate, []byte, error) {
	issued, err := c.authority.server(names...)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	certificate, err := issued.tls()
	return certificate, c.authority.pem, err
}

// anonymous is a configuration without credentials and without client-side throttling, which would only
// blur what a test measures.
func (c *ControlPlane) anonymous() *rest.Config {
	return &rest.Config{
		Host:            c.host(),
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem},
	}
}

func (c *ControlPlane) writeClients() error {
	admin, err := c.UserConfig("sandbox-admin", "system:masters")
	if err != nil {
		return err
	}
	if _, err := c.WriteKubeconfig("admin", admin); err != nil {
		return err
	}
	manager, err := c.UserConfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	if _, err := c.WriteKubeconfig("controller-manager", manager); err != nil {
		return err
	}
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	c.admin = admin
	c.client, err = client.NewWithWatch(admin, client.Options{Scheme: scheme})
	return err
}
