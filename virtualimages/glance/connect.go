package glance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"sigs.k8s.io/yaml"
)

// AuthNone is the auth_type of a Glance without Keystone. It needs image_endpoint_override.
const AuthNone = "none"

// Connect makes a client from a file clouds.yaml. It logs in with the credentials of a cloud: a password, a token or an
// application credential. The client renews its tokens.
func Connect(ctx context.Context, file []byte, cloud string) (*Client, error) {
	endpoint, err := endpointOf(file, cloud)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // as net/http documents
	transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = 8, time.Minute
	if endpoint != "" {
		provider := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: transport}}
		return NewClient(&gophercloud.ServiceClient{ProviderClient: provider, Type: "image", Endpoint: endpoint, ResourceBase: endpoint + "v2/"}), nil
	}
	auth, region, encryption, err := clouds.Parse(clouds.WithCloudsYAML(bytes.NewReader(file)), clouds.WithCloudName(cloud))
	if err != nil {
		return nil, fmt.Errorf("reading clouds.yaml: %w", err)
	}
	auth.AllowReauth = true
	if encryption != nil {
		transport.TLSClientConfig = encryption
	}
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(http.Client{Transport: transport}))
	if err != nil {
		return nil, fmt.Errorf("logging in to the cloud %s: %w", cloud, err)
	}
	service, err := openstack.NewImageV2(provider, region)
	if err != nil {
		return nil, fmt.Errorf("finding Glance in the cloud %s: %w", cloud, err)
	}
	return NewClient(service), nil
}

// endpointOf is the URL of a Glance without Keystone; empty for every other one.
func endpointOf(file []byte, cloud string) (string, error) {
	var list struct {
		Clouds map[string]struct {
			AuthType string `json:"auth_type"`
			Endpoint string `json:"image_endpoint_override"`
		} `json:"clouds"`
	}
	if err := yaml.Unmarshal(file, &list); err != nil {
		return "", errors.New("clouds.yaml is not YAML, or does not have the form of OpenStack") // the error could quote a password
	}
	found, ok := list.Clouds[cloud]
	switch {
	case !ok:
		return "", fmt.Errorf("clouds.yaml has no cloud %q", cloud)
	case found.AuthType != AuthNone:
		return "", nil
	}
	u, err := url.Parse(found.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("the cloud %q has the auth_type none: it needs image_endpoint_override, such as https://glance.example.com:9292", cloud)
	}
	return strings.TrimSuffix(strings.TrimSuffix(found.Endpoint, "/"), "/v2") + "/", nil
}
