package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/virtward/virtward/api/apikinds"
)

// seen are the values of Documents that were read so far.
type seen struct {
	object, oldObject, vm, provenance, platform, instancetype, preference, request, namespace, rollout, references, pod, domain, targets ref.Val
}

// Activation is one evaluation of the expressions of a scope: what they read, converted when it is first read, and
// the variables, evaluated when they are. It belongs to one goroutine.
type Activation struct {
	scope     *Scope
	documents *Documents
	budget    *Budget
	params    ref.Val
	variables variables
	// paid are the previews that the budget paid for.
	paid map[string]bool
}

var _ interpreter.Activation = (*Activation)(nil)

// Activation begins an evaluation.
func (s *Scope) Activation(d *Documents) *Activation {
	a := &Activation{scope: s, documents: d}
	a.variables.activation = a
	return a
}

// HasRead reports whether an expression has read a variable of the policy.
func (a *Activation) HasRead(variable string) bool {
	i, ok := a.scope.names[variable]
	return ok && a.variables.values != nil && a.variables.values[i] != nil
}

// Parent is nil: there are no other names.
func (a *Activation) Parent() interpreter.Activation { return nil }

// ResolveName is the value of a variable.
func (a *Activation) ResolveName(name string) (any, bool) { //nolint:cyclop // one case for each name
	d, values := a.documents, &a.documents.seen
	switch name {
	case varObject:
		return a.once(&values.object, func() any { return d.Object }), true
	case varOldObject:
		return a.once(&values.oldObject, func() any { return d.OldObject }), true
	case varVM:
		return a.once(&values.vm, func() any {
			if d.VM == nil {
				return nil
			}
			return &effectiveVM{"kubevirt.io/v1", apikinds.VirtualMachineInstance, &d.VM.ObjectMeta, &d.VM.Spec}
		}), true
	case varProvenance:
		return a.once(&values.provenance, func() any { return d.layers() }), true
	case varPlatform:
		return a.once(&values.platform, func() any { return d.describe() }), true
	case varInstancetype:
		return a.once(&values.instancetype, func() any { return d.Instancetype }), true
	case varPreference:
		return a.once(&values.preference, func() any { return d.Preference }), true
	case varNamespace:
		return a.once(&values.namespace, func() any {
			if d.Namespace == nil {
				return nil
			}
			return &namespace{"v1", apikinds.Namespace, &d.Namespace.ObjectMeta}
		}), true
	case varRollout:
		return a.once(&values.rollout, func() any { return d.Rollout.Complete() }), true
	case varReferences:
		return a.references(), true
	case varPod:
		return a.preview(varPod, &values.pod), true
	case varDomain:
		return a.preview(varDomain, &values.domain), true
	case varTargets:
		return a.preview(varTargets, &values.targets), true
	case varRequest:
		return a.request(), true
	case varRequester:
		if d.Requester == "" && d.Request.Operation == "" {
			return notAuditable(varRequester), true
		}
		return types.String(d.Requester), true
	case varParams:
		return a.once(&a.params, func() any {
			if a.scope.values != nil {
				return a.scope.values
			}
			return typed(d.Params, a.scope.options.Params)
		}), true
	case varVariables:
		return &a.variables, true
	case varAuthorizer, varRequestResource:
		return a.authorizer(name), true
	case budgetName:
		return a.budget, true
	}
	return nil, false
}

func (a *Activation) once(known *ref.Val, native func() any) ref.Val {
	if *known == nil {
		*known = a.scope.environment.shapes.valueOf(native())
	}
	return *known
}

func notAuditable(name string) ref.Val {
	return types.WrapErr(&unknown{name})
}

// unknown is the error of reading what is not known without a request.
type unknown struct{ name string }

func (u *unknown) Error() string { return u.name + " is " + ErrNotAuditable.Error() }
func (u *unknown) Unwrap() error { return ErrNotAuditable }

// request is the request, or what is known of the object without one.
func (a *Activation) request() ref.Val {
	d := a.documents
	whole := a.once(&d.seen.request, func() any { return &d.Request })
	if object, ok := whole.(*object); ok && d.Request.Operation == "" {
		d.seen.request = &quietRequest{object: object}
	}
	return d.seen.request
}

// quietRequest is the request of an audit, without a requester.
type quietRequest struct{ *object }

// Get returns what is known about the object.
func (q *quietRequest) Get(key ref.Val) ref.Val {
	switch key {
	case types.String("kind"), types.String("resource"), types.String("name"), types.String("namespace"):
		return q.object.Get(key)
	}
	name, _ := key.(types.String)
	return notAuditable(varRequest + "." + string(name))
}

// IsSet does not answer what is not known.
func (q *quietRequest) IsSet(key ref.Val) ref.Val {
	if v := q.Get(key); types.IsError(v) {
		return v
	}
	return q.object.IsSet(key)
}

func (a *Activation) authorizer(name string) ref.Val {
	d := a.documents
	if d.Authorizer == nil {
		return notAuditable(name)
	}
	asker := &user.DefaultInfo{Name: d.Request.UserInfo.Username, UID: d.Request.UserInfo.UID, Groups: d.Request.UserInfo.Groups}
	if extra := d.Request.UserInfo.Extra; len(extra) > 0 {
		asker.Extra = make(map[string][]string, len(extra))
		for key, values := range extra {
			asker.Extra[key] = values
		}
	}
	if name == varAuthorizer {
		return library.NewAuthorizerVal(asker, d.Authorizer)
	}
	return library.NewResourceAuthorizerVal(asker, d.Authorizer, requested{&d.Request})
}

// requested is the resource of a request, as the authorizer's library asks for it.
type requested struct{ request *Request }

func (r requested) GetName() string        { return r.request.Name }
func (r requested) GetNamespace() string   { return r.request.Namespace }
func (r requested) GetSubresource() string { return r.request.SubResource }
func (r requested) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource(r.request.Resource)
}

// variables are those of the policy: an object whose fields are evaluated when they are first read.
type variables struct {
	noValue
	activation *Activation
	values     []ref.Val
}

var (
	_ traits.FieldTester = (*variables)(nil)
	_ traits.Indexer     = (*variables)(nil)
)

// Get evaluates a variable, once.
func (v *variables) Get(key ref.Val) ref.Val {
	name, _ := key.(types.String)
	scope := v.activation.scope
	i, ok := scope.names[string(name)]
	if !ok {
		return noSuchKey(string(name))
	}
	if v.values == nil {
		v.values = make([]ref.Val, len(scope.variables))
	}
	if v.values[i] == nil {
		value, err := scope.variables[i].eval(v.activation)
		if err != nil {
			value = types.WrapErr(err)
		}
		v.values[i] = value
	}
	return v.values[i]
}

// IsSet reports whether there is a variable of a name.
func (v *variables) IsSet(key ref.Val) ref.Val {
	name, _ := key.(types.String)
	_, ok := v.activation.scope.names[string(name)]
	return types.Bool(ok)
}
