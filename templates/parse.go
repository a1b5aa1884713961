package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/texts"
)

// parse reads the template's VirtualMachine. Numbers keep their digits.
func (r *renderer) parse(raw *runtime.RawExtension) map[string]any {
	var data []byte
	if raw != nil {
		data = bytes.TrimSpace(raw.Raw)
	}
	if len(data) == 0 || string(data) == "null" {
		r.deny(RuleVirtualMachineMissing, invalid(virtualMachineAt, nil, "a template must have a VirtualMachine"))
		return nil
	}
	r.out = make([]byte, 0, 2*len(data))
	parsed, err := parseBounded(data)
	if tooMany, ok := errors.AsType[*field.Error](err); ok {
		r.deny(RuleTooLarge, &field.Error{Type: tooMany.Type, Field: virtualMachineAt, BadValue: tooMany.BadValue, Detail: tooMany.Detail})
		return nil
	}
	if err != nil {
		r.deny(RuleVirtualMachineNotObject, invalid(virtualMachineAt, texts.Shorten(string(data), maxShown), "it is not JSON"))
		return nil
	}
	tree, ok := parsed.(map[string]any)
	if !ok {
		r.deny(RuleVirtualMachineNotObject, invalid(virtualMachineAt, texts.Shorten(string(data), maxShown), "it must be an object"))
		return nil
	}
	return tree
}

// parseJSON reads one JSON value. Numbers keep their digits.
func parseJSON[T string | []byte](data T) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(data)))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("text follows the value")
	}
	return parsed, nil
}

// parseBounded is parseJSON for text with a bounded number of values. The error is a *field.Error if there are too many:
// two bytes of JSON can become sixty in memory.
func parseBounded[T string | []byte](data T) (any, error) {
	text := []byte(data)
	if err := decode.Object(text, reflect.TypeFor[any]()); err != nil {
		return nil, err
	}
	return parseJSON(text)
}

func isComposite(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
