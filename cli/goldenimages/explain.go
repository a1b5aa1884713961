package goldenimages

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/texts"
)

// explanation is what is printed about a DataSource.
type explanation struct {
	subject, state string
	sentences      []string
}

func (e *explanation) say(format string, args ...any) {
	e.sentences = append(e.sentences, texts.OneLine(fmt.Sprintf(format, args...)))
}

// explain explains an image: its DataSource and then each architecture, or one architecture.
func (v *view) explain(f *found) []explanation {
	i := f.image
	if f.one {
		return []explanation{v.architecture(i, f.architecture)}
	}
	if i.once() {
		return []explanation{v.single(i)}
	}
	all := []explanation{v.pointer(i)}
	if i.Reason != "" && i.Reason != goldenimages.ReasonUnsupported {
		return all
	}
	for k := range i.Imports {
		all = append(all, v.architecture(i, i.Imports[k].Architecture))
	}
	return all
}

// remedies say what to do about the reason why an image is not deployed.
var remedies = map[string]string{
	goldenimages.ReasonDisabled:    "Set the annotation " + v1alpha1.EnableAnnotation + " of the entry to true, or remove it.",
	goldenimages.ReasonInvalid:     "Correct the entry in the catalog.",
	goldenimages.ReasonNameTaken:   "Choose other names in the entry, or set the annotation on that object.",
	goldenimages.ReasonDuplicate:   "Rename one of them, or remove it.",
	goldenimages.ReasonUnsupported: "Add a node of such an architecture. If the image has another one, add it to the annotation " + v1alpha1.ArchitecturesAnnotation + ".",
	statePending:                   "Check that the Deployment " + processes.Images + " runs.",
}

// undeployed explains why an image is not deployed. It reports false if it is deployed.
func (i *image) undeployed(e *explanation) bool {
	if i.Reason == "" {
		return false
	}
	e.say("The image is not deployed: %s.", strings.TrimSuffix(i.Message, "."))
	if remedy := remedies[i.Reason]; remedy != "" {
		e.say("%s", remedy)
	}
	return true
}

// pointer explains the DataSource without a suffix.
func (v *view) pointer(i *image) explanation {
	e := explanation{subject: i.DataSource, state: i.Reason}
	source := v.sources[key{i.Namespace, i.DataSource}]
	if i.undeployed(&e) {
		if source != nil && isReady(source) {
			e.say("The DataSource exists and is ready, but the catalog does not keep it up to date.")
		}
		return e
	}
	e.state = v.stateOf(source, i)
	to := suffixed(i.DataSource, i.Default)
	switch at := target(source); {
	case at == to:
		e.say("The DataSource points to %s.", to)
	case at != "":
		e.say("The DataSource still points to %s. It changes to %s when that is ready.", at, to)
	case source != nil && v.sources[key{i.Namespace, to}] != nil:
		e.say("The DataSource still has an image of its own. It points to %s when that is ready.", to)
	case source == nil && !v.unread[i.Namespace]:
		e.say("The DataSource does not exist yet. It will point to %s.", to)
	case e.state == stateReady:
		e.say("The DataSource points to %s.", to)
	default:
		e.say("The DataSource points to %s as soon as that is imported.", to)
	}
	e.say("%s", defaultReason(i))
	i.manifest(&e)
	e.reports(source)
	return e
}

// stateOf is the state of a DataSource. If it may not be read, it is that of the default architecture.
func (v *view) stateOf(source *cdiv1beta1.DataSource, i *image) string {
	switch {
	case source != nil && isReady(source):
		return stateReady
	case source == nil && v.unread[i.Namespace]:
		for k := range i.Imports {
			if i.Imports[k].Architecture == i.Default {
				return i.Imports[k].State
			}
		}
	}
	return "NotReady"
}

