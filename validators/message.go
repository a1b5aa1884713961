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

// PublicText is Text for what is stored outside of the object: Reports, Events and statuses. Others read these than the object, so a
// policy cannot write values into them, neither of the object nor of what its expressions read besides.
func (f *Finding) PublicText() string {
	if f.Public == "" {
		return f.Text()
	}
	return f.Public + f.notes()
}

// PublicField is the field for the same places: that of the error, unless a policy could write values into it.
func (f *Finding) PublicField() string {
	if f.PrivateField {
		return "spec"
	}
	return f.Error.Field
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
	return text + f.notes()
}

// notes are about the severity of a finding.
func (f *Finding) notes() (text string) {
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
