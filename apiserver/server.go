package apiserver

import (
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"

	"github.com/virtward/virtward/api/template/subresources"
)

// MaxRequestBody bounds the body of a request, in bytes: a hundred values of a few kilobytes.
const MaxRequestBody = 3 << 20

// NewScheme holds what the API takes and answers.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	subresources.AddToScheme(scheme)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}

// NewConfig is the configuration of the server, to which a caller adds serving, authentication, authorization and
// admission.
func NewConfig(codecs serializer.CodecFactory, scheme *runtime.Scheme, info *version.Info) *genericapiserver.RecommendedConfig {
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.MaxRequestBodyBytes = MaxRequestBody
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return genericapiserver.DefaultBuildHandlerChain(newGates(c.MaxMutatingRequestsInFlight).bodies(handler, codecs), c) // after authorization
	}
	namer := openapi.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = "Virtward", "Virtward"
	if info != nil {
		config.OpenAPIConfig.Info.Version, config.OpenAPIV3Config.Info.Version = info.GitVersion, info.GitVersion
	}
	return config
}

// Install adds the API to a server.
func Install(server *genericapiserver.GenericAPIServer, scheme *runtime.Scheme, codecs serializer.CodecFactory, services *Services) error {
	group := genericapiserver.NewDefaultAPIGroupInfo(subresources.Group, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.NegotiatedSerializer = textOnly{codecs}
	group.PrioritizedVersions = []schema.GroupVersion{subresources.V1Alpha1, subresources.V1Beta1}
	if services.memory == nil {
		services.memory = newGates(defaultInFlight)
	}
	processed, reviews := producing{subresources.ProcessedVirtualMachineTemplate{}}, producing{subresources.TemplateReview{}}
	for _, v := range group.PrioritizedVersions {
		shared := storage{Services: services, version: v}
		group.VersionedResourcesStorageMap[v.Version] = map[string]rest.Storage{
			subresources.Resource:                              parent{},
			subresources.Resource + "/" + subresources.Process: &processing{storage: shared, producing: processed},
			subresources.Resource + "/" + subresources.Create:  &processing{storage: shared, producing: processed, creates: true},
			subresources.Resource + "/" + subresources.Approve: &approving{shared, reviews},
			subresources.Resource + "/" + subresources.Revoke:  &revoking{shared, reviews},
		}
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return fmt.Errorf("installing %s: %w", subresources.Group, err)
	}
	return nil
}

// textOnly takes and answers JSON and YAML. VirtualMachines have no form in protobuf.
type textOnly struct{ serializer.CodecFactory }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (t textOnly) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(t.CodecFactory.SupportedMediaTypes(), func(info runtime.SerializerInfo) bool {
		return info.MediaType != runtime.ContentTypeJSON && info.MediaType != runtime.ContentTypeYAML
	})
}
