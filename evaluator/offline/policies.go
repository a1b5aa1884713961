package offline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// maxPolicyProblems is the number of notes about one broken policy.
const maxPolicyProblems = 10

// maxNames is the length of the names of policies in one note, in bytes.
const maxNames = 500

// policySource has the policies.
type policySource struct {
	*policies.Set

	// unread are notes about ConfigMaps that no policy reads.
	unread func() []string
	// broken names the policies of files that do not compile.
	broken []string
}

// readPolicies compiles the policies of the files and of the cluster, without those to leave out. Notes name policies
// that cannot be evaluated for existing objects, and say why.
func (w *Evaluator) readPolicies(ctx context.Context, files *Files, cluster *Cluster) error {
	all := readConfigured[policyv1alpha1.VirtualMachinePolicy](ctx, w, apikinds.VirtualMachinePolicy, files.Configuration, cluster)
	all = slices.DeleteFunc(all, func(o configured[policyv1alpha1.VirtualMachinePolicy]) bool {
		return slices.Contains(files.Without, o.object.Name)
	})
	parameters := &configMaps{ctx: ctx, files: files.ConfigMaps, namespace: w.DefaultNamespace, cluster: cluster}
	w.policies = &policySource{unread: parameters.unread}
	notes, err := w.policies.compile(all, parameters)
	w.Notes = append(w.Notes, notes...)
	return err
}

// compile compiles policies. The notes name those that are skipped.
func (j *policySource) compile(all []configured[policyv1alpha1.VirtualMachinePolicy], parameters *configMaps) (notes []string, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	environment, err := cel.Shared()
	if err != nil {
		return nil, fmt.Errorf("preparing the language of policies: %w", err)
	}
	var compiled []*policies.Policy
	var forbidden []string
	for i := range all {
		p, problems := policies.Compile(environment, &all[i].object, parameters.resolve)
		if failed := parameters.failed; failed != nil {
			parameters.failed = nil
			if apierrors.IsForbidden(failed) {
				forbidden = append(forbidden, p.Name())
				continue
			}
			notes = append(notes, fmt.Sprintf("%s %s is not considered: its parameters are not known: %v", apikinds.VirtualMachinePolicy, p.Name(), failed))
			continue
		}
		if p.Broken() != "" && all[i].document.Source != SourceCluster {
			j.broken = append(j.broken, fmt.Sprintf("%s: %s %s", all[i].document.Location(), apikinds.VirtualMachinePolicy, p.Name()))
		}
		if all[i].document.Source == SourceCluster && policies.Suspended(&all[i].object) {
			notes = append(notes, fmt.Sprintf("%s %s is suspended: the cluster does not evaluate it", apikinds.VirtualMachinePolicy, p.Name()))
		}
		compiled, notes = append(compiled, p), append(notes, skipped(&all[i], p, problems)...)
	}
	if len(forbidden) > 0 {
		notes = append(notes, fmt.Sprintf("%s %s: not considered: you may not read the ConfigMaps with their parameters", apikinds.VirtualMachinePolicy, texts.Shorten(strings.Join(forbidden, ", "), maxNames)))
	}
	j.Set = policies.NewSet("", compiled...)
	return notes, nil
}

// skipped returns notes that say why a policy cannot be evaluated for existing objects; none if it can.
func skipped(from *configured[policyv1alpha1.VirtualMachinePolicy], p *policies.Policy, problems []diagnostics.Problem) (notes []string) {
	named := fmt.Sprintf("%s: %s %s", from.document.Location(), apikinds.VirtualMachinePolicy, p.Name())
	if p.Broken() == "" {
		if reasons := p.Unauditable(); len(reasons) > 0 {
			notes = append(notes, named+" was not evaluated: "+strings.Join(reasons, "; "))
		}
		return notes
	}
	notes = append(notes, named+" is broken and was not evaluated"+meaning(p.Spec()))
	for _, problem := range problems {
		if problem.Warning {
			continue
		}
		if len(notes) > maxPolicyProblems {
			return append(notes, named+": and more problems: kubectl virtward policy lint lists them all")
		}
		place := ""
		if at, known := from.document.Find(problem.Field); known {
			place = fmt.Sprintf("line %d: ", at.Line)
		}
		notes = append(notes, fmt.Sprintf("%s: %s%s", named, place, problem))
	}
	return notes
}

// meaning says what a broken policy does in a cluster.
func meaning(spec *policyv1alpha1.VirtualMachinePolicySpec) string {
	if spec.Enforcement == policyv1alpha1.PolicyDeny && spec.FailurePolicy != policyv1alpha1.PolicyIgnore {
		return "; a cluster denies every request that it matches"
	}
	return ""
}

// unusable returns an error if policies of files are broken. The notes have the details.
func (j *policySource) unusable() error {
	switch len(j.broken) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s is broken", j.broken[0])
	}
	return fmt.Errorf("%d policies are broken, the first one %s", len(j.broken), j.broken[0])
}

// described returns the built-in rules and the policies, which reports treat as rules.
func (j *policySource) described(rules validators.Table) validators.Table {
	all := slices.Clone(rules)
	for _, p := range j.Policies() {
		spec := p.Spec()
		all = append(all, validators.Rule{ID: p.Rule(), Title: strings.TrimSuffix(spec.Title, "."), Severity: validators.Severity(spec.Enforcement), Remedy: spec.Remedy})
	}
	return all
}

// configMaps reads parameters of policies: from files, as if they were applied, and then from the cluster, if there is
// one.
type configMaps struct {
	ctx       context.Context // policies.ParamsResolver has no context
	files     []manifests.Document
	namespace string
	cluster   *Cluster
	// used are the ConfigMaps of the files that a policy reads.
	used map[int]bool
	// failed is the error of the last ConfigMap.
	failed error
}

// resolve implements policies.ParamsResolver.
func (c *configMaps) resolve(namespace, name string) (data map[string]string, found bool) {
	for i, d := range c.files {
		if d.Object.GetName() != name || cmp.Or(d.Object.GetNamespace(), c.namespace) != namespace {
			continue
		}
		if c.used == nil {
			c.used = map[int]bool{}
		}
		c.used[i] = true
		return c.dataOf(d.Location(), d.Object)
	}
	if c.cluster == nil { // without a cluster, the parameters are not known
		c.failed = fmt.Errorf("ConfigMap %s/%s is not among the files", namespace, name)
		return nil, false
	}
	object, err := c.cluster.Client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace).Get(c.ctx, name, metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			c.failed = fmt.Errorf("ConfigMap %s/%s: %w", namespace, name, err)
		}
		return nil, false
	}
	return c.dataOf(SourceCluster, object)
}

func (c *configMaps) dataOf(location string, object *unstructured.Unstructured) (map[string]string, bool) {
	var typed corev1.ConfigMap
	if _, err := manifests.Decode(object.Object, &typed); err != nil {
		c.failed = fmt.Errorf("%s: ConfigMap %s: %w", location, object.GetName(), err)
		return nil, false
	}
	return typed.Data, true
}

// unread returns notes about the ConfigMaps of the files that no policy reads.
func (c *configMaps) unread() (notes []string) {
	for i, d := range c.files {
		if !c.used[i] {
			notes = append(notes, fmt.Sprintf("%s: skipped ConfigMap %s: no policy reads it", d.Location(), d.Object.GetName()))
		}
	}
	return notes
}

func isConfigMap(kind schema.GroupVersionKind) bool {
	return kind.Group == "" && kind.Kind == apikinds.ConfigMap
}
