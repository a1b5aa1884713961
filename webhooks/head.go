package webhooks

import (
	"crypto/sha256"
	"fmt"
	"net"

	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// headOf reads what identifies a request from the beginning of an AdmissionReview: the API server writes it before the
// object. So a request has its share, and can be answered, before it is decoded. The result is nil without a uid.
func headOf(beginning []byte) *admissionv1.AdmissionRequest {
	request := gjson.GetBytes(beginning, "request")
	if !request.IsObject() && request.Raw == "" {
		return nil
	}
	text := func(path string) string { return identity(request.Get(path)) }
	head := &admissionv1.AdmissionRequest{
		UID:       types.UID(text("uid")),
		Kind:      metav1.GroupVersionKind{Group: text("kind.group"), Version: text("kind.version"), Kind: text("kind.kind")},
		Namespace: text("namespace"), Name: text("name"), Operation: admissionv1.Operation(text("operation")), SubResource: text("subResource"),
	}
	head.UserInfo.Username = userOf(request.Get("userInfo.username"))
	if head.UID == "" {
		return nil
	}
	return head
}

// maxIdentity bounds each text of a head, in bytes. A longer one is no name of Kubernetes, except for that of a user.
const maxIdentity = 1 << 10

// identity returns a text that identifies a request; empty for none, and for one that is too long. It is never shortened: the
// beginning of a name could be another name.
func identity(text gjson.Result) string {
	if len(text.Str) > maxIdentity || !complete(text) {
		return ""
	}
	return text.String()
}

// userOf returns the name of a user. A longer one than maxIdentity is replaced by its digest, which is no name of a user, so that such
// users do not share anything. It is empty if the body ends in it.
func userOf(name gjson.Result) string {
	if len(name.Str) > maxIdentity && complete(name) {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(name.Str)))
	}
	return identity(name)
}

// complete reports whether a body does not end in a text.
func complete(text gjson.Result) bool { return text.Type != gjson.String || gjson.Valid(text.Raw) }

// holderOf returns the name under which a request shares memory and time: that of its namespace, or of its user for a
// cluster-wide object. A client that is not the API server has shares of its own, whatever namespace it names.
func holderOf(peer string, head *admissionv1.AdmissionRequest) string {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		host = peer
	}
	if head.Namespace != "" {
		return host + " namespace " + head.Namespace
	}
	return host + " user " + head.UserInfo.Username
}
