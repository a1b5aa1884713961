package glance

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/virtualimages"
)

// AuthNone is the auth_type of a Glance without Keystone. It needs image_endpoint_override.
const AuthNone = "none"

// The reasons of a login that fails.
const (
	ReasonRejected      = "CredentialsRejected"
	ReasonMisconfigured = "CloudMisconfigured"
)

// entry is a cloud of clouds.yaml, as far as it is read here.
type entry struct {
	AuthType string `json:"auth_type"`
	Endpoint string `json:"image_endpoint_override"`
	Compute  string `json:"compute_endpoint_override"`
	Volumes  string `json:"block_storage_endpoint_override"`
	Region   string `json:"region_name"`
	Profile  string `json:"profile"`
	Cloud    string `json:"cloud"`
	// CACert, Cert and Key are paths.
	CACert string `json:"cacert"`
	Cert   string `json:"cert"`
	Key    string `json:"key"`
}

func misconfigured(format string, args ...any) error {
	return &backend.Unavailable{Reason: ReasonMisconfigured, Message: texts.Shorten(texts.OneLine(fmt.Sprintf(format, args...)), maxText)}
}

// find reads a cloud of a file. No error quotes the file, which has passwords.
func find(file []byte, cloud string) (*entry, error) {
	var list struct {
		Clouds map[string]entry `json:"clouds"`
	}
	if err := yaml.Unmarshal(file, &list); err != nil {
		return nil, misconfigured("clouds.yaml is not YAML, or does not have the form of OpenStack")
	}
	found, ok := list.Clouds[cloud]
	switch {
	case !ok:
		return nil, misconfigured("clouds.yaml has no cloud %q", cloud)
	case found.Profile != "" || found.Cloud != "":
		return nil, misconfigured("the cloud %q names a profile, which is not supported: set auth_url", cloud)
	}
	for _, override := range []struct {
		url      string
		required bool
		example  string
	}{
		{found.Endpoint, found.AuthType == AuthNone, "an image_endpoint_override such as https://glance.example.com:9292"},
		{found.Compute, false, "a compute_endpoint_override such as https://nova.example.com:8774/v2.1"},
		{found.Volumes, false, "a block_storage_endpoint_override such as https://cinder.example.com:8776/v3/PROJECT"},
	} {
		if override.url == "" && !override.required {
			continue
		}
		u, err := url.Parse(override.url)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
			return nil, misconfigured("the cloud %q needs %s", cloud, override.example)
		}
	}
	return &found, nil
}

// connection is a login: Glance, and where the services are whose objects use its images.
type connection struct {
	*gophercloud.ServiceClient

	compute, volumes place
}

// connect logs in to a cloud: with a password, a token or an application credential. Paths in the file begin in a folder.
func connect(ctx context.Context, file []byte, cloud, folder string, state *breaker) (*connection, error) {
	found, err := find(file, cloud)
	if err != nil {
		return nil, err
	}
	if found.AuthType == AuthNone {
		return &connection{
			ServiceClient: serviceOf(&gophercloud.ProviderClient{HTTPClient: httpClient(nil, state)}, found.Endpoint),
			compute:       placeOf(found.Compute, errors.New("clouds.yaml has no compute_endpoint_override"), state),
			volumes:       placeOf(found.Volumes, errors.New("clouds.yaml has no block_storage_endpoint_override"), state),
		}, nil
	}
	options := []clouds.ParseOption{clouds.WithCloudsYAML(bytes.NewReader(file)), clouds.WithCloudName(cloud)}
	for path, with := range map[*string]func(string) clouds.ParseOption{&found.CACert: clouds.WithCACertPath, &found.Cert: clouds.WithClientCertPath, &found.Key: clouds.WithClientKeyPath} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(folder, *path)
		}
		options = append(options, with(*path))
	}
	auth, where, encryption, err := parse(options)
	switch {
	case err != nil:
		return nil, misconfigured("clouds.yaml cannot be used: cacert, cert and key must be files in PEM beside it")
	case auth.IdentityEndpoint == "":
		return nil, misconfigured("the cloud %q has no auth_url", cloud)
	}
	auth.AllowReauth = auth.TokenID == "" // a token without a scope cannot be renewed
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(httpClient(encryption, state)))
	if err != nil {
		return nil, loginError(err)
	}
	catalog := func(override string, of *service) (string, error) {
		if override != "" {
			return override, nil
		}
		return endpointIn(provider.GetAuthResult(), where, of)
	}
	endpoint, err := catalog(found.Endpoint, &glanceService)
	if err != nil {
		return nil, err
	}
	compute, noCompute := catalog(found.Compute, &nova)
	volumes, noVolumes := catalog(found.Volumes, &cinder)
	return &connection{ServiceClient: serviceOf(provider, endpoint), compute: placeOf(compute, noCompute, state), volumes: placeOf(volumes, noVolumes, state)}, nil
}

