package rollouts

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

const whole = `
selector: {matchLabels: {app: db}}
patch: {instancetype: {name: u1.large}}
allow: [Live, Migrate, Restart]
strategy:
  maxUnavailable: 10%
  maxConcurrentMigrations: 3
  partition: 5
  canary: {count: 2, pause: 1h30m}
windows:
- {schedule: "0 22 * * 6", duration: 4h, timeZone: Europe/Zurich}
health: {timeout: 5m, ready: AgentConnected}
failurePolicy: Continue
maxFailures: 3
ttlSecondsAfterFinished: 600
`

// TestSchema: what the definition accepts can be read, and what it rejects names the field.
func TestSchema(t *testing.T) {
	t.Parallel()
	plane := shared.Start(t)
	create := func(t *testing.T, spec string) error {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{}}
		var fields map[string]any
		must(t, yaml.Unmarshal([]byte(spec), &fields))
		object.Object["spec"] = fields
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
		object.SetNamespace(metav1.NamespaceDefault)
		object.SetGenerateName("schema-")
		if err := plane.Client().Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
			return err
		}
		return plane.Client().Get(t.Context(), client.ObjectKeyFromObject(object), &v1alpha1.VirtualMachineRollout{})
	}
	for name, spec := range map[string]string{
		"whole":         whole,
		"smallest":      `selector: {}`,
		"numbers":       `{selector: {}, strategy: {maxUnavailable: 5, partition: 20%}}`,
		"by hand":       `{selector: {}, strategy: {canary: {count: 1}}}`,
		"longest times": `{selector: {}, health: {timeout: 99999h99999m999999s999999ms}, windows: [{schedule: "* * * * *", duration: 99999h}]}`,
	} {
		t.Run(name, func(t *testing.T) { must(t, create(t, spec)) })
	}
	for name, s := range map[string]struct{ spec, want string }{
		"no selector":       {`{}`, "spec.selector: Required value"},
		"empty patch":       {`{selector: {}, patch: {}}`, "spec.patch"},
		"patch is no map":   {`{selector: {}, patch: [1]}`, "spec.patch"},
		"nothing allowed":   {`{selector: {}, allow: []}`, "spec.allow"},
		"unknown way":       {`{selector: {}, allow: [Evict]}`, "spec.allow[0]: Unsupported value"},
		"none unavailable":  {`{selector: {}, strategy: {maxUnavailable: 0}}`, "spec.strategy.maxUnavailable: Invalid value: 0: must be at least 1"},
		"too many percent":  {`{selector: {}, strategy: {maxUnavailable: 101%}}`, "spec.strategy.maxUnavailable"},
		"no percent":        {`{selector: {}, strategy: {maxUnavailable: many}}`, "spec.strategy.maxUnavailable"},
		"negative number":   {`{selector: {}, strategy: {partition: -1}}`, "spec.strategy.partition: Invalid value: -1: must be at least 0"},
		"empty canary":      {`{selector: {}, strategy: {canary: {count: 0}}}`, "spec.strategy.canary.count"},
		"pause":             {`{selector: {}, strategy: {canary: {count: 1, pause: soon}}}`, "spec.strategy.canary.pause"},
		"long window":       {`{selector: {}, windows: [{schedule: "* * * * *", duration: 999999999999999999h}]}`, "spec.windows[0].duration"},
		"negative duration": {`{selector: {}, health: {timeout: -5m}}`, "spec.health.timeout"},
		"failure policy":    {`{selector: {}, failurePolicy: Ignore}`, "spec.failurePolicy: Unsupported value"},
		"unknown field":     {`{selector: {}, skip: true}`, `unknown field "spec.skip"`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := create(t, s.spec); !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), s.want) {
				t.Errorf("error %v, want %s", err, s.want)
			}
		})
	}
}
