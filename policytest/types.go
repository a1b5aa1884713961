package policytest

import (
	"encoding/json"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is the kind of suites. Their group and version are those of policies.
const Kind = "Suite"

// Spec is a suite as it is written.
type Spec struct {
	metav1.TypeMeta `json:",inline"`

	Metadata Metadata `json:"metadata"`
	Tests    []Test   `json:"tests"`
}

// Metadata names a suite.
type Metadata struct {
	Name string `json:"name"`
}

// Test tests policies that are evaluated together.
type Test struct {
	Name string `json:"name"`
	// Policies are the policies to test.
	Policies []Source `json:"policies"`
	// Params replace values of all policies that have them; null removes a value.
	Params map[string]any `json:"params,omitempty"`
	// Objects are the objects of the cluster that the evaluation reads.
	Objects []Source `json:"objects,omitempty"`
	// Base is the object to which the patches of cases apply.
	Base *Source `json:"base,omitempty"`
	// Facts replace facts of the KubeVirt object among Objects, or KubeVirt's defaults without one.
	Facts *Facts `json:"facts,omitempty"`
	Cases []Case `json:"cases"`
}

// Case is a request, and its expected outcome.
type Case struct {
	Name string `json:"name"`
	// Object is the object of the request. It defaults to Base. Patches change it.
	Object  *Source `json:"object,omitempty"`
	Patches []Patch `json:"patches,omitempty"`
	// OldObject makes the request an update. OldPatches change it, or the unpatched object if there is no OldObject. An empty
	// list of them is an update too.
	OldObject  *Source `json:"oldObject,omitempty"`
	OldPatches []Patch `json:"oldPatches,omitempty"`
	// Running states that the old VirtualMachine runs as it is written.
	Running bool `json:"running,omitempty"`
	// Operation is CREATE, UPDATE or DELETE. By default, it is UPDATE if there is an old object. DELETE deletes the object.
	Operation string `json:"operation,omitempty"`
	// PostMutation: a VirtualMachineInstance is evaluated as the validating webhook receives it, without completion.
	PostMutation bool `json:"postMutation,omitempty"`
	// UserInfo is the requester. It defaults to DefaultUser.
	UserInfo *authenticationv1.UserInfo `json:"userInfo,omitempty"`
	// May are the permissions that the authorizer of policies reports. It denies all others.
	May []Permission `json:"may,omitempty"`
	// Namespace is the namespace of the object.
	Namespace *Namespace `json:"namespace,omitempty"`
	// Objects, Facts and Params take precedence over those of the test.
	Objects []Source       `json:"objects,omitempty"`
	Facts   *Facts         `json:"facts,omitempty"`
	Params  map[string]any `json:"params,omitempty"`
	// Now is the time of the request. It determines which exceptions have expired.
	Now *Time `json:"now,omitempty"`
	// Checks adds the findings of the built-in rules.
	Checks bool   `json:"checks,omitempty"`
	Skip   bool   `json:"skip,omitempty"`
	Expect Expect `json:"expect"`
}

// Facts are facts of a cluster.
type Facts struct {
	Hypervisor   string   `json:"hypervisor,omitempty"`
	Architecture string   `json:"architecture,omitempty"`
	FeatureGates []string `json:"featureGates,omitempty"`
}

// Patch is an operation of RFC 6902.
type Patch struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Permission is a permission of a user. An empty field matches all values.
type Permission struct {
	// User has the permission. It defaults to the requester.
	User        string `json:"user,omitempty"`
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	// Path is a non-resource path, such as /metrics.
	Path string `json:"path,omitempty"`
}

// Namespace is a namespace with its labels and annotations.
type Namespace struct {
	Name        string            `json:"name,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Expect is the expected outcome of a case. Empty fields are not compared.
type Expect struct {
	Verdict Verdict `json:"verdict,omitempty"`
	// Violations is the number of findings of all severities.
	Violations *int `json:"violations,omitempty"`
	// Message is a regular expression that matches the message of a finding. Field is the field of a finding. With
	// both, they are of one finding.
	Message string `json:"message,omitempty"`
	Field   string `json:"field,omitempty"`
	// Exempted are the names of the policies with findings from which VirtualMachinePolicyExceptions exempt the object. An
	// empty list expects none.
	Exempted []string `json:"exempted,omitempty"`
	// Error expects an evaluation error of a policy. Otherwise, an evaluation error fails the case.
	Error bool `json:"error,omitempty"`
}

// Verdict is the outcome of all findings.
type Verdict string

// The verdicts.
const (
	Denied  Verdict = "denied"
	Warned  Verdict = "warned"
	Allowed Verdict = "allowed"
)

// Source is an object in the suite, or the name of a file or a directory, relative to the suite.
type Source struct {
	File   string         `json:"-"`
	Object map[string]any `json:"-"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Source) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &s.File) == nil && s.File != "" {
		return nil
	}
	if err := unmarshal(data, &s.Object); err != nil || s.Object == nil {
		return errors.New("must be the name of a file, or an object")
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (s Source) MarshalJSON() ([]byte, error) {
	if s.File != "" {
		return json.Marshal(s.File)
	}
	return json.Marshal(s.Object)
}
