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

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// maxPolicyProblems bounds what is told of one broken policy.
const maxPolicyProblems = 10

// policySource are the admin's policies.
type policySource struct {
	*policies.Set

	// unread are notes about ConfigMaps that were passed over.
	unread func() []string
	// broken are the policies of files that cannot be asked about anything.
	broken []string
}

// readPolicies compiles the policies of the files and of the cluster, but for those that are left out. The notes say
// which of them are not asked about what exists already, and why.
func readPolicies(ctx context.Context, files *Files, cluster *Cluster, namespace string) (j *policySource, notes []string, err error) {
	all, notes, err := readConfigured[policyv1alpha1.VirtualMachinePolicy](ctx, KindPolicy, files.Configuration, cluster)
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(o configured[policyv1alpha1.VirtualMachinePolicy]) bool {
		return slices.Contains(files.Without, o.object.Name)
	})
	parameters := &configMaps{ctx: ctx, files: files.ConfigMaps, namespace: namespace, cluster: cluster}
	j = &policySource{unread: parameters.unread}
	said, err := j.compile(all, parameters)
	return j, append(notes, said...), err
}

// compile prepares policies, and says which of them are not asked.
func (j *policySource) compile(all []configured[policyv1alpha1.VirtualMachinePolicy], parameters *configMaps) (notes []string, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	environment, err := cel.NewEnvironment()
	if err != nil {
		return nil, fmt.Errorf("preparing the language of policies: %w", err)
	}
	var compiled []*policies.Policy
	for i := range all {
		p, problems := policies.Compile(environment, &all[i].object, parameters.resolve)
		if failed := parameters.failed; failed != nil {
			parameters.failed = nil
			notes = append(notes, fmt.Sprintf("%s %s is not considered: its parameters are not known: %v", KindPolicy, p.Name(), failed))
			continue
		}
		if p.Broken() != "" && all[i].document.Source != SourceCluster {
			j.broken = append(j.broken, fmt.Sprintf("%s: %s %s", all[i].document.Location(), KindPolicy, p.Name()))
		}
		compiled, notes = append(compiled, p), append(notes, unasked(&all[i], p, problems)...)
	}
	j.Set = policies.NewSet("", compiled...)
	return notes, nil
}

// unasked says why a policy is not asked about what exists already; nothing if it is.
func unasked(from *configured[policyv1alpha1.VirtualMachinePolicy], p *policies.Policy, problems []diagnostics.Problem) (notes []string) {
	named := fmt.Sprintf("%s: %s %s", from.document.Location(), KindPolicy, p.Name())
	if p.Broken() == "" {
		if reasons := p.Unauditable(); len(reasons) > 0 {
			notes = append(notes, named+" was not asked: "+strings.Join(reasons, "; "))
		}
		return notes
	}
	notes = append(notes, named+" is broken and was not asked"+meaning(p.Spec()))
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

// meaning is what a broken policy does in a cluster.
func meaning(spec *policyv1alpha1.VirtualMachinePolicySpec) string {
	if spec.Enforcement == policyv1alpha1.PolicyDeny && spec.FailurePolicy != policyv1alpha1.PolicyIgnore {
		return "; a cluster rejects whatever it is for"
	}
	return ""
}

// unusable is the error that policies of files are broken, which the notes say more about; nil if none is.
func (j *policySource) unusable() error {
	switch len(j.broken) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s is broken", j.broken[0])
	}
	return fmt.Errorf("%d policies are broken, the first one %s", len(j.broken), j.broken[0])
}

// described are the rules with the policies among them, each of which is a rule to whoever reads a report.
func (j *policySource) described(rules validators.Table) validators.Table {
	all := slices.Clone(rules)
	for _, p := range j.Policies() {
		spec := p.Spec()
		all = append(all, validators.Rule{ID: p.Rule(), Title: strings.TrimSuffix(spec.Title, "."), Severity: validators.Severity(spec.Enforcement), Remedy: spec.Remedy})
	}
	return all
}

// configMaps are where policies find parameters: in the files, as if they had been applied already, and then in the
// cluster if there is one.
type configMaps struct {
	ctx       context.Context // a resolver of the pure core is not given one
	files     []manifests.Document
	namespace string
	cluster   *Cluster
	// used are those of the files that some policy names.
	used map[int]bool
	// failed says why the last one could not be read.
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
	if c.cluster == nil { // who knows
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

// unread are notes about the ConfigMaps of the files that are nobody's parameters.
func (c *configMaps) unread() (notes []string) {
	for i, d := range c.files {
		if !c.used[i] {
			notes = append(notes, passedOver(d))
		}
	}
	return notes
}

func isConfigMap(kind schema.GroupVersionKind) bool {
	return kind.Group == "" && kind.Kind == "ConfigMap"
}