// placeOf is a service at a URL, or the reason why there is none. Its calls have a breaker of their own.
func placeOf(endpoint string, missing error, like *breaker) place {
	if endpoint == "" {
		return place{missing: missing.Error()}
	}
	return place{url: strings.TrimSuffix(endpoint, "/") + "/", state: &breaker{now: like.now}}
}

// parse reads clouds.yaml with gophercloud, which expects that the cloud has the field auth.
func parse(options []clouds.ParseOption) (auth gophercloud.AuthOptions, where gophercloud.EndpointOpts, encryption *tls.Config, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the cloud has no field auth")
		}
	}()
	return clouds.Parse(options...) //nolint:wrapcheck // it is not shown: it can quote the file
}

// serviceOf is a Glance at a URL, which may end with the version.
func serviceOf(provider *gophercloud.ProviderClient, endpoint string) *gophercloud.ServiceClient {
	endpoint = strings.TrimSuffix(strings.TrimSuffix(endpoint, "/"), "/v2") + "/"
	return &gophercloud.ServiceClient{ProviderClient: provider, Type: "image", Endpoint: endpoint, ResourceBase: endpoint + "v2/"}
}

// httpClient bounds answers and follows no redirects: a password and a token reach no other server.
func httpClient(encryption *tls.Config, state *breaker) http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // as net/http documents
	transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = 8, time.Minute
	if encryption != nil {
		encryption.MinVersion = tls.VersionTLS12
		transport.TLSClientConfig = encryption
	}
	return http.Client{
		Transport:     bounded{guarded{transport, state}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// endpointIn is the URL of a service in the catalog of a token.
func endpointIn(result gophercloud.AuthResult, where gophercloud.EndpointOpts, of *service) (string, error) {
	catalog, err := catalogOf(result)
	if err != nil {
		return "", misconfigured("the token of the cloud has no catalog of services: its account needs a project")
	}
	regions := map[string]string{}
	for i := range catalog.Entries {
		if !slices.Contains(of.types, catalog.Entries[i].Type) {
			continue
		}
		for _, e := range catalog.Entries[i].Endpoints {
			if e.Interface == string(where.Availability) && (where.Region == "" || where.Region == e.Region || where.Region == e.RegionID) {
				regions[e.Region] = e.URL
			}
		}
	}
	names := make([]string, 0, len(regions))
	for name := range regions {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case len(names) == 0 && where.Region != "":
		return "", misconfigured("the catalog of the cloud has no %s with the interface %s in the region %s", of.name, where.Availability, where.Region)
	case len(names) == 0:
		return "", misconfigured("the catalog of the cloud has no %s with the interface %s", of.name, where.Availability)
	case len(names) > 1:
		return "", misconfigured("clouds.yaml needs a region_name: %s is in the regions %s", of.name, strings.Join(names, ", "))
	}
	return regions[names[0]], nil
}

func catalogOf(result gophercloud.AuthResult) (*tokens.ServiceCatalog, error) {
	with, ok := result.(interface {
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	})
	if !ok {
		return nil, errors.New("no catalog")
	}
	return with.ExtractServiceCatalog() //nolint:wrapcheck // it is not shown
}

// loginError says why a login failed. It quotes neither the request nor the answer.
func loginError(err error) error {
	switch status := statusOf(err); {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return &backend.Unavailable{Reason: ReasonRejected, Message: "the cloud rejects the credentials of clouds.yaml"}
	case status >= 300 && status < 500:
		return misconfigured("auth_url does not lead to Keystone with the version 3: it answers %d", status)
	case status >= http.StatusInternalServerError:
		return unreachable("Keystone answers " + fmt.Sprint(status))
	}
	return unreachable("Keystone does not answer")
}

func unreachable(message string) error {
	return &backend.Unavailable{Reason: virtualimages.ReasonUnreachable, Message: message}
}
