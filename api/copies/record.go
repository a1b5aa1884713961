package copies

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// AnnotationAuthor is an annotation of VirtualMachineRestores and VirtualMachineClones: the user that created the object, or
// changed its spec last, and the content of the snapshot at that time, as JSON of Record.
const AnnotationAuthor = "copy.virtward.io/author"

// AnnotationRestore is KubeVirt's annotation of the virtual machines that a restore creates or changes: NAME-UID of the restore.
const AnnotationRestore = "restore.kubevirt.io/lastRestoreUID"

// Source is the content of a snapshot. Both fields are empty if there is no snapshot.
type Source struct {
	// Snapshot is the UID of the VirtualMachineSnapshot.
	Snapshot types.UID `json:"snapshot,omitempty"`
	// Content is the digest of the spec of its VirtualMachineSnapshotContent.
	Content string `json:"content,omitempty"`
}

// Record is the author of a restore or a clone, and what the author copies. The guard compares the text of the record, so the
// order of the fields is fixed.
type Record struct {
	Source
	v1alpha1.Requester
}

// extraKey has the keys of extra values that the guard compares.
var extraKey = regexp.MustCompile(`^[A-Za-z0-9._/%-]+$`)

// Text returns the value of AnnotationAuthor. The error means that the guard cannot compare the user: the user is too large,
// or has control characters.
func (r Record) Text() (string, error) {
	for key := range r.Extra {
		if !extraKey.MatchString(key) {
			return "", fmt.Errorf("the key %.100q of the user's extra values has other characters than letters, digits and ._/%%-", key)
		}
	}
	text := &bytes.Buffer{}
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return "", err
	}
	if text.Len() > v1alpha1.MaxRequester {
		return "", fmt.Errorf("the user, its groups and its extra values have more than %d bytes", v1alpha1.MaxRequester)
	}
	made := strings.TrimSuffix(text.String(), "\n")
	if escaped(made) {
		return "", errors.New("the user, its groups or its extra values have control characters")
	}
	return made, nil
}

// escaped reports whether a text has escapes of JSON other than those of quotes and backslashes.
func escaped(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
			return true
		}
	}
	return false
}

// RecordOf reads the record of a restore or a clone.
func RecordOf(annotations map[string]string) (Record, error) {
	text := annotations[AnnotationAuthor]
	record := Record{}
	switch {
	case text == "":
		return record, fmt.Errorf("the annotation %s is missing", AnnotationAuthor)
	case len(text) > v1alpha1.MaxRequester:
		return record, fmt.Errorf("the annotation %s has more than %d bytes", AnnotationAuthor, v1alpha1.MaxRequester)
	}
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return Record{}, fmt.Errorf("the annotation %s cannot be read", AnnotationAuthor)
	}
	if record.Username == "" {
		return Record{}, fmt.Errorf("the annotation %s has no username", AnnotationAuthor)
	}
	return record, nil
}

// User returns the author as the user of a request.
func (r Record) User() authenticationv1.UserInfo {
	user := authenticationv1.UserInfo{Username: r.Username, UID: r.UID, Groups: r.Groups}
	for key, values := range r.Extra {
		if user.Extra == nil {
			user.Extra = map[string]authenticationv1.ExtraValue{}
		}
		user.Extra[key] = values
	}
	return user
}

// DigestOf returns the digest of the spec of a VirtualMachineSnapshotContent, as JSON decodes it.
func DigestOf(spec any) (string, error) {
	raw, err := json.Marshal(spec) // objects have sorted keys
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// RestoreOf reads AnnotationRestore. ok is false if it names no restore.
func RestoreOf(text string) (name string, uid types.UID, ok bool) {
	const uidLength = 36
	at := len(text) - uidLength - 1
	if at < 1 || text[at] != '-' {
		return "", "", false
	}
	return text[:at], types.UID(text[at+1:]), true
}
