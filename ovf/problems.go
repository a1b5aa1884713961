package ovf

import (
	"slices"
	"strings"
)

// Reason is the class of a rejection.
type Reason string

// The classes of rejections.
const (
	NotAnArchive            Reason = "NotAnArchive"
	Truncated               Reason = "Truncated"
	UnsafeMember            Reason = "UnsafeMember"
	DuplicateMember         Reason = "DuplicateMember"
	NoDescriptor            Reason = "NoDescriptor"
	SeveralDescriptors      Reason = "SeveralDescriptors"
	MissingFile             Reason = "MissingFile"
	ManifestMismatch        Reason = "ManifestMismatch"
	ManifestInvalid         Reason = "ManifestInvalid"
	LimitExceeded           Reason = "LimitExceeded"
	InvalidXML              Reason = "InvalidXML"
	ForbiddenXML            Reason = "ForbiddenXML"
	NoVirtualSystem         Reason = "NoVirtualSystem"
	InvalidDescriptor       Reason = "InvalidDescriptor"
	InvalidCapacity         Reason = "InvalidCapacity"
	UnknownUnit             Reason = "UnknownUnit"
	ParentDisk              Reason = "ParentDisk"
	UnsafeReference         Reason = "UnsafeReference"
	RemoteReference         Reason = "RemoteReference"
	UnsupportedRequired     Reason = "UnsupportedRequired"
	UnsupportedArchitecture Reason = "UnsupportedArchitecture"
	UnsupportedFormat       Reason = "UnsupportedFormat"
	SeveralVirtualSystems   Reason = "SeveralVirtualSystems"
	InvalidImage            Reason = "InvalidImage"
	ExternalReference       Reason = "ExternalReference"
	EncryptedImage          Reason = "EncryptedImage"
)

// Rejection is a reason why a package cannot be imported. It is an error too.
type Rejection struct {
	Reason Reason `json:"reason"`
	// Element is the path of an element of the descriptor, such as Envelope/DiskSection/Disk[2], or the name of a file.
	Element string `json:"element"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Remedy says what to do.
	Remedy string `json:"remedy"`
}

// Error is the element, the message and the remedy in one line.
func (r *Rejection) Error() string {
	text := r.Message
	if r.Element != "" {
		text = r.Element + ": " + text
	}
	if r.Remedy != "" {
		text += ": " + r.Remedy
	}
	return text
}

// Code is the class of a warning.
type Code string

// The classes of warnings.
const (
	DeviceDropped   Code = "DeviceDropped"
	NVRAMDropped    Code = "NVRAMDropped"
	TPMStateLost    Code = "TPMStateLost"
	SectionDropped  Code = "SectionDropped"
	PropertyDropped Code = "PropertyDropped"
	SettingDropped  Code = "SettingDropped"
	ExtraMember     Code = "ExtraMember"
	MemberOrder     Code = "MemberOrder"
	FileAbsent      Code = "FileAbsent"
	FormatMismatch  Code = "FormatMismatch"
	Guessed         Code = "Guessed"

	SignatureInvalid Code = "SignatureInvalid"
	// FieldRemoved is a field of a template that is not exported.
	FieldRemoved Code = "FieldRemoved"
	// OnlyVirtward is a field of a template that only imports by Virtward read.
	OnlyVirtward Code = "OnlyVirtward"
	// PreferenceRequirement is something that the virtual machine has less of than its preference requires.
	PreferenceRequirement Code = "PreferenceRequirement"
	// FirmwareMismatch is a boot disk for another firmware than that of the virtual machine.
	FirmwareMismatch Code = "FirmwareMismatch"
	// TemplateIgnored is a template in a descriptor that is not used.
	TemplateIgnored Code = "TemplateIgnored"
)

// Warning is a part of a package that is dropped or guessed.
type Warning struct {
	Code Code `json:"code"`
	// Element is the path of an element of the descriptor, the name of a file, or the path of a field of the template.
	Element string `json:"element"`
	Message string `json:"message"`
}

// Problems collects rejections and warnings, in the order in which they are found. It holds at most maxProblems of each.
type Problems struct {
	Rejections []Rejection
	Warnings   []Warning
}

// maxProblems bounds the rejections, and the warnings, of one descriptor.
const maxProblems = 1000

// maxShown bounds a text of the descriptor in a message, in bytes.
const maxShown = 120

// Reject adds a rejection.
func (p *Problems) Reject(reason Reason, element, message, remedy string) {
	if len(p.Rejections) < maxProblems {
		p.Rejections = append(p.Rejections, Rejection{Reason: reason, Element: element, Message: message, Remedy: remedy})
	}
}

// Warn adds a warning.
func (p *Problems) Warn(code Code, element, message string) {
	if len(p.Warnings) < maxProblems {
		p.Warnings = append(p.Warnings, Warning{Code: code, Element: element, Message: message})
	}
}

// CheckHref says why a reference to a file is rejected; nil if it is a plain name, which may have folders. Percent signs are not decoded.
func CheckHref(href, element string) *Rejection {
	reject := func(reason Reason, message, remedy string) *Rejection {
		return &Rejection{Reason: reason, Element: element, Message: message, Remedy: remedy}
	}
	const inside = "refer to a file of the package by its relative name"
	switch {
	case href == "":
		return reject(InvalidDescriptor, "the attribute href is missing", "name the file")
	case len(href) > MaxName:
		return reject(LimitExceeded, "the attribute href has more than 1024 bytes", "shorten the name of the file")
	case strings.ContainsFunc(href, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return reject(UnsafeReference, "href has a control character", inside)
	case strings.Contains(href, `\`):
		return reject(UnsafeReference, "href has a backslash", inside)
	case strings.HasPrefix(href, "/"):
		return reject(UnsafeReference, "href is an absolute path", inside)
	case hasScheme(href):
		return reject(RemoteReference, "href is a URL", "download the file and refer to it by its relative name")
	}
	if slices.Contains(strings.Split(href, "/"), "..") {
		return reject(UnsafeReference, "href leaves the folder of the descriptor", inside)
	}
	return nil
}

// hasScheme reports whether a reference begins with a scheme of RFC 3986.
func hasScheme(href string) bool {
	scheme, _, found := strings.Cut(href, ":")
	if !found || scheme == "" {
		return false
	}
	for i, r := range scheme {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+.-", r)) {
			return false
		}
	}
	return true
}
