package cel

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/utils/lru"

	"github.com/virtward/virtward/api/apikinds"
)

// The names that an expression knows.
const (
	varObject       = "object"
	varOldObject    = "oldObject"
	varVM           = "vm"
	varProvenance   = "provenance"
	varPlatform     = "platform"
	varInstancetype = "instancetype"
	varPreference   = "preference"
	varRequest      = "request"
	varRequester    = "requester"
	varRollout      = "rollout"
	varReferences   = "references"
	varPod          = "pod"
	varDomain       = "domain"
	varTargets      = "migrationTargets"
	varNamespace    = "namespaceObject"
	varParams       = "params"
	varVariables    = "variables"
	varAuthorizer   = "authorizer"
	// varRequestResource is one name, as in native policies.
	varRequestResource = "authorizer.requestResource"
)

// Names are the names of the variables that every expression knows, sorted.
func Names() []string {
	names := []string{
		varObject, varOldObject, varVM, varProvenance, varPlatform, varInstancetype, varPreference,
		varRequest, varRequester, varRollout, varReferences, varPod, varDomain, varTargets, varNamespace, varParams, varVariables, varAuthorizer,
	}
	slices.Sort(names)
	return names
}

// kubernetes is the version whose CEL this is: its libraries, its costs. The libraries do not depend on the
// cluster, so that a policy means the same everywhere.
var kubernetes = version.MajorMinor(1, 37)

// Environment holds what all scopes share: the types and the libraries. It is immutable and safe for concurrent use;
// making one takes tens of milliseconds.
type Environment struct {
	base   *celgo.Env
	kinds  map[string]*apicel.DeclType
	types  map[string]*apicel.DeclType
	shapes *shapes
	// variables are those with the same type in every scope.
	variables map[string]*apicel.DeclType
	bindings  map[string]*functions.Overload
	functions interpreter.Dispatcher
	// keys makes qualifiers of keys of maps and of indices that are computed.
	keys     interpreter.AttributeFactory
	patterns *recent
	// scopes are those that policies have now, and views those of the scopes that were used last.
	scopes *shared[digest, Scope]
	views  *lru.Cache
}

// Shared returns an environment that all callers in the process share. It is for programs that evaluate now and then; processes that
// account for their memory make one.
var Shared = sync.OnceValues(NewEnvironment)

// NewEnvironment reads the schemas. An error is a mistake in the program.
func NewEnvironment() (*Environment, error) {
	d := &declarer{named: map[string]*apicel.DeclType{}}
	kinds := map[string]*apicel.DeclType{}
	machines := apikinds.Machines()
	for i := range machines {
		kind := machines[i].Kind
		if machines[i].Parameters {
			kinds[kind] = nil // known, and untyped: parameters have values of other types
			continue
		}
		declared, err := d.embedded(kind)
		if err != nil {
			return nil, err
		}
		kinds[kind] = declared
	}

	plugin, err := d.embedded(apikinds.Plugins.Kind)
	if err != nil {
		return nil, err
	}
	kinds[apikinds.Plugins.Kind] = plugin

	variables, err := everywhere(d)
	if err != nil {
		return nil, err
	}
	read := &shapes{}
	image, url := addressTypes()
	options := append([]celgo.EnvOption{
		celgo.Variable(varAuthorizer, library.AuthorizerType),
		celgo.Variable(varRequestResource, library.ResourceCheckType),
	}, addressFunctions(read, image, url)...)
	all := map[string]*apicel.DeclType{}
	registered(all, image, url)
	for _, kind := range kinds {
		registered(all, kind)
	}
	for _, v := range variables {
		options = append(options, celgo.Variable(v.name, v.declared.CelType()))
		registered(all, v.declared)
	}
	base, err := environment.MustBaseEnvSet(kubernetes).StoredExpressionsEnv().Extend(options...)
	if err != nil {
		return nil, fmt.Errorf("making the CEL environment: %w", err)
	}
	e := &Environment{base: base, kinds: kinds, types: all, shapes: read, variables: map[string]*apicel.DeclType{}, patterns: newRecent(), scopes: newShared[digest, Scope](), views: lru.New(maxViews)}
	for _, v := range variables {
		e.variables[v.name] = v.declared
	}
	e.keys = interpreter.NewAttributeFactory(base.Container, base.CELTypeAdapter(), base.CELTypeProvider())
	if e.bindings, err = bindings(base); err != nil {
		return nil, fmt.Errorf("reading the functions of CEL: %w", err)
	}
	if e.functions, err = e.dispatcher(); err != nil {
		return nil, fmt.Errorf("reading the functions of CEL: %w", err)
	}
	return e, nil
}