// defaultReason says why an architecture is the default.
func defaultReason(i *image) string {
	n := &i.catalog.Status.Nodes
	switch {
	case i.status != nil && len(i.status.Architectures) == 1:
		return fmt.Sprintf("%s is the default architecture: the image has no other one that nodes have.", i.Default)
	case i.Default == n.DefaultArchitecture && count(n.ControlPlaneArchitectures, i.Default) > 0:
		return fmt.Sprintf("%s is the default architecture: nodes of the control plane have it.", i.Default)
	case i.Default == n.DefaultArchitecture:
		return fmt.Sprintf("%s is the default architecture: most nodes have it.", i.Default)
	}
	return fmt.Sprintf("%s is the default architecture: it was chosen earlier, or the import of %s fails.", i.Default, n.DefaultArchitecture)
}

// reports adds what CDI says about a DataSource that is not ready.
func (e *explanation) reports(source *cdiv1beta1.DataSource) {
	if source == nil || isReady(source) {
		return
	}
	for _, c := range source.Status.Conditions {
		if c.Type == cdiv1beta1.DataSourceReady {
			e.say("CDI reports: %s: %s", c.Reason, texts.Shorten(c.Message, maxText))
		}
	}
}

// single explains an image that is imported once.
func (v *view) single(i *image) explanation {
	e := explanation{subject: i.DataSource, state: i.Reason}
	if i.undeployed(&e) {
		return e
	}
	deployed := i.condition(goldenimages.Deployed)
	switch {
	case deployed != nil && deployed.Reason == goldenimages.ReasonSingleNode:
		e.say("The image is imported once, because the cluster has one node.")
	case i.catalog.Spec.MultiArch != nil && !*i.catalog.Spec.MultiArch:
		e.say("The image is imported once, because the catalog has multiArch: false.")
	default:
		e.say("The image is imported once, because the entry has no annotation %s.", v1alpha1.ArchitecturesAnnotation)
	}
	i.manifest(&e)
	v.imported(&e, i, &i.Imports[0])
	return e
}

// architecture explains the image for an architecture.
func (v *view) architecture(i *image, architecture string) explanation {
	e := explanation{subject: suffixed(i.DataSource, architecture), state: stateAbsent}
	k := slices.IndexFunc(i.Imports, func(of importOf) bool { return of.Architecture == architecture })
	if k >= 0 {
		e.state = i.Imports[k].State
	}
	switch {
	case e.state == stateBlocked || e.state == statePending:
		i.undeployed(&e)
	case i.once():
		e.say("The image is imported once, and not for each architecture. See %s.", i.DataSource)
	case e.state == stateMissing:
		i.missing(&e, architecture)
	case e.state == stateAbsent:
		e.say("No node that runs virtual machines has the architecture %s.", architecture)
		if listed, _ := i.listed(); slices.Contains(listed, architecture) {
			e.say("The image is imported when one joins.")
		} else {
			e.say("The entry does not list it.")
		}
	default:
		v.imported(&e, i, &i.Imports[k])
		if since := absentSince(i.catalog, architecture); since != nil {
			e.say("The last node of %s left %s ago. Its DataImportCron is removed %s after that; the imported disk stays.", architecture, ageOf(since), duration.HumanDuration(delayOf(i.catalog)))
		}
		return e
	}
	if source := v.sources[key{i.Namespace, e.subject}]; source != nil && isReady(source) && !i.once() {
		e.say("The DataSource exists and is ready, but nothing imports it again.")
	}
	return e
}

// missing explains why nodes have an architecture and the image does not.
func (i *image) missing(e *explanation, architecture string) {
	nodes := nodesOf(count(i.catalog.Status.Nodes.WorkloadArchitectures, architecture))
	if _, annotated := goldenimages.Listed(i.template); !annotated {
		e.say("%s of %s, but the manifest of the image does not have it.", nodes, architecture)
		return
	}
	e.say("%s of %s, but the entry does not list it.", nodes, architecture)
	e.say("If the image has it, add it to the annotation %s of the entry.", v1alpha1.ArchitecturesAnnotation)
}

