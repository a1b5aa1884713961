package policytest

import (
	"encoding/json"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is what files with suites say of themselves, with the group and the version of policies.
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

// Test is about some policies, which evaluate together.
type Test struct {
	Name string `json:"name"`
	// Policies to test.
	Policies []Source `json:"policies"`
	// Params replace single values of all policies that have them; null takes a value away.
	Params map[string]any `json:"params,omitempty"`
	// Objects are those around the virtual machine.
	Objects []Source `json:"objects,omitempty"`
	// Base is what the patches of cases apply to.
	Base *Source `json:"base,omitempty"`
	// Facts of the cluster; those of a KubeVirt object among Objects otherwise, and KubeVirt's defaults without one.
	Facts *Facts `json:"facts,omitempty"`
	Cases []Case `json:"cases"`
}

// Case is one request, and what should come of it.
type Case struct {
	Name string `json:"name"`
	// Object is the one that is sent; Base without it. Patches change it.
	Object  *Source `json:"object,omitempty"`
	Patches []Patch `json:"patches,omitempty"`
	// OldObject makes it an update. With OldPatches, it is what they apply to; without, they apply to what Patches
	// do.
	OldObject  *Source `json:"oldObject,omitempty"`
	OldPatches []Patch `json:"oldPatches,omitempty"`
	// Operation is CREATE or UPDATE; it follows from whether there is an old object.
	Operation string `json:"operation,omitempty"`
	// Arrived tells that a VirtualMachineInstance is evaluated as it is, and not completed before.
	Arrived bool `json:"arrived,omitempty"`
	// UserInfo is who sends it: DefaultUser, if nobody is named.
	UserInfo *authenticationv1.UserInfo `json:"userInfo,omitempty"`
	// May is what policies learn when they ask what somebody may do; nothing else is allowed.
	May []Permission `json:"may,omitempty"`
	// Namespace is that of the object.
	Namespace *Namespace `json:"namespace,omitempty"`
	// Objects, Facts and Params are over those of the test.
	Objects []Source       `json:"objects,omitempty"`
	Facts   *Facts         `json:"facts,omitempty"`
	Params  map[string]any `json:"params,omitempty"`
	// Now decides which exceptions of policies are over.
	Now *metav1.Time `json:"now,omitempty"`
	// Checks makes that what the built-in checks find counts as what the policies find.
	Checks bool   `json:"checks,omitempty"`
	Skip   bool   `json:"skip,omitempty"`
	Expect Expect `json:"expect"`
}

// Facts are those of a cluster.
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

// Permission is what somebody may do. A field that is left out stands for anything.
type Permission struct {
	// User may do it: who sends the object, if nobody is named.
	User        string `json:"user,omitempty"`
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	// Path is that of something that is no resource: /metrics.
	Path string `json:"path,omitempty"`
}

// Namespace is that of an object.
type Namespace struct {
	Name        string            `json:"name,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Expect is what should come of a case. What is left out is not compared.
type Expect struct {
	Verdict Verdict `json:"verdict,omitempty"`
	// Violations is the number of findings, whatever they mean.
	Violations *int `json:"violations,omitempty"`
	// Message is a regular expression that a finding's message matches, and Field where a finding is; with both, it
	// is the same finding.
	Message string `json:"message,omitempty"`
	Field   string `json:"field,omitempty"`
	// Error tells that a policy cannot be evaluated; without it, none may be.
	Error bool `json:"error,omitempty"`
}

// Verdict is what findings mean together.
type Verdict string

// The verdicts.
const (
	Denied  Verdict = "denied"
	Warned  Verdict = "warned"
	Allowed Verdict = "allowed"
)

// Source is an object that is written into the suite, or the name of a file or a directory beside it.
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
		return errors.New("is neither the name of a file nor an object")
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
