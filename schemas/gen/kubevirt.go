package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
)

// module has KubeVirt's operator, with the schemas that it installs.
const module = "kubevirt.io/kubevirt"

// generated is the file with these schemas.
const generated = "pkg/virt-operator/resource/generate/components/validations_generated.go"

// release is the release of KubeVirt from which the schemas of a minor version are read.
type release struct {
	minor, version string
	// sum and types are the checksums of the modules of the operator and of KubeVirt's types, as in go.sum.
	sum, types string
}

// releases has the supported minor versions.
var releases = []release{
	{minor: "1.6", version: "v1.6.0", sum: "h1:xk7NgCHB3PVedEbuR7J+ehfR6ihmoDrjpl8tG3on3VE=", types: "h1:ZO3Dh0b24PCdCe76uLD4cRusXKrcarOzt229UFly7PQ="},
	{minor: "1.7", version: "v1.7.0", sum: "h1:Emz0v1IGKwTvWvD+d0mZmfZFvVCxreSAPAUQnp0ZhZI=", types: "h1:Kxmtk6HtFkKpZA7UcTRHWoxFKnwJaUmPzTXQVmvP5Bc="},
	{minor: "1.8", version: "v1.8.2", sum: "h1:qUnQPvFHlNqA4aQxvKCyX+mfgwE4mwELM82cOJ75ujE=", types: "h1:h8AACJlity2n8gRE6e9PgikLAwzmNz6gzVjT1kbsDZY="},
	{minor: "1.9", version: "v1.9.0", sum: "h1:eauQfI39dRALNciMIQtR7UsbTUjUft5V6IBO57Icl/k=", types: "h1:FWqx9yGk/GHUP5o4IthGXZ8FeAlgVNv2It48wD86UUo="},
}

// before is the release before the supported ones. It shows which versions of kinds the oldest supported one no longer serves.
var before = release{minor: "1.5", version: "v1.5.2", sum: "h1:03lINnhEL1OjsF/lyBtyY0GmIBN/JcR0Cw9ABu7IP0M=", types: "h1:ugul5yJOmvXRIHH0IUwU2FKMnENvGUCqfBKPDZ4chFA="}

// kind is a kind of KubeVirt whose schema is archived.
type kind struct {
	apikinds.Resource

	// schema is the name of its schema in the operator.
	schema string
	// cluster kinds have no namespace. The others are subresources.
	cluster, status, scale bool
}

// kinds has the kinds that the CLI evaluates.
var kinds = slices.Concat(machines(), []kind{
	{Resource: apikinds.Presets, schema: "virtualmachineinstancepreset"},
	{Resource: apikinds.Instancetypes, schema: "virtualmachineinstancetype"},
	{Resource: apikinds.ClusterInstancetypes, schema: "virtualmachineclusterinstancetype", cluster: true},
	{Resource: apikinds.Preferences, schema: "virtualmachinepreference"},
	{Resource: apikinds.ClusterPreferences, schema: "virtualmachineclusterpreference", cluster: true},
})

// machines returns the kinds with a virtual machine that KubeVirt defines.
func machines() (all []kind) {
	for _, m := range apikinds.MachineKinds(func(m *apikinds.Machine) bool { return m.Schema != "" }) {
		all = append(all, kind{Resource: m.Resource, schema: m.Schema, status: m.Status, scale: m.Scale})
	}
	return all
}

// add adds the definitions of a release to the entries of the archive.
func (r release) add(entries map[string][]byte) error {
	folder, err := download(module, r.version, r.sum)
	if err != nil {
		return err
	}
	schemas, err := schemasIn(filepath.Join(folder, filepath.FromSlash(generated)))
	if err != nil {
		return err
	}
	for _, k := range kinds {
		text, found := schemas[k.schema]
		if !found {
			return fmt.Errorf("the operator has no schema of %s", k.schema)
		}
		var validation apiextensionsv1.CustomResourceValidation
		if err := yaml.UnmarshalStrict([]byte(text), &validation); err != nil {
			return fmt.Errorf("%s: %w", k.schema, err)
		}
		if err := addDefinition(entries, r.minor, k.definition(&validation)); err != nil {
			return err
		}
	}
	return nil
}

// download returns the folder of a module, after it compares the checksum.
func download(module, version, sum string) (string, error) {
	// Outside of a module, so that the requirements of this one do not change.
	command := exec.CommandContext(context.Background(), "go", "mod", "download", "-json", module+"@"+version)
	command.Dir, command.Env = os.TempDir(), append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	output, err := command.Output()
	var downloaded struct{ Dir, Sum, Error string }
	if decoding := json.Unmarshal(output, &downloaded); decoding != nil {
		return "", errors.Join(err, decoding)
	}
	switch {
	case downloaded.Error != "":
		return "", errors.New(downloaded.Error)
	case err != nil:
		return "", err
	case downloaded.Sum != sum:
		return "", fmt.Errorf("the checksum of %s is %s, not %s", module, downloaded.Sum, sum)
	}
	return downloaded.Dir, nil
}

// schemasIn reads the only variable of a Go file: a map of texts.
func schemasIn(file string) (map[string]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	schemas := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		entry, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, value := literal(entry.Key), literal(entry.Value)
		if key != "" && value != "" {
			schemas[key] = value
		}
		return false
	})
	return schemas, nil
}

// literal returns the value of a constant text, or "".
func literal(e ast.Expr) string {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(l.Value)
	if err != nil {
		return ""
	}
	return text
}

// definition returns the definition of a kind with the schema. All versions of a kind have the same schema.
func (k kind) definition(validation *apiextensionsv1.CustomResourceValidation) *apiextensionsv1.CustomResourceDefinition {
	version := apiextensionsv1.CustomResourceDefinitionVersion{Name: k.Version, Served: true, Storage: true, Schema: validation}
	if k.status {
		version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	if k.scale {
		version.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"}
	}
	scope := apiextensionsv1.NamespaceScoped
	if k.cluster {
		scope = apiextensionsv1.ClusterScoped
	}
	d := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: k.Group, Scope: scope, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: k.GroupVersionKind.Kind, Plural: k.Plural},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
	}}
	d.Name = k.Plural + "." + k.Group
	return d
}