// manifest explains what the registry has for the image, if Virtward reads that.
func (i *image) manifest(e *explanation) {
	c := i.condition(goldenimages.ManifestVerified)
	switch {
	case c == nil:
	case c.Status == metav1.ConditionTrue:
		e.say("Virtward verified the manifest: %s.", texts.OneLine(c.Message))
	case c.Status == metav1.ConditionUnknown:
		e.say("The manifest is not known: %s: %s.", texts.OneLine(c.Reason), texts.OneLine(texts.Shorten(c.Message, maxText)))
	default:
		e.say("The manifest and the entry differ: %s.", texts.OneLine(texts.Shorten(c.Message, maxText)))
	}
}

// imported explains an import.
func (v *view) imported(e *explanation, i *image, of *importOf) {
	e.state = of.State
	name := key{i.Namespace, of.DataImportCron}
	cron, volume := v.crons[name], v.volumes[name]
	switch {
	case of.State == stateReady && of.Imported != nil:
		e.say("DataImportCron %s imported it %s ago from %s.", of.DataImportCron, ageOf(of.Imported), i.url())
	case cron == nil && !v.unread[i.Namespace]:
		e.say("DataImportCron %s does not exist yet. Check that the Deployment "+processes.Images+" runs.", of.DataImportCron)
	default:
		e.say("DataImportCron %s imports it from %s.", of.DataImportCron, i.url())
	}
	switch {
	case of.State == stateReady:
	case of.State == stateFailed:
		e.say("CDI reports: %s: %s", of.Reason, of.Message)
		e.say("%s", advice(of))
	case volume != nil:
		e.say("DataVolume %s is in the phase %s%s.", volume.Name, phase(volume), strings.TrimSuffix(", "+of.Progress, ", "))
	case cron != nil:
		e.say("CDI has not started the import. If this lasts, check that CDI runs, and see the events of the DataImportCron.")
	}
}

func phase(volume *cdiv1beta1.DataVolume) string {
	if volume.Status.Phase == "" {
		return "Pending"
	}
	return string(volume.Status.Phase)
}

// advice says what to do about a failed import.
func advice(of *importOf) string {
	switch of.Reason {
	case "ImagePullFailed":
		if of.Architecture == "" {
			return "Check the URL, and that the registry has the image."
		}
		return fmt.Sprintf("Check the URL, and that the image has the architecture %s. If it has not, remove %s from the annotation %s.", of.Architecture, of.Architecture, v1alpha1.ArchitecturesAnnotation)
	case "Unschedulable":
		return "Check that a node has the architecture, and room for the pod of the importer."
	}
	return "See the events and the log of the importer's pod in the namespace of the image."
}

// url is the source of an image.
func (i *image) url() string {
	if i.template.Spec == nil || i.template.Spec.Template.Spec.Source == nil {
		return "its source"
	}
	switch source := i.template.Spec.Template.Spec.Source; {
	case source.Registry != nil && source.Registry.URL != nil:
		return texts.Shorten(*source.Registry.URL, maxText)
	case source.Registry != nil && source.Registry.ImageStream != nil:
		return "the image stream " + *source.Registry.ImageStream
	case source.PVC != nil:
		return "the claim " + source.PVC.Namespace + "/" + source.PVC.Name
	}
	return "its source"
}

func nodesOf(n int32) string {
	if n == 1 {
		return "1 node is"
	}
	return fmt.Sprintf("%d nodes are", n)
}

func isReady(source *cdiv1beta1.DataSource) bool {
	return slices.ContainsFunc(source.Status.Conditions, func(c cdiv1beta1.DataSourceCondition) bool {
		return c.Type == cdiv1beta1.DataSourceReady && c.Status == corev1.ConditionTrue
	})
}

// target is the DataSource that a pointer names.
func target(source *cdiv1beta1.DataSource) string {
	if source == nil || source.Spec.Source.DataSource == nil {
		return ""
	}
	return source.Spec.Source.DataSource.Name
}
