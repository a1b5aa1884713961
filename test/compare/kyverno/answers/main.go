// Command answers records what Kyverno's engine makes of requests. Tests of conversion replay the answers.
//
// What enters: a file with ClusterPolicies and the requests for each of them, and the version of Kyverno. What leaves: the same file
// with a letter for each policy and request: p for pass, f for fail, s for skip, e for an error, and - if no rule matches. Of several
// rules, the first of e, f, p and s counts. The engine is that of Kyverno's webhook. It has no cluster.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	kyvernov1 "github.com/kyverno/kyverno/api/kyverno/v1"
	kyvernov2 "github.com/kyverno/kyverno/api/kyverno/v2"
	"github.com/kyverno/kyverno/pkg/config"
	"github.com/kyverno/kyverno/pkg/engine"
	engineapi "github.com/kyverno/kyverno/pkg/engine/api"
	"github.com/kyverno/kyverno/pkg/engine/factories"
	"github.com/kyverno/kyverno/pkg/engine/jmespath"
	"github.com/kyverno/kyverno/pkg/engine/policycontext"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// questions are policies and their requests.
type questions struct {
	Version  string     `json:"version,omitempty"`
	Policies []question `json:"policies"`
}

type question struct {
	Source     string            `json:"source"`
	Policy     json.RawMessage   `json:"policy"`
	Exceptions []json.RawMessage `json:"exceptions,omitempty"`
	Requests   []json.RawMessage `json:"requests"`
	Answers    string            `json:"answers,omitempty"`
}

func main() {
	logf.SetLogger(logr.Discard())
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "answers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: answers QUESTIONS ANSWERS VERSION")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var all questions
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	all.Version = args[2]
	for i := range all.Policies {
		if err := all.Policies[i].answer(); err != nil {
			return fmt.Errorf("%s: %w", all.Policies[i].Source, err)
		}
	}
	data, err = json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], data, 0o600)
}

// exceptions are the exceptions of a policy.
type exceptions []*kyvernov2.PolicyException

// Find implements engineapi.PolicyExceptionSelector.
func (e exceptions) Find(policy, rule string) ([]*kyvernov2.PolicyException, error) {
	var found []*kyvernov2.PolicyException
	for _, one := range e {
		if one.Contains(policy, rule) {
			found = append(found, one)
		}
	}
	return found, nil
}

// answer evaluates the requests of a policy.
func (q *question) answer() error {
	policy := &kyvernov1.ClusterPolicy{}
	if err := json.Unmarshal(q.Policy, policy); err != nil {
		return err
	}
	var excepted exceptions
	for _, data := range q.Exceptions {
		one := &kyvernov2.PolicyException{}
		if err := json.Unmarshal(data, one); err != nil {
			return err
		}
		excepted = append(excepted, one)
	}
	configuration := config.NewDefaultConfiguration(false)
	jp := jmespath.New(configuration)
	evaluator := engine.NewEngine(configuration, jp, nil, nil, nil, factories.DefaultContextLoaderFactory(nil), excepted, nil)
	letters := make([]byte, 0, len(q.Requests))
	for _, data := range q.Requests {
		request := admissionv1.AdmissionRequest{}
		if err := json.Unmarshal(data, &request); err != nil {
			return err
		}
		kind := schema.GroupVersionKind(request.Kind)
		of, err := policycontext.NewPolicyContextFromAdmissionRequest(jp, request, kyvernov2.RequestInfo{AdmissionUserInfo: request.UserInfo}, kind, configuration)
		if err != nil {
			return err
		}
		response := evaluator.Validate(context.Background(), of.WithPolicy(policy))
		letters = append(letters, letter(response.PolicyResponse.Rules))
	}
	q.Answers = string(letters)
	return nil
}

// letter returns the answer of several rules.
func letter(rules []engineapi.RuleResponse) byte {
	found := map[engineapi.RuleStatus]bool{}
	for i := range rules {
		found[rules[i].Status()] = true
	}
	for _, status := range []engineapi.RuleStatus{engineapi.RuleStatusError, engineapi.RuleStatusFail, engineapi.RuleStatusPass, engineapi.RuleStatusSkip} {
		if found[status] {
			return strings.ToLower(string(status))[0]
		}
	}
	return '-'
}
