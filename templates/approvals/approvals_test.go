package approvals_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates/approvals"
)

func secret(text string) []byte { return bytes.Repeat([]byte(text), approvals.KeyBytes) }

func keyring(t *testing.T, keys ...string) *approvals.Keyring {
	t.Helper()
	made, err := approvals.Parse(nil)
	must(t, err)
	for _, key := range keys {
		must(t, made.Add(secret(key)))
	}
	return made
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// approve ends the approvals before, and signs one as the server does.
func approve(t *testing.T, keys *approvals.Keyring, template types.UID, by string, from ...*v1beta1.TemplateSource) *v1beta1.TemplateApproval {
	t.Helper()
	approval := &v1beta1.TemplateApproval{Digest: "sha256:1", ApprovedBy: by, ApprovedAt: metav1.NewTime(time.Unix(1000, 0)), Message: "looks good"}
	for _, source := range from {
		approval.Source = source.DeepCopy()
	}
	keys.End(template)
	var err error
	approval.Signature, err = keys.Sign(template, approval)
	must(t, err)
	return approval
}

func TestVerify(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*v1beta1.TemplateApproval)
		template types.UID
		want     error
	}{
		"as it was signed": {func(*v1beta1.TemplateApproval) {}, "a", nil},
		"the same time": {func(a *v1beta1.TemplateApproval) {
			a.ApprovedAt = metav1.NewTime(a.ApprovedAt.In(time.FixedZone("", 3600)))
		}, "a", nil},
		"of another template":    {func(*v1beta1.TemplateApproval) {}, "b", approvals.ErrSignature},
		"another digest":         {func(a *v1beta1.TemplateApproval) { a.Digest = "sha256:2" }, "a", approvals.ErrSignature},
		"another approver":       {func(a *v1beta1.TemplateApproval) { a.ApprovedBy = "mallory" }, "a", approvals.ErrSignature},
		"another time":           {func(a *v1beta1.TemplateApproval) { a.ApprovedAt = metav1.NewTime(time.Unix(2000, 0)) }, "a", approvals.ErrSignature},
		"another message":        {func(a *v1beta1.TemplateApproval) { a.Message = "x" }, "a", approvals.ErrSignature},
		"a part moved":           {func(a *v1beta1.TemplateApproval) { a.ApprovedBy, a.Digest = "", a.Digest+a.ApprovedBy }, "a", approvals.ErrSignature},
		"unsigned":               {func(a *v1beta1.TemplateApproval) { a.Signature = "" }, "a", approvals.ErrUnsigned},
		"no signature":           {func(a *v1beta1.TemplateApproval) { a.Signature = "x" }, "a", approvals.ErrSignature},
		"an empty sum":           {func(a *v1beta1.TemplateApproval) { a.Signature = "v1.1." }, "a", approvals.ErrSignature},
		"another version":        {func(a *v1beta1.TemplateApproval) { a.Signature = "v2" + a.Signature[2:] }, "a", approvals.ErrSignature},
		"a later number":         {func(a *v1beta1.TemplateApproval) { a.Signature = strings.Replace(a.Signature, ".1.", ".9.", 1) }, "a", approvals.ErrSignature},
		"another spelling of it": {func(a *v1beta1.TemplateApproval) { a.Signature = strings.Replace(a.Signature, ".1.", ".01.", 1) }, "a", approvals.ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			keys := keyring(t, "k")
			approval := approve(t, keys, "a", "ann")
			tc.change(approval)
			if err := keys.Verify(tc.template, approval); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// artifact is the source of an imported template.
var artifact = &v1beta1.TemplateSource{
	Kind: v1beta1.SourceOCI, Reference: "oci://registry.example.com/db:1", Digest: "sha256:2", Verified: true, Signer: "key 1 of registry.example.com", Import: "db",
}

// TestVerifySource holds that a source is signed: each of its fields, and whether there is one.
func TestVerifySource(t *testing.T) {
	keys := keyring(t, "k")
	signed, bare := approve(t, keys, "a", "ann", artifact), approve(t, keys, "b", "ann")
	if !strings.HasPrefix(signed.Signature, "v2.") || !strings.HasPrefix(bare.Signature, "v1.") {
		t.Errorf("signed %s and %s", signed.Signature, bare.Signature)
	}
	must(t, keys.Verify("a", signed))
	must(t, keys.Verify("b", bare))
	for name, change := range map[string]func(*v1beta1.TemplateApproval){
		"no source":                  func(a *v1beta1.TemplateApproval) { a.Source = nil },
		"no source, and its version": func(a *v1beta1.TemplateApproval) { a.Source = nil; a.Signature = "v1" + a.Signature[2:] },
		"the version without one":    func(a *v1beta1.TemplateApproval) { a.Signature = "v1" + a.Signature[2:] },
		"another kind":               func(a *v1beta1.TemplateApproval) { a.Source.Kind = v1beta1.SourceHTTP },
		"another reference":          func(a *v1beta1.TemplateApproval) { a.Source.Reference += "0" },
		"another digest":             func(a *v1beta1.TemplateApproval) { a.Source.Digest = "sha256:3" },
		"not verified":               func(a *v1beta1.TemplateApproval) { a.Source.Verified = false },
		"another signer":             func(a *v1beta1.TemplateApproval) { a.Source.Signer = "" },
		"another import":             func(a *v1beta1.TemplateApproval) { a.Source.Import = "other" },
		"a part moved": func(a *v1beta1.TemplateApproval) {
			a.Source.Reference, a.Source.Digest = "", a.Source.Reference+a.Source.Digest
		},
		"another spec, the same source": func(a *v1beta1.TemplateApproval) { a.Digest = "sha256:9" },
	} {
		changed := signed.DeepCopy()
		change(changed)
		if err := keys.Verify("a", changed); !errors.Is(err, approvals.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, version := range map[string]string{"its version": "v1", "that of a source": "v2"} {
		added := bare.DeepCopy()
		added.Source, added.Signature = artifact.DeepCopy(), version+added.Signature[2:]
		if err := keys.Verify("b", added); !errors.Is(err, approvals.ErrSignature) {
			t.Errorf("a source that is added, with %s: %v", name, err)
		}
	}
	must(t, keys.Add(secret("l")))
	signature, renewed := keys.Renew("a", signed)
	if !renewed || !strings.HasPrefix(signature, "v2.") {
		t.Errorf("renewed %t: %s", renewed, signature)
	}
	signed.Signature = signature
	keys.DropOld()
	must(t, keys.Verify("a", signed))
	if _, renewed := keys.Renew("a", signed); renewed {
		t.Error("renewed twice")
	}
}

// TestVerifyEarlier holds that the signature of a release that signed no sources is valid: of key 1, which has 32 bytes k, for the number 1.
func TestVerifyEarlier(t *testing.T) {
	keys := keyring(t, "k")
	earlier := approve(t, keys, "a", "ann")
	earlier.Signature = "v1.1.vQDjc1rEYAvFyrkpib445lZvI6AneB2aaoZsUA7L7E8"
	must(t, keys.Verify("a", earlier))
}

// TestEnded holds that a copy of an approval does not count after it was revoked or replaced, whatever the template is.
func TestEnded(t *testing.T) {
	keys := keyring(t, "k")
	first, other := approve(t, keys, "a", "ann"), approve(t, keys, "b", "ann")
	second := approve(t, keys, "a", "bob")
	for name, want := range map[*v1beta1.TemplateApproval]error{first: approvals.ErrEnded, second: nil} {
		if err := keys.Verify("a", name); !errors.Is(err, want) {
			t.Errorf("by %s: got %v, want %v", name.ApprovedBy, err, want)
		}
	}
	keys.End("a")
	for _, approval := range []*v1beta1.TemplateApproval{first, second} {
		if err := keys.Verify("a", approval); !errors.Is(err, approvals.ErrEnded) {
			t.Errorf("revoked, by %s: %v", approval.ApprovedBy, err)
		}
	}
	must(t, keys.Verify("b", other))
	must(t, keys.Verify("a", approve(t, keys, "a", "ann")))
	// The bound forgets what has not changed for longest, and ends no approval that counts.
	last := approve(t, keys, "last", "ann")
	for i := range approvals.MaxEnded - 1 {
		keys.End(types.UID(fmt.Sprint(i)))
	}
	must(t, keys.Verify("b", other))
	keys.End("last")
	if err := keys.Verify("last", last); !errors.Is(err, approvals.ErrEnded) {
		t.Errorf("at the bound: %v", err)
	}
	if size := len(keys.Data()["ended"]); size > 64<<10 {
		t.Errorf("%d bytes", size)
	}
}

// TestRotation holds that old keys are accepted until they are dropped, and that renewed approvals stay ended or valid.
func TestRotation(t *testing.T) {
	keys := keyring(t, "k")
	if keys.Rotating() || keys.Newest() != 1 {
		t.Errorf("rotating with one key, number %d", keys.Newest())
	}
	kept, forgotten, ended := approve(t, keys, "a", "ann"), approve(t, keys, "b", "ann"), approve(t, keys, "c", "ann")
	keys.End("c")
	must(t, keys.Add(secret("l")))
	if !keys.Rotating() || keys.Newest() != 2 {
		t.Errorf("not rotating, number %d", keys.Newest())
	}
	must(t, keys.Verify("a", kept))
	signature, renewed := keys.Renew("a", kept)
	if !renewed || signature == kept.Signature {
		t.Errorf("renewed %t: %s", renewed, signature)
	}
	kept.Signature = signature
	if _, renewed := keys.Renew("a", kept); renewed {
		t.Error("renewed twice")
	}
	if _, renewed := keys.Renew("c", ended); renewed {
		t.Error("an ended approval is renewed")
	}
	if _, renewed := keys.Renew("b", &v1beta1.TemplateApproval{Digest: "sha256:1"}); renewed {
		t.Error("an unsigned approval is renewed")
	}
	keys.DropOld()
	must(t, keys.Verify("a", kept))
	if err := keys.Verify("b", forgotten); !errors.Is(err, approvals.ErrSignature) {
		t.Errorf("of the old key: %v", err)
	}
	keys.End("a")
	if err := keys.Verify("a", kept); !errors.Is(err, approvals.ErrEnded) {
		t.Errorf("renewed and revoked: %v", err)
	}
	for i := range 20 {
		must(t, keys.Add(secret(string(rune('a'+i)))))
	}
	again, err := approvals.Parse(keys.Data())
	must(t, err)
	if again.Newest() != keys.Newest() {
		t.Errorf("the newest is %d of %d", again.Newest(), keys.Newest())
	}
}

func TestParse(t *testing.T) {
	keys := keyring(t, "k", "l")
	approval := approve(t, keys, "a", "ann")
	data := keys.Data()
	again, err := approvals.Parse(data)
	must(t, err)
	if diff := cmp.Diff(data, again.Data()); diff != "" {
		t.Errorf("written and read (-before +after):\n%s", diff)
	}
	must(t, again.Verify("a", approval))
	for name, tc := range map[string]struct{ key, value, want string }{
		"a short key":          {"key.1", "short", "data[key.1]: it must be 32 bytes"},
		"an empty key":         {"key.3", "", "data[key.3]: "},
		"no number":            {"key.x", string(secret("k")), "data[key.x]: "},
		"the number twice":     {"key.01", string(secret("k")), "data[key.01]: "},
		"no sequence":          {"sequence", "", "data[sequence]: it must be a number"},
		"a sequence too small": {"sequence", "0", "data[ended]: "},
		"an end without one":   {"ended", "abc\n", "data[ended]: "},
	} {
		t.Run(name, func(t *testing.T) {
			changed := maps.Clone(data)
			changed[tc.key] = []byte(tc.value)
			if _, err := approvals.Parse(changed); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	empty, err := approvals.Parse(map[string][]byte{"other": []byte("x")})
	must(t, err)
	if _, err := empty.Sign("a", approval); err == nil || !empty.Empty() {
		t.Errorf("signed without a key: %v", err)
	}
	if err := empty.Verify("a", approval); !errors.Is(err, approvals.ErrSignature) {
		t.Errorf("verified without a key: %v", err)
	}
	if err := empty.Add([]byte("short")); err == nil {
		t.Error("a short key is added")
	}
}
