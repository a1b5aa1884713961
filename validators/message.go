package validators

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValue bounds the value that a message quotes, in bytes: a user may have written a whole file.
const maxValue = 200

// Message is the text of a finding in every response, event and report: what is wrong, by which rule, and what to do. It
// does not name the field.
//
//	Unsupported value: "sata": disks of arm64 are on a virtio or scsi bus [virtward/arm64-disk-bus] Set the bus to virtio or scsi, or leave it out.
func (f *Finding) Message() string {
	message := f.Text() + " [virtward/" + f.Rule + "]"
	if f.Remedy != "" {
		message += " " + f.Remedy
	}
	return message
}

// Text is what is wrong, without the rule and the remedy: the type, the value, the detail, and where the value
// comes from.
func (f *Finding) Text() string {
	text := f.body()
	switch {
	case f.Source != "":
		text += " (" + f.Source + ")"
	case f.Unset && quotesValue(f.Error):
		text = "not set: " + f.Error.Detail
	case f.Layer != "":
		if value, quoted := strings.CutPrefix(text, f.Error.Type.String()+": "); quoted && quotesValue(f.Error) {
			text = "not set; the default is " + value
		}
		text += " (filled by " + f.Layer + ")"
	}
	if f.PreExisting {
		text += " (pre-existing: tolerated on update, denied on create)"
	}
	if f.Exempted != nil {
		text += " (" + f.Exempted.String() + ")"
	}
	return text
}

// body is the error's, with a long value cut.
func (f *Finding) body() string {
	value, isText := f.Error.BadValue.(string)
	if !isText || len(value) <= maxValue {
		return f.Error.ErrorBody()
	}
	short := *f.Error
	short.BadValue = strings.ToValidUTF8(value[:maxValue], "") + "…"
	return short.ErrorBody()
}

// quotesValue reports whether the text of an error begins with its value.
func quotesValue(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeRequired, field.ErrorTypeForbidden, field.ErrorTypeTooLong, field.ErrorTypeInternal, field.ErrorTypeTypeInvalid:
		return false
	}
	_, omitted := err.BadValue.(field.OmitValueType)
	return !omitted
}
