package guards

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/admissionpolicies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/validators"
)

const (
	repository  = "../.."
	settingsDoc = "docs/rule-settings.md"
)

// userCluster is an API server with Virtward's kinds, their guards, and users with RBAC permissions.
type userCluster struct {
	*controlplane.ControlPlane
	admin client.Client
	users map[string]client.Client
}

// settingsCluster is a userCluster for RuleSettings.
type settingsCluster struct{ *userCluster }

func TestRuleSettings(t *testing.T) {
	cases, err := admissionpolicies.RuleSettingsCases()
	if err != nil {
		t.Fatal(err)
	}
	c := newSettingsCluster(t)
	for i := range cases {
		if cases[i].Object == "" {
			cases[i].Object = fmt.Sprintf("case-%d", i)
		}
		if cases[i].Old != nil { // before the guard is there
			c.create(t, settings(cases[i].Object, cases[i].Old))
		}
	}
	c.guard(t)
	for _, each := range cases {
		t.Run(each.Name, func(t *testing.T) { c.evaluate(t, each) })
	}
	t.Run("a name that the server makes", c.generatedName)
	t.Run("a delete of all", c.deleteCollection)
	t.Run("the largest objects", c.largest)
	t.Run("only finalizers", c.finalizers)
	t.Run("the definition rejects", c.definition)
	t.Run("the documentation", c.documentation)
	t.Run("kubectl", c.kubectl)
	t.Run("type checking", func(t *testing.T) { c.typeChecks(t, admissionpolicies.RuleSettings) })
}

// newUserCluster starts a userCluster with the roles of a page of the documentation.
func newUserCluster(t *testing.T, page string) *userCluster {
	t.Helper()
	c := &userCluster{ControlPlane: pool.Take(t), users: map[string]client.Client{}}
	c.admin = c.client(t, "an-admin", "system:masters")
	for _, role := range documented(t, page, "ClusterRole") {
		c.create(t, role)
	}
	return c
}

func newSettingsCluster(t *testing.T) *settingsCluster {
	t.Helper()
	c := &settingsCluster{newUserCluster(t, settingsDoc)}
	c.create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "weakener-of-exceptions"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{policyv1alpha1.GroupVersion.Group}, Resources: []string{"rulesettings"},
			Verbs: []string{policyv1alpha1.VerbWeaken}, ResourceNames: []string{"exceptions"},
		}},
	})
	c.user(t, "editor", "rule-settings-editor")
	c.user(t, "weakener", "rule-settings-editor", "rule-settings-weakener")
	c.user(t, "weakener-of-exceptions", "rule-settings-editor", "weakener-of-exceptions")
	return c
}

func (c *userCluster) client(t *testing.T, name string, groups ...string) client.Client {
	t.Helper()
	config, err := c.UserConfig(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, policyv1alpha1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	made, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// user returns a client of a user with only these cluster roles.
func (c *userCluster) user(t *testing.T, name string, roles ...string) {
	t.Helper()
	for _, role := range roles {
		c.create(t, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		})
	}
	c.users[name] = c.client(t, name)
}

func (c *userCluster) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := c.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// guard installs the guards, and waits until all of them are active.
func (c *userCluster) guard(t *testing.T) {
	t.Helper()
	for _, object := range withSentinel(t) {
		c.create(t, object)
	}
	(&cluster{t: t, ctx: t.Context(), client: c.admin}).awaitGuards()
}

func settings(name string, spec *policyv1alpha1.RuleSettingsSpec) *policyv1alpha1.RuleSettings {
	return &policyv1alpha1.RuleSettings{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *spec}
}

// entries returns settings of a rule for many namespaces, each with its own selector.
func entries(count int, severity policyv1alpha1.Severity, rule string) *policyv1alpha1.RuleSettingsSpec {
	spec := &policyv1alpha1.RuleSettingsSpec{}
	for i := range count {
		spec.Rules = append(spec.Rules, policyv1alpha1.RuleSetting{
			Rule: rule, Severity: severity,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: fmt.Sprintf("namespace-%d", i)}},
			Reason:            strings.Repeat("r", 500),
		})
	}
	return spec
}

