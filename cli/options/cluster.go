package options

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/openapi/cached"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/platform"
)

// Connect returns a client of the cluster that the flags select.
func Connect(flags *genericclioptions.ConfigFlags) (*offline.Cluster, error) {
	return connect(flags, rest.NoWarnings{}) // users cannot change that a kind is deprecated
}

// ConnectWarning is Connect for commands that write objects. It writes the warnings of the API server.
func ConnectWarning(flags *genericclioptions.ConfigFlags, w io.Writer) (*offline.Cluster, error) {
	return connect(flags, rest.NewWarningWriter(w, rest.WarningWriterOptions{Deduplicate: true}))
}

func connect(flags *genericclioptions.ConfigFlags, warnings rest.WarningHandler) (*offline.Cluster, error) {
	config, err := RESTConfig(flags)
	if err != nil {
		return nil, err
	}
	if err := namesCluster(flags, config); err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 300 // as kubectl
	config.WarningHandler = warnings
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	objects, err := platform.NewObjects(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	published := openapi3.NewRoot(cached.NewClient(discoverer.OpenAPIV3()))
	return &offline.Cluster{Client: client, Objects: objects, Discovery: discoverer, OpenAPI: published, Namespace: namespace}, nil
}

// namesCluster returns an error if neither the flags nor a kubeconfig name a cluster: client-go would try localhost.
func namesCluster(flags *genericclioptions.ConfigFlags, config *rest.Config) error {
	kubeconfig, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if len(kubeconfig.Clusters) == 0 && *flags.APIServer == "" && strings.HasSuffix(config.Host, "localhost:8080") {
		return errors.New("no kubeconfig names a cluster: give one with --kubeconfig or KUBECONFIG, or files with -f")
	}
	return nil
}
