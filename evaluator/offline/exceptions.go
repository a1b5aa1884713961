package offline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
)

// maxInactive bounds the notes about exceptions of the cluster that are not active.
const maxInactive = 5

// exceptionReading reads the exceptions of policies.
type exceptionReading struct {
	*Evaluator

	files    *Files
	accepted []*policyv1alpha1.VirtualMachinePolicyException
	// sources are the documents of the accepted ones, by namespace and name.
	sources map[string]manifests.Document
	// inactive counts those of the cluster that are not active.
	inactive int
}

// readExceptions reads the exceptions of the files, as if they were applied by a user who may, and those of the cluster.
// Notes name the ones that are not active.
func (w *Evaluator) readExceptions(ctx context.Context, files *Files, cluster *Cluster) {
	r := &exceptionReading{Evaluator: w, files: files, sources: map[string]manifests.Document{}}
	all, given := readGiven[policyv1alpha1.VirtualMachinePolicyException](ctx, w, apikinds.VirtualMachinePolicyException, files.Configuration, w.keyOf)
	if cluster != nil && len(w.policies.Policies()) > 0 {
		listed := slices.DeleteFunc(w.listExceptions(ctx, cluster, files), func(d manifests.Document) bool { return given[w.keyOf(d.Object)] })
		all = append(all, readListed[policyv1alpha1.VirtualMachinePolicyException](w, apikinds.VirtualMachinePolicyException, listed)...)
	}
	for i := range all {
		r.read(&all[i])
	}
	active := policies.NewExceptions(policies.ExceptionTerms{Trusted: true}, r.accepted...)
	for _, state := range active.States(w.now) {
		document := r.sources[state.Object.Namespace+"/"+state.Object.Name]
		if !state.Active {
			r.leaveOut(document, state.Object, state.Message)
		} else if unknown := w.withoutPolicy(state.Object); len(unknown) > 0 && document.Source != SourceCluster {
			w.Notes = append(w.Notes, fmt.Sprintf("%s: no policy is named %s", named(document, state.Object), texts.Shorten(strings.Join(unknown, ", "), maxNames)))
		}
	}
	if more := r.inactive - maxInactive; more > 0 {
		w.Notes = append(w.Notes, fmt.Sprintf("%d more VirtualMachinePolicyExceptions of the cluster are not active: kubectl get vmpolex -A", more))
	}
	w.policies.Set = w.policies.Exempting(active)
}

// read accepts an exception, unless the admission of the cluster would reject it.
func (r *exceptionReading) read(one *configured[policyv1alpha1.VirtualMachinePolicyException]) {
	e, why := &one.object, ""
	e.Namespace = cmp.Or(e.Namespace, r.DefaultNamespace)
	if one.document.Source == SourceCluster {
		why = unjudged(e)
	} else if errs := policies.CheckException(e, r.files.MaxException, r.now); len(errs) > 0 {
		why = errs[0].Error()
	}
	if why != "" {
		r.leaveOut(one.document, e, why)
		return
	}
	r.accepted = append(r.accepted, e)
	r.sources[e.Namespace+"/"+e.Name] = one.document
}

// leaveOut adds a note about an exception that is not active.
func (r *exceptionReading) leaveOut(d manifests.Document, e *policyv1alpha1.VirtualMachinePolicyException, why string) {
	if d.Source == SourceCluster {
		if r.inactive++; r.inactive > maxInactive {
			return
		}
	}
	r.Notes = append(r.Notes, named(d, e)+" is not active: "+why)
}

func named(d manifests.Document, e *policyv1alpha1.VirtualMachinePolicyException) string {
	return fmt.Sprintf("%s: %s %s/%s", d.Location(), apikinds.VirtualMachinePolicyException, e.Namespace, e.Name)
}

// unjudged returns why an exception of the cluster is not active there; empty if it is. Its status says whether the guard
// has checked its author.
func unjudged(e *policyv1alpha1.VirtualMachinePolicyException) string {
	c := apimeta.FindStatusCondition(e.Status.Conditions, policyv1alpha1.ExceptionActive)
	switch {
	case c == nil || c.ObservedGeneration != e.Generation:
		return "its status does not say yet whether the guard has checked its author"
	case c.Status != metav1.ConditionTrue:
		return c.Message
	}
	return ""
}

// withoutPolicy returns the policies of an exception that are not known.
func (w *Evaluator) withoutPolicy(e *policyv1alpha1.VirtualMachinePolicyException) []string {
	return slices.DeleteFunc(slices.Clone(e.Spec.Policies), func(name string) bool { return w.policies.Find(name) != nil })
}

// listExceptions lists the exceptions of all namespaces, or of the default one if the user may not list the others.
func (w *Evaluator) listExceptions(ctx context.Context, cluster *Cluster, files *Files) []manifests.Document {
	const kind = apikinds.VirtualMachinePolicyException
	all, err := cluster.listConfigured(ctx, kind, metav1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		all, err = cluster.listConfigured(ctx, kind, w.DefaultNamespace)
		if err == nil && slices.ContainsFunc(files.Subjects, func(d manifests.Document) bool {
			return cmp.Or(d.Object.GetNamespace(), w.DefaultNamespace) != w.DefaultNamespace
		}) {
			w.Notes = append(w.Notes, fmt.Sprintf("%ss of namespaces other than %s are not considered: you may not list them", kind, w.DefaultNamespace))
		}
	}
	if err != nil {
		w.Notes = append(w.Notes, fmt.Sprintf("%ss of the cluster are not considered: %v", kind, err))
	}
	return all
}

// keyOf returns the namespace and the name of an exception.
func (w *Evaluator) keyOf(object *unstructured.Unstructured) string {
	return cmp.Or(object.GetNamespace(), w.DefaultNamespace) + "/" + object.GetName()
}

// DefaultMaxException is the chart's value policies.exceptions.maxDays, if it is not set.
const DefaultMaxException = 90 * 24 * time.Hour