func (c *settingsCluster) evaluate(t *testing.T, each admissionpolicies.RuleSettingsCase) {
	user := c.users[each.User]
	if user == nil {
		t.Fatalf("there is no user %s", each.User)
	}
	var err error
	switch {
	case each.Old == nil:
		err = user.Create(t.Context(), settings(each.Object, each.New), client.DryRunAll)
	case each.New == nil:
		err = user.Delete(t.Context(), settings(each.Object, each.Old), client.DryRunAll)
	default:
		current := &policyv1alpha1.RuleSettings{}
		if err := user.Get(t.Context(), client.ObjectKey{Name: each.Object}, current); err != nil {
			t.Fatal(err)
		}
		current.Spec = *each.New
		err = user.Update(t.Context(), current, client.DryRunAll)
	}
	expect(t, err, each.Object, each.Denied)
}

// expect compares an answer with the complete message of the guard.
func expect(t *testing.T, err error, name, denied string) {
	t.Helper()
	expectFrom(t, admissionpolicies.RuleSettings, "rulesettings", err, name, denied)
}

// expectFrom is expect for the guard of one of Virtward's resources.
func expectFrom(t *testing.T, guard, resource string, err error, name, denied string) {
	t.Helper()
	if denied == "" {
		if err != nil {
			t.Errorf("denied, but should be allowed: %v", err)
		}
		return
	}
	if err == nil {
		t.Fatalf("allowed, but should be denied: %s", denied)
	}
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request: %[2]s", guard, denied)
	want := metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusForbidden,
		Reason:  metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("%s.policy.virtward.io %q is forbidden: %s", resource, name, message),
		Details: &metav1.StatusDetails{
			Group: "policy.virtward.io", Kind: resource, Name: name,
			Causes: []metav1.StatusCause{{Message: message}},
		},
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("not an answer of the API server: %v", err)
	}
	if diff := cmp.Diff(want, status.Status(), cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

const deniedHostDevice = "rule-settings-weaken: spec.rules: this makes a security-relevant rule more lenient: " +
	"you need the verb weaken on rulesettings.policy.virtward.io: hostdevice-gate"

func (c *settingsCluster) generatedName(t *testing.T) {
	object := settings("", entries(1, policyv1alpha1.Warn, "hostdevice-gate"))
	object.GenerateName = "generated-"
	for user, allowed := range map[string]bool{"editor": false, "weakener": true, "weakener-of-exceptions": false} {
		err := c.users[user].Create(t.Context(), object.DeepCopy(), client.DryRunAll)
		if allowed && err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if !allowed && (err == nil || !strings.Contains(err.Error(), deniedHostDevice)) {
			t.Errorf("%s: want a rejection by the guard, got %v", user, err)
		}
	}
}

// deleteCollection is a request without a name.
func (c *settingsCluster) deleteCollection(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cleaner"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"policy.virtward.io"}, Resources: []string{"rulesettings"}, Verbs: []string{"deletecollection"},
	}}}
	c.create(t, role)
	c.user(t, "cleaner", role.Name)
	labelled := map[string]string{"clean": "yes"}
	object := settings("held-up", entries(1, policyv1alpha1.Deny, "hostdevice-gate"))
	object.Labels = labelled
	c.create(t, object)
	await.Until(t, func() error { // first, the API server learns of the right
		err := c.users["cleaner"].DeleteAllOf(t.Context(), &policyv1alpha1.RuleSettings{}, client.MatchingLabels(labelled))
		if err == nil || !strings.Contains(err.Error(), deniedHostDevice) {
			return fmt.Errorf("want a rejection by the guard, got %w", err)
		}
		return nil
	})
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	if err := c.admin.DeleteAllOf(t.Context(), &policyv1alpha1.RuleSettings{}, client.MatchingLabels(labelled)); err != nil {
		t.Errorf("an admin may not: %v", err)
	}
}

