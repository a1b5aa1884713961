package audit

import (
	"encoding/json"
	"errors"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/validators"
)

// subject names an object whose content can have any form.
func (k Kind) subject(stored json.RawMessage) auditresults.Subject {
	metadata := gjson.GetManyBytes(stored, "metadata.namespace", "metadata.name", "metadata.uid")
	return auditresults.Subject{
		Key:        auditresults.Key{Namespace: metadata[0].String(), Kind: k.Kind, Name: metadata[1].String()},
		APIVersion: k.GroupVersionKind.GroupVersion().String(), UID: types.UID(metadata[2].String()),
	}
}

// unreadable returns the result for an object that cannot be evaluated.
func unreadable(err error) auditresults.Result {
	result := auditresults.Result{
		Source:  auditresults.Source{Name: validators.RuleReadable, BuiltIn: true},
		Outcome: auditresults.Error, Message: shortened(err.Error()),
	}
	var named *field.Error
	if errors.As(err, &named) {
		without := *named
		without.BadValue = field.OmitValueType{} // others read Reports than objects
		result.Field, result.Message = shortened(named.Field), shortened(without.ErrorBody())
	}
	return result
}
