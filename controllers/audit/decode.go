package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/controllers/ledger"
	"github.com/virtward/virtward/limits"
	"github.com/virtward/virtward/validators"
)

// decode reads an object as it is stored, unless it is out of all proportion. It does not panic: what decodes fields
// of their own form is code of others.
func decode[T any](stored []byte, into *T) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("reading it failed: %.200v", cause)
		}
	}()
	evaluated, outOfProportion := limits.Evaluated(stored, reflect.TypeFor[T]())
	if outOfProportion != nil {
		return outOfProportion
	}
	return sigsjson.UnmarshalCaseSensitivePreserveInts(evaluated, into)
}

// subject names an object whose content may be of any form.
func (k Kind) subject(stored json.RawMessage) ledger.Subject {
	metadata := gjson.GetManyBytes(stored, "metadata.namespace", "metadata.name", "metadata.uid")
	return ledger.Subject{
		Key:        ledger.Key{Namespace: metadata[0].String(), Kind: k.Kind, Name: metadata[1].String()},
		APIVersion: k.GroupVersionKind.GroupVersion().String(), UID: types.UID(metadata[2].String()),
	}
}

// unreadable is the result about an object that cannot be judged.
func unreadable(err error) ledger.Result {
	result := ledger.Result{
		Source:  ledger.Source{Name: validators.RuleReadable, BuiltIn: true},
		Outcome: ledger.Error, Message: shortened(err.Error()),
	}
	var named *field.Error
	if errors.As(err, &named) {
		result.Field, result.Message = shortened(named.Field), shortened(named.ErrorBody())
	}
	return result
}
