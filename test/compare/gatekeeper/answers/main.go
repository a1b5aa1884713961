// Command answers records what Gatekeeper makes of requests. Tests of conversion replay the answers.
//
// What enters: a file with templates, constraints and the requests for each of them, and the version of Gatekeeper. What leaves: the
// same file with a letter for each constraint and request: f for a violation, p for none.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	templatesv1 "github.com/open-policy-agent/frameworks/constraint/pkg/apis/templates/v1"
	constraintclient "github.com/open-policy-agent/frameworks/constraint/pkg/client"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/drivers/rego"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/reviews"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/drivers/k8scel"
	mutationtypes "github.com/open-policy-agent/gatekeeper/v3/pkg/mutation/types"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/target"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// questions are constraints and their requests.
type questions struct {
	Version  string     `json:"version,omitempty"`
	Policies []question `json:"policies"`
}

type question struct {
	Source   string            `json:"source"`
	Template json.RawMessage   `json:"template"`
	Policy   json.RawMessage   `json:"policy"`
	Requests []json.RawMessage `json:"requests"`
	Answers  string            `json:"answers,omitempty"`
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
		if err := all.Policies[i].answer(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", all.Policies[i].Source, err)
		}
	}
	data, err = json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], data, 0o600)
}

// answer evaluates the requests of a constraint.
func (q *question) answer(ctx context.Context) error {
	driver, err := rego.New(rego.Tracing(false), rego.Externs())
	if err != nil {
		return err
	}
	ofCEL, err := k8scel.New()
	if err != nil {
		return err
	}
	client, err := constraintclient.NewClient(constraintclient.Targets(&target.K8sValidationTarget{}), constraintclient.Driver(ofCEL), constraintclient.Driver(driver),
		constraintclient.EnforcementPoints(util.WebhookEnforcementPoint))
	if err != nil {
		return err
	}
	template := &templatesv1.ConstraintTemplate{}
	if err := json.Unmarshal(q.Template, template); err != nil {
		return err
	}
	versionless, err := template.ToVersionless()
	if err != nil {
		return err
	}
	if _, err := client.AddTemplate(ctx, versionless); err != nil {
		return err
	}
	constraint := &unstructured.Unstructured{}
	if err := constraint.UnmarshalJSON(q.Policy); err != nil {
		return err
	}
	if _, err := client.AddConstraint(ctx, constraint); err != nil {
		return err
	}
	letters := make([]byte, 0, len(q.Requests))
	for _, data := range q.Requests {
		request := &admissionv1.AdmissionRequest{}
		if err := json.Unmarshal(data, request); err != nil {
			return err
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: request.Namespace, Labels: map[string]string{corev1.LabelMetadataName: request.Namespace}}}
		review := &target.AugmentedReview{AdmissionRequest: request, Namespace: namespace, Source: mutationtypes.SourceTypeOriginal, IsAdmission: true}
		responses, err := client.Review(ctx, review, reviews.EnforcementPoint(util.WebhookEnforcementPoint))
		if err != nil {
			return err
		}
		if len(responses.Results()) > 0 {
			letters = append(letters, 'f')
		} else {
			letters = append(letters, 'p')
		}
	}
	q.Answers = string(letters)
	return nil
}
