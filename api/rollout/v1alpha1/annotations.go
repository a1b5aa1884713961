package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations and labels.
const (
	// AnnotationPending is an annotation of virtual machines: what is pending, as JSON of Pending. The controller of
	// pending changes writes it. It is information: no component trusts it.
	AnnotationPending = "rollout.virtward.io/pending"
	// AnnotationRequester is an annotation of rollouts: the user that created the rollout, or changed its spec last, as
	// JSON of Requester.
	AnnotationRequester = "rollout.virtward.io/requester"
	// AnnotationRollout is an annotation of virtual machines: the rollout that changed them last, as JSON of Mark.
	AnnotationRollout = "rollout.virtward.io/rollout"
	// LabelRollout is a label of migrations: the UID of the rollout that created them.
	LabelRollout = "rollout.virtward.io/rollout"
)

// The bounds of annotations, in bytes.
const (
	MaxPending   = 4 << 10
	MaxRequester = 16 << 10
	maxMark      = 1 << 10
)

// Requester is the user on whose behalf a rollout changes virtual machines.
type Requester struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// RequesterOf reads the requester of a rollout.
func RequesterOf(rollout *VirtualMachineRollout) (authenticationv1.UserInfo, error) {
	text := rollout.Annotations[AnnotationRequester]
	switch {
	case text == "":
		return authenticationv1.UserInfo{}, fmt.Errorf("the annotation %s is missing", AnnotationRequester)
	case len(text) > MaxRequester:
		return authenticationv1.UserInfo{}, fmt.Errorf("the annotation %s has more than %d bytes", AnnotationRequester, MaxRequester)
	}
	requester := Requester{}
	if err := json.Unmarshal([]byte(text), &requester); err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("the annotation %s: %w", AnnotationRequester, err)
	}
	if requester.Username == "" {
		return authenticationv1.UserInfo{}, fmt.Errorf("the annotation %s has no username", AnnotationRequester)
	}
	user := authenticationv1.UserInfo{Username: requester.Username, UID: requester.UID, Groups: requester.Groups}
	for key, values := range requester.Extra {
		if user.Extra == nil {
			user.Extra = map[string]authenticationv1.ExtraValue{}
		}
		user.Extra[key] = values
	}
	return user, nil
}

// RequesterFrom is the requester of a request.
func RequesterFrom(user authenticationv1.UserInfo) Requester {
	r := Requester{Username: user.Username, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if r.Extra == nil {
			r.Extra = map[string][]string{}
		}
		r.Extra[key] = append([]string{}, values...)
	}
	return r
}

// String is the value of AnnotationRequester: compact JSON that escapes only what it must, since a guard compares it with the
// user of the request.
func (r Requester) String() (string, error) {
	text := &bytes.Buffer{}
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return "", err
	}
	if text.Len() > MaxRequester {
		return "", fmt.Errorf("the user, its groups and its extra values have more than %d bytes", MaxRequester)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// Mark is what a rollout writes into a virtual machine together with its change. A virtual machine with the mark of a
// rollout is not changed a second time by this rollout.
type Mark struct {
	// Rollout is the name of the rollout in the namespace of the virtual machine.
	Rollout string `json:"rollout"`
	// UID of the rollout.
	UID types.UID `json:"uid"`
	// Change is a digest of the patch; empty for a rollout without one.
	Change string `json:"change,omitempty"`
	// Generation of the virtual machine that has the change.
	Generation int64 `json:"generation,omitempty"`
}

// String is the value of AnnotationRollout.
func (m Mark) String() string {
	text, _ := json.Marshal(m) //nolint:errchkjson // strings only
	return string(text)
}

// MarkOf reads a mark from the annotations of a virtual machine. Users can write it: the caller compares the UID with that of
// the rollout.
func MarkOf(annotations map[string]string) (Mark, error) {
	text := annotations[AnnotationRollout]
	if text == "" {
		return Mark{}, errors.New("there is no mark of a rollout")
	}
	if len(text) > maxMark {
		return Mark{}, fmt.Errorf("the annotation %s has more than %d bytes", AnnotationRollout, maxMark)
	}
	mark := Mark{}
	if err := json.Unmarshal([]byte(text), &mark); err != nil {
		return Mark{}, fmt.Errorf("the annotation %s: %w", AnnotationRollout, err)
	}
	return mark, nil
}
