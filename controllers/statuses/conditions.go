package statuses

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/texts"
)

// The bounds of a message after an observation that failed, in bytes: of all of it, and of why it failed.
const maxMessage, maxFailure = 1024, 512

// outdated separates what was observed from why it could not be observed again.
const outdated = "; this can be out of date: "

// Unobserved returns a condition after an observation that failed. What was observed of the same generation stays, and the message
// says why it can be out of date. Without it, the status is Unknown with a reason. The message has at most 1024 bytes.
func Unobserved(known []metav1.Condition, kind, reason string, generation int64, failure string) metav1.Condition {
	failure = texts.Shorten(failure, maxFailure)
	if c := meta.FindStatusCondition(known, kind); c != nil && c.ObservedGeneration == generation && c.Status != metav1.ConditionUnknown {
		observed, _, _ := strings.Cut(c.Message, outdated)
		observed = texts.Shorten(observed, maxMessage-len(outdated)-len(failure))
		return metav1.Condition{Type: kind, Status: c.Status, Reason: c.Reason, Message: observed + outdated + failure}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: failure}
}

// Failure says in a report what could not be done. It has the reason of an answer of the API server, and not the error itself: that
// can have times and addresses, which would change the report at each attempt, and can name objects that a reader of the report may
// not read.
func Failure(what string, err error) string {
	message := what + "; the log of the controller has the error"
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		message += " " + string(reason)
	}
	return message
}

// Rejected reports whether the API server rejected a write. Its answer says what is wrong, and is the same at each attempt.
func Rejected(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}
