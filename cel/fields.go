package cel

import (
	"strings"
	"sync/atomic"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// attributes make the fields of chains, such as those of vm.spec.domain.
type attributes struct{ interpreter.AttributeFactory }

// NewQualifier implements AttributeFactory.
func (a attributes) NewQualifier(of *types.Type, id int64, value any, optional bool) (interpreter.Qualifier, error) {
	made, err := a.AttributeFactory.NewQualifier(of, id, value, optional)
	if constant, ok := made.(interpreter.ConstantQualifier); ok && err == nil {
		if name, ok := constant.Value().(types.String); ok {
			return &chainField{ConstantQualifier: constant, name: string(name)}, nil
		}
	}
	return made, err
}

// AbsoluteAttribute implements AttributeFactory.
func (a attributes) AbsoluteAttribute(id int64, names ...string) interpreter.NamespacedAttribute {
	global := len(names) != 1 || strings.HasPrefix(names[0], ".")
	made := a.AttributeFactory.AbsoluteAttribute(id, names...)
	if global {
		return made
	}
	return &chain{NamespacedAttribute: made, name: names[0]}
}

// chain is a variable with a chain of fields.
type chain struct {
	interpreter.NamespacedAttribute

	name  string
	links []link
	// optional reports whether a field is optional.
	optional bool
}

// link is a part of a chain. Its field is nil if it is something else.
type link struct {
	interpreter.Qualifier

	field *chainField
}

// AddQualifier implements Attribute.
func (c *chain) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	added := link{Qualifier: q}
	if placed, ok := q.(*placedQualifier); ok {
		added.field, _ = placed.ConstantQualifier.(*chainField)
	}
	c.links, c.optional = append(c.links, added), c.optional || q.IsOptional()
	_, err := c.NamespacedAttribute.AddQualifier(q)
	return c, err
}

// Resolve implements Attribute.
func (c *chain) Resolve(vars interpreter.Activation) (any, error) {
	v, found := vars.ResolveName(c.name)
	if failed, ok := v.(*types.Err); ok {
		return nil, failed
	}
	if _, ok := v.(*types.Optional); ok || !found || c.optional {
		return c.NamespacedAttribute.Resolve(vars)
	}
	for i := range c.links {
		l := &c.links[i]
		if o, ok := v.(*object); ok && l.field != nil {
			if read := o.read(l.field.of(o.shape)); read != nil {
				v = read
				continue
			}
		}
		var err error
		if v, err = l.Qualify(vars, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// chainField is a field of a chain. It keeps the field of the Go struct that was read last, so that the next struct of the same
// type is read without a search for the name.
type chainField struct {
	interpreter.ConstantQualifier

	name string
	last atomic.Pointer[shapeField]
}

// of returns the field of a struct; nil if there is none.
func (f *chainField) of(s *shape) *shapeField {
	if last := f.last.Load(); last != nil && last.owner == s {
		return last
	}
	i, known := s.index[f.name]
	if !known {
		return nil
	}
	f.last.Store(&s.fields[i])
	return &s.fields[i]
}

// Qualify implements Qualifier.
func (f *chainField) Qualify(vars interpreter.Activation, of any) (any, error) {
	if o, ok := of.(*object); ok {
		if v := o.read(f.of(o.shape)); v != nil {
			return v, nil
		}
	}
	return f.ConstantQualifier.Qualify(vars, of)
}

// QualifyIfPresent implements Qualifier.
func (f *chainField) QualifyIfPresent(vars interpreter.Activation, of any, presenceOnly bool) (any, bool, error) {
	if o, ok := of.(*object); ok {
		if field := f.of(o.shape); field != nil {
			present := o.set(field.at)
			if presenceOnly || !present {
				return nil, present, nil
			}
			if v := o.read(field); v != nil {
				return v, true, nil
			}
		}
	}
	return f.ConstantQualifier.QualifyIfPresent(vars, of, presenceOnly)
}

// read returns the value of a field; nil if it has none, or if it is an error.
func (o *object) read(field *shapeField) ref.Val {
	if field == nil {
		return nil
	}
	v := o.valueAt(field.at)
	if _, failed := v.(*types.Err); failed {
		return nil
	}
	return v
}
