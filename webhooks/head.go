package webhooks

import (
	"crypto/sha256"
	"fmt"
	"net"
	"slices"

	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/limits/decode"
)

// headOf reads what identifies a request from the beginning of an AdmissionReview: the API server writes it before the
// object. So a request has its share, and can be answered, before it is decoded. The result is nil without a uid.
func headOf(beginning []byte) *admissionv1.AdmissionRequest {
	head := &admissionv1.AdmissionRequest{}
	decode.Members(beginning, 0, func(name []byte, from int) int {
		if string(name) != "request" {
			return decode.Skip(beginning, from)
		}
		readHead(beginning, from, head)
		return -1
	})
	if head.UID == "" {
		return nil
	}
	return head
}

// readHead reads the head of the request at a position of a text, which may be cut off. Of a member that occurs twice, it reads the
// first one. It does not look behind an object that comes after what every request has.
func readHead(text []byte, at int, head *admissionv1.AdmissionRequest) {
	var seen [7]bool
	decode.Members(text, at, func(name []byte, from int) int {
		if string(name) == "object" && head.UID != "" && head.Operation != "" && head.Kind.Kind != "" && head.UserInfo.Username != "" {
			return -1
		}
		to := decode.Skip(text, from)
		i := slices.Index(identifying, string(name))
		if i < 0 || seen[i] {
			return to
		}
		seen[i] = true
		value := text[from:to]
		switch identifying[i] {
		case "uid":
			head.UID = types.UID(identityIn(value))
		case "namespace":
			head.Namespace = identityIn(value)
		case "name":
			head.Name = identityIn(value)
		case "operation":
			head.Operation = admissionv1.Operation(identityIn(value))
		case "subResource":
			head.SubResource = identityIn(value)
		case "kind":
			text := func(path string) string { return identity(gjson.GetBytes(value, path)) }
			head.Kind = metav1.GroupVersionKind{Group: text("group"), Version: text("version"), Kind: text("kind")}
		case "userInfo":
			head.UserInfo.Username = userOf(gjson.GetBytes(value, "username"))
		}
		return to
	})
}

// identifying are the members of a request that are in its head.
var identifying = []string{"uid", "namespace", "name", "operation", "subResource", "kind", "userInfo"}

// identityIn is identity for a value in JSON.
func identityIn(value []byte) string { return identity(gjson.ParseBytes(value)) }

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
