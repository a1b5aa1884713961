package guards

import (
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/test/planes"
)

// pool has one control plane with all definitions. Guards are cluster-scoped, and each test creates objects before they are there, so
// each test has it for itself.
var pool = planes.Pool{Options: planes.WithKinds(requiredLabels())}

func TestMain(m *testing.M) { os.Exit(planes.Only(m, pool.Main)) }

// requiredLabels is the definition of the parameters of an original.
func requiredLabels() *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "requiredlabels", Singular: "requiredlabels", Kind: "RequiredLabels", ListKind: "RequiredLabelsList"}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "requiredlabels.constraints.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "constraints.example.com", Scope: apiextensionsv1.ClusterScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}
}