type variable struct {
	name     string
	declared *apicel.DeclType
}

// everywhere are the variables whose types are the same in every scope.
func everywhere(d *declarer) ([]variable, error) {
	embedded := map[string]*apicel.DeclType{}
	for _, name := range []string{"ObjectMeta", "VirtualMachineInstanceSpec", "VirtualMachineInstancetypeSpec", "VirtualMachinePreferenceSpec", "PodSpec", "Domain"} {
		declared, err := d.embedded(name)
		if err != nil {
			return nil, err
		}
		embedded[name] = declared
	}
	words := apicel.NewListType(apicel.StringType, hintItems)
	meta := embedded["ObjectMeta"]
	return []variable{
		{varVM, objectType("EffectiveVM", field("apiVersion", apicel.StringType), field("kind", apicel.StringType),
			field("metadata", meta), field("spec", embedded["VirtualMachineInstanceSpec"]))},
		{varProvenance, apicel.NewMapType(apicel.StringType, apicel.StringType, hintKeys)},
		{varPlatform, objectType("Platform", field("hypervisor", apicel.StringType), field("hypervisorDevice", apicel.StringType),
			field("architecture", apicel.StringType), field("defaultArchitecture", apicel.StringType), field("featureGates", words), field("kubeVirtUsers", words))},
		{varInstancetype, embedded["VirtualMachineInstancetypeSpec"]},
		{varPreference, embedded["VirtualMachinePreferenceSpec"]},
		{varNamespace, objectType(apikinds.Namespace, field("apiVersion", apicel.StringType), field("kind", apicel.StringType), field("metadata", meta))},
		{varRequester, apicel.StringType},
		{varRollout, objectType("Rollout", field("restart", words), field("migration", words), field("never", words), field("unknown", apicel.BoolType))},
		{varReferences, referencesType(words)},
		{varPod, objectType("LauncherPod", field("apiVersion", apicel.StringType), field("kind", apicel.StringType), field("metadata", meta), field("spec", embedded["PodSpec"]))},
		{varDomain, embedded["Domain"]},
		{varTargets, apicel.IntType},
		{varRequest, requestType(words)},
	}, nil
}

// requestType is what native policies know of a request.
func requestType(words *apicel.DeclType) *apicel.DeclType {
	text := apicel.StringType
	kind := objectType("GroupVersionKind", field("group", text), field("version", text), field("kind", text))
	resource := objectType("GroupVersionResource", field("group", text), field("version", text), field("resource", text))
	user := objectType("UserInfo", field("username", text), field("uid", text), field("groups", words),
		field("extra", apicel.NewMapType(text, words, hintKeys)))
	return objectType("Request", field("operation", text), field("kind", kind), field("resource", resource),
		field("subResource", text), field("name", text), field("namespace", text), field("userInfo", user),
		field("dryRun", apicel.BoolType), field("options", apicel.DynType))
}

func objectType(name string, fields ...*apicel.DeclField) *apicel.DeclType {
	byName := make(map[string]*apicel.DeclField, len(fields))
	for _, f := range fields {
		byName[f.Name] = f
	}
	return apicel.NewObjectType(name, byName)
}

func field(name string, declared *apicel.DeclType) *apicel.DeclField {
	return apicel.NewDeclField(name, declared, true, nil, nil)
}

// known lists names for a message.
func known(names []string) string { return strings.Join(names, ", ") }
