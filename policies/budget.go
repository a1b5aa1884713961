package policies

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/fieldpath"
)

// All policies that are evaluated on an object cost at most these units together, so that an object costs at most half a
// second of CPU, also at an update, where policies that deny are evaluated on the object before it too.
const (
	// denyLimit is for the policies that deny.
	denyLimit = 1_500_000
	// spareLimit and spareMemory, in bytes, are for those that do not deny. Users with the enforce verb can deny every
	// request. This budget keeps other users from delaying requests and audits with many or costly policies.
	spareLimit  = 500_000
	spareMemory = 4 * cel.MemoryLimit
	// policyUnits are what each policy costs that matches, besides its expressions.
	policyUnits = 50
)

// denying is the budget of the policies that deny. Each has a guaranteed share, so that only a policy that needs more can
// run out, and the other half is for those that do, in the order of their names. The result does not depend on time.
type denying struct {
	budget *cel.Budget
	// share is guaranteed to each policy, and later are the policies that were not evaluated yet.
	share, later uint64
}

// evaluationsOf is how often the policies are evaluated for one request: on a template with two sets of values.
func evaluationsOf(d *cel.Documents) uint64 {
	if d.Kind == string(policyv1alpha1.PolicyVirtualMachineTemplate) {
		return 2
	}
	return 1
}

// newDenying returns the budget of a number of policies.
func newDenying(s *subject, policies int) *denying {
	total := denyLimit / evaluationsOf(s.documents)
	count := uint64(max(policies, 0))
	return &denying{budget: cel.NewBudgetOf(total, math.MaxInt64), share: total / 2 / max(count, 1), later: count}
}

// next returns the budget of the next policy: what is left, without the shares of those after it.
func (d *denying) next() *cel.Budget {
	d.later--
	return d.budget.Share(d.budget.Left() - min(d.budget.Left(), d.later*d.share))
}

// value is a value in an object, for a message.
type value struct {
	// shown is the value; field.OmitValueType if there is none, or if it is long.
	shown any
	// extent is a hash of a long value.
	extent string
}

// What values in messages cost.
const (
	// longText is how long a text is that is not shown, in bytes.
	longText = 4 << 10
	// encodedPerUnit are the bytes of an object of which a unit encodes and hashes a part.
	encodedPerUnit = 16
)

// value returns the value at a path of an object, and whether there is one. A value that is an object or a list costs as
// much as the whole object, because it may be the whole.
func (in *input) value(object any, ofVM bool, path string, budget *cel.Budget) (value, bool, error) {
	at, ok := lookUp(object, path)
	if !ok {
		return value{shown: field.OmitValueType{}}, false, nil
	}
	size := 0
	switch at.Kind() {
	case reflect.String:
		size = at.Len()
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Interface:
		if at.Type() != reflect.TypeFor[resource.Quantity]() { // which is small
			size = in.size(object, ofVM)
		}
	}
	if !budget.Spend(uint64(size / encodedPerUnit)) {
		return value{}, false, fmt.Errorf("%w: its messages have values that are too large", cel.ErrBudget)
	}
	found, ok := plain(at)
	switch v := found.(type) {
	case json.RawMessage:
		return value{field.OmitValueType{}, sum(v)}, ok, nil
	case string:
		if len(v) > longText {
			return value{field.OmitValueType{}, sum([]byte(v))}, ok, nil
		}
	}
	if !ok {
		found = field.OmitValueType{}
	}
	return value{shown: found}, ok, nil
}

// size returns the bytes of the JSON of the object or of the effective VM. It is computed once.
func (in *input) size(object any, ofVM bool) int {
	known := &in.object
	if ofVM {
		known = &in.vm
	}
	if *known == 0 {
		data, err := json.Marshal(object)
		if err != nil {
			return 0
		}
		*known = len(data)
	}
	return *known
}

// lookUp returns what is at a path of an object.
func lookUp(object any, path string) (reflect.Value, bool) {
	v := reflect.ValueOf(object)
	for _, step := range fieldpath.Split(path) {
		if v = fieldpath.StepValue(v, step); !v.IsValid() {
			return v, false
		}
	}
	if v.IsZero() { // absent, as in JSON: a field that can be present and zero is a pointer
		return v, false
	}
	v = fieldpath.Indirect(v)
	return v, v.IsValid()
}