// largest writes objects with the maximum number of entries, all for a security-relevant rule. The guard must stay within
// the API server's cost limit of an expression.
func (c *settingsCluster) largest(t *testing.T) {
	const rule = "volume-container-path-reserved"
	for i, each := range []struct {
		name     string
		old, new policyv1alpha1.Severity
		denied   bool
	}{
		{"the same again", policyv1alpha1.Off, policyv1alpha1.Off, false},
		{"every entry lowered to Warn", policyv1alpha1.Deny, policyv1alpha1.Warn, true},
		{"every entry lowered to Off", policyv1alpha1.Warn, policyv1alpha1.Off, true},
		{"every entry raised to Warn", policyv1alpha1.Off, policyv1alpha1.Warn, false},
		{"every entry raised to Deny", policyv1alpha1.Warn, policyv1alpha1.Deny, false},
	} {
		t.Run(each.name, func(t *testing.T) {
			name := fmt.Sprintf("large-%d", i)
			object := settings(name, entries(policyv1alpha1.MaxRuleSettings, each.old, rule))
			c.create(t, object)
			object.Spec = *entries(policyv1alpha1.MaxRuleSettings, each.new, rule)
			denied := ""
			if each.denied {
				denied = strings.Replace(deniedHostDevice, "hostdevice-gate", rule, 1)
			}
			expect(t, c.users["editor"].Update(t.Context(), object.DeepCopy(), client.DryRunAll), name, denied)
			expect(t, c.users["weakener"].Update(t.Context(), object, client.DryRunAll), name, "")
		})
	}
}

// finalizers verifies that any user can remove the finalizers of an object that is being deleted.
func (c *settingsCluster) finalizers(t *testing.T) {
	object := settings("held", entries(1, policyv1alpha1.Deny, "hostdevice-gate"))
	object.Finalizers = []string{"example.com/held"}
	c.create(t, object)
	if err := c.users["weakener"].Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := c.users["editor"].Patch(t.Context(), object, patch); err != nil {
		t.Errorf("the finalizer stays: %v", err)
	}
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
		t.Errorf("the object is still there: %v", err)
	}
}

// definition verifies what the schema rejects, before a guard or a webhook runs.
func (c *settingsCluster) definition(t *testing.T) {
	for _, each := range []struct{ name, rules, want string }{
		{"a severity that there is not", "[{rule: disk-count, severity: Maybe}]", `spec.rules[0].severity: Unsupported value: "Maybe": supported values: "Deny", "Warn", "Off"`},
		{"Off without quotes", "[{rule: disk-count, severity: Off}]", `spec.rules[0].severity: Invalid value: "boolean": spec.rules[0].severity in body must be of type string: "boolean"`},
		{"no severity", "[{rule: disk-count}]", "spec.rules[0].severity: Required value"},
		{"no rule", "[{severity: Warn}]", "spec.rules[0].rule: Required value"},
		{"an id in capitals", "[{rule: Disk-Count, severity: Warn}]", "spec.rules[0].rule: Invalid value: \"Disk-Count\": spec.rules[0].rule in body should match '^[a-z0-9]+(-[a-z0-9]+)*$'"},
		{"a long id", "[{rule: " + strings.Repeat("a", 64) + ", severity: Warn}]", "spec.rules[0].rule: Too long: may not be more than 63 bytes"},
		{"a long reason", "[{rule: disk-count, severity: Warn, reason: " + strings.Repeat("a", 1025) + "}]", "spec.rules[0].reason: Too long: may not be more than 1024 bytes"},
		{"too many entries", "[" + strings.Repeat("{rule: disk-count, severity: Warn},", 301) + "]", "spec.rules: Too many: 301: must have at most 300 items"},
		{"a field that there is not", "[{rule: disk-count, severity: Warn, namespaces: [lab]}]", `unknown field "spec.rules[0].namespaces"`},
	} {
		t.Run(each.name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			text := "{apiVersion: policy.virtward.io/v1alpha1, kind: RuleSettings, metadata: {name: rejected}, spec: {rules: " + each.rules + "}}"
			if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
				t.Fatal(err)
			}
			err := client.WithFieldValidation(c.admin, metav1.FieldValidationStrict).Create(t.Context(), object, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), each.want) {
				t.Errorf("got %v,\nwant %s", err, each.want)
			}
		})
	}
}

// documentation verifies that the API server and CheckSettings accept every RuleSettings in the documentation.
func (c *settingsCluster) documentation(t *testing.T) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	objects := documented(t, settingsDoc, "RuleSettings")
	if len(objects) < 2 {
		t.Fatalf("%s has %d RuleSettings", settingsDoc, len(objects))
	}
	for _, object := range objects {
		if err := client.WithFieldValidation(c.admin, metav1.FieldValidationStrict).Create(t.Context(), object.DeepCopy(), client.DryRunAll); err != nil {
			t.Error(err)
		}
		typed := &policyv1alpha1.RuleSettings{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Error(err)
		}
		if errs := validators.CheckSettings(registry.Rules(), typed); len(errs) > 0 {
			t.Errorf("%s: %v", object.GetName(), errs)
		}
	}
}

// documented returns the objects of a kind in the YAML of a page of the documentation.
func documented(t *testing.T, page, kind string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, page))
	if err != nil {
		t.Fatal(err)
	}
	var found []*unstructured.Unstructured
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(content, -1) {
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(block[1])))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			if object.GetKind() == kind {
				found = append(found, object)
			}
		}
	}
	return found
}

// columns are those that the documentation prints.
func columns(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`--output '(custom-columns=[^']+)'`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the documentation prints no columns")
	}
	return found[1]
}

// asDocumented stands for an output that the documentation shows.
const asDocumented = "as documented"

// unwrapped is a text without line breaks.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

// kubectl prints and explains the kind, and says what the documentation says that it says.
func (c *settingsCluster) kubectl(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(repository, settingsDoc))
	if err != nil {
		t.Fatal(err)
	}
	editor, err := c.UserConfig("editor")
	if err != nil {
		t.Fatal(err)
	}
	asEditor, err := c.WriteKubeconfig("editor", editor)
	if err != nil {
		t.Fatal(err)
	}
	c.create(t, settings("printed", &policyv1alpha1.RuleSettingsSpec{Rules: []policyv1alpha1.RuleSetting{
		{Rule: "disk-count", Severity: policyv1alpha1.Warn}, {Rule: "volume-count", Severity: policyv1alpha1.Off},
	}}))
	devices := filepath.Join(t.TempDir(), "devices.yaml")
	text := "{apiVersion: policy.virtward.io/v1alpha1, kind: RuleSettings, metadata: {name: devices}, spec: {rules: [{rule: hostdevice-gate, severity: Warn}]}}"
	if err := os.WriteFile(devices, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct {
		config  string
		command []string
		want    string
	}{
		{c.Kubeconfig(), []string{"get", "rset", "printed"}, "NAME AGE printed "},
		{c.Kubeconfig(), []string{"get", "rulesettings", "printed", "--output", columns(t, string(content))}, "NAME RULES SEVERITIES printed disk-count,volume-count Warn,Off"},
		{c.Kubeconfig(), []string{"explain", "rulesettings.spec.rules.severity"}, "To set a security-relevant rule to Warn or Off, you need the verb weaken"},
		{c.Kubeconfig(), []string{"auth", "can-i", "weaken", "rulesettings.policy.virtward.io", "--as=editor"}, "no"},
		{c.Kubeconfig(), []string{"auth", "can-i", "weaken", "rulesettings.policy.virtward.io", "--as=weakener"}, "yes"},
		{c.Kubeconfig(), []string{"get", "validatingadmissionpolicy", "virtward-rule-settings", "--output", `jsonpath={.spec.variables[?(@.name=="security")].expression}`}, "'hostdevice-gate'"},
		{asEditor, []string{"apply", "-f", devices}, asDocumented},
	} {
		t.Run(strings.Join(each.command[:min(3, len(each.command))], " "), func(t *testing.T) {
			command := exec.CommandContext(t.Context(), c.Binary("sandbox/kubectl"), each.command...)
			command.Env = []string{"KUBECONFIG=" + each.config, "HOME=" + t.TempDir()}
			output, _ := command.CombinedOutput() // can-i and apply fail, and say why
			said := unwrapped(string(output))
			if each.want == asDocumented {
				if said = strings.ReplaceAll(said, devices, "devices.yaml"); !strings.Contains(unwrapped(string(content)), said) {
					t.Errorf("the documentation does not show\n%s", said)
				}
				return
			}
			if !strings.Contains(said, each.want) {
				t.Errorf("it says\n%s\nand not\n%s", output, each.want)
			}
		})
	}
}

// typeChecks fails if the API server finds a mistake in an expression.
func (c *userCluster) typeChecks(t *testing.T, name string) {
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	eventually(t, "the type checking", func() bool {
		if err := c.admin.Get(t.Context(), client.ObjectKey{Name: name}, policy); err != nil {
			t.Fatal(err)
		}
		return policy.Status.TypeChecking != nil
	})
	for _, mistake := range policy.Status.TypeChecking.ExpressionWarnings {
		t.Errorf("%s: %s", mistake.FieldRef, mistake.Warning)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	c := &cluster{t: t, ctx: context.Background()}
	c.await(what, done)
}
