package imports

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Labels and annotations of CDI.
const (
	CronLabel        = "cdi.kubevirt.io/dataImportCron"
	CleanupLabel     = "cdi.kubevirt.io/dataImportCron.cleanup"
	DigestAnnotation = "cdi.kubevirt.io/storage.import.sourceDesiredDigest"
	bindImmediately  = "cdi.kubevirt.io/storage.bind.immediate.requested"
)

const (
	digestPrefix = "sha256:"
	// inName is how much of a digest the name of a DataVolume has.
	inName = 12
)

// errNoDigest is the error of a cron whose source has no digest: that of a claim.
var errNoDigest = errors.New("the source has no digest")

// ReconcileCron imports the image whose digest a DataImportCron has, as CDI's controller does. If the cron is gone, it
// deletes what CDI deletes with it.
func (o *Objects) ReconcileCron(name Name) error {
	cron := o.Crons[name]
	if cron == nil {
		o.cleanUp(name)
		return nil
	}
	source := o.managed(cron)
	digest := cron.Annotations[DigestAnnotation]
	current := currentImport(cron)
	volume := o.Volumes[Name{cron.Namespace, current.DataVolumeName}]
	switch {
	case digest == "" && current.Digest == "":
		if from := cron.Spec.Template.Spec.Source; from != nil && from.Registry == nil {
			return errNoDigest
		}
	case volume != nil && volume.Status.Phase != cdiv1beta1.Succeeded && failed(volume) && current.Digest != digest:
		delete(o.Volumes, Name{cron.Namespace, volume.Name})
		cron.Status.CurrentImports = nil
		setConditions(cron, corev1.ConditionTrue, "ImportProgressing", "Outdated")
	case volume != nil && volume.Status.Phase != cdiv1beta1.Succeeded:
		progress(cron, volume)
	case current.Digest != digest:
		o.begin(cron, digest)
	default:
		o.complete(cron, source, current.DataVolumeName)
	}
	return nil
}

func currentImport(cron *cdiv1beta1.DataImportCron) cdiv1beta1.ImportStatus {
	if len(cron.Status.CurrentImports) == 0 {
		return cdiv1beta1.ImportStatus{}
	}
	return cron.Status.CurrentImports[0]
}

// cleanUp deletes the objects of a cron that are marked.
func (o *Objects) cleanUp(cron Name) {
	marked := func(object metav1.Object) bool {
		labels := object.GetLabels()
		return object.GetNamespace() == cron.Namespace && labels[CronLabel] == cron.Name && labels[CleanupLabel] == "true"
	}
	maps.DeleteFunc(o.Sources, func(_ Name, s *cdiv1beta1.DataSource) bool { return marked(s) })
	maps.DeleteFunc(o.Volumes, func(n Name, v *cdiv1beta1.DataVolume) bool {
		if marked(v) {
			delete(o.Claims, n) // its owner is gone
			return true
		}
		return false
	})
	maps.DeleteFunc(o.Claims, func(_ Name, c *corev1.PersistentVolumeClaim) bool { return marked(c) })
	maps.DeleteFunc(o.Snapshots, func(_ Name, s *Snapshot) bool { return marked(s) })
}

// managed returns the DataSource of a cron, and makes it. It is nil if the DataSource has not the label of the cron.
func (o *Objects) managed(cron *cdiv1beta1.DataImportCron) *cdiv1beta1.DataSource {
	name := Name{cron.Namespace, cron.Spec.ManagedDataSource}
	source := o.Sources[name]
	switch {
	case source == nil:
		source = &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		o.Sources[name] = source
	case source.Labels[CronLabel] != cron.Name:
		return nil
	}
	label(&source.Labels, cron)
	return source
}

// label sets the labels that CDI gives to the objects of a cron.
func label(labels *map[string]string, cron *cdiv1beta1.DataImportCron) {
	for key, value := range cron.Labels {
		if copied.MatchString(key) {
			setLabel(labels, key, value)
		}
	}
	setLabel(labels, CronLabel, cron.Name)
	setLabel(labels, "app.kubernetes.io/component", "storage")
	setLabel(labels, "app.kubernetes.io/managed-by", "cdi-controller")
	if cron.Spec.RetentionPolicy != nil && *cron.Spec.RetentionPolicy == cdiv1beta1.DataImportCronRetainNone {
		setLabel(labels, CleanupLabel, "true")
	}
}

// begin creates the DataVolume of an image, unless there is one.
func (o *Objects) begin(cron *cdiv1beta1.DataImportCron, digest string) {
	short := strings.TrimPrefix(digest, digestPrefix)
	name := Name{cron.Namespace, cron.Spec.ManagedDataSource + "-" + short[:min(len(short), inName)]}
	if o.Volumes[name] == nil {
		volume := cron.Spec.Template.DeepCopy()
		volume.Namespace, volume.Name = name.Namespace, name.Name
		label(&volume.Labels, cron)
		setLabel(&volume.Annotations, bindImmediately, "true")
		if from := volume.Spec.Source; from != nil && from.Registry != nil && from.Registry.URL != nil {
			pinned := pin(*from.Registry.URL, digest)
			from.Registry.URL = &pinned
		}
		o.Volumes[name] = volume
	}
	cron.Status.CurrentImports = []cdiv1beta1.ImportStatus{{DataVolumeName: name.Name, Digest: digest}}
	setConditions(cron, corev1.ConditionFalse, "NoImport", "Outdated")
}

// pin replaces the tag of an image by its digest.
func pin(url, digest string) string {
	if slash, colon := strings.LastIndex(url, "/"), strings.LastIndex(url, ":"); colon > slash {
		url = url[:colon]
	}
	return url + "@" + digest
}

// progress reports an import that is not done.
func progress(cron *cdiv1beta1.DataImportCron, volume *cdiv1beta1.DataVolume) {
	status := corev1.ConditionFalse
	reason := string(volume.Status.Phase)
	if volume.Status.Phase == cdiv1beta1.ImportInProgress {
		status, reason = corev1.ConditionTrue, "ImportProgressing"
	}
	setConditions(cron, status, reason, "ImportProgressing")
}

// failed reports whether an import ended with an error.
func failed(volume *cdiv1beta1.DataVolume) bool {
	return slices.ContainsFunc(volume.Status.Conditions, func(c cdiv1beta1.DataVolumeCondition) bool {
		return c.Type == cdiv1beta1.DataVolumeRunning && c.Reason == "Error"
	})
}

// complete gives the imported claim to the DataSource.
func (o *Objects) complete(cron *cdiv1beta1.DataImportCron, source *cdiv1beta1.DataSource, claim string) {
	imported := &cdiv1beta1.DataVolumeSourcePVC{Namespace: cron.Namespace, Name: claim}
	if source != nil {
		source.Spec.Source = cdiv1beta1.DataSourceSource{PVC: imported}
	}
	if stored := o.Claims[Name{cron.Namespace, claim}]; stored != nil {
		label(&stored.Labels, cron)
	}
	format := cdiv1beta1.DataImportCronSourceFormatPvc
	if last := cron.Status.LastImportedPVC; !o.Now.IsZero() && (last == nil || *last != *imported) {
		cron.Status.LastImportTimestamp = o.Now.DeepCopy()
	}
	cron.Status.LastImportedPVC, cron.Status.SourceFormat = imported.DeepCopy(), &format
	setConditions(cron, corev1.ConditionFalse, "NoImport", "UpToDate")
}

func setConditions(cron *cdiv1beta1.DataImportCron, progressing corev1.ConditionStatus, progressingReason, upToDate string) {
	current := corev1.ConditionFalse
	if upToDate == "UpToDate" {
		current = corev1.ConditionTrue
	}
	cron.Status.Conditions = []cdiv1beta1.DataImportCronCondition{
		{Type: cdiv1beta1.DataImportCronProgressing, ConditionState: cdiv1beta1.ConditionState{Status: progressing, Reason: progressingReason}},
		{Type: cdiv1beta1.DataImportCronUpToDate, ConditionState: cdiv1beta1.ConditionState{Status: current, Reason: upToDate}},
	}
}

// Poll gives each cron the digest of its image.
func (o *Objects) Poll(digest func(url string) string) {
	for _, cron := range o.Crons {
		from := cron.Spec.Template.Spec.Source
		if from != nil && from.Registry != nil && from.Registry.URL != nil {
			setLabel(&cron.Annotations, DigestAnnotation, digestPrefix+digest(*from.Registry.URL))
		}
	}
}

// Import ends the imports that run: with success, or with the reason that a test gives.
func (o *Objects) Import(fails func(*cdiv1beta1.DataVolume) (reason string)) (changed bool) {
	for _, name := range Names(o.Volumes) {
		volume := o.Volumes[name]
		if volume.Status.Phase == cdiv1beta1.Succeeded {
			continue
		}
		if reason := fails(volume); reason != "" {
			changed = changed || volume.Status.Phase != cdiv1beta1.ImportScheduled
			volume.Status.Phase = cdiv1beta1.ImportScheduled
			volume.Status.Conditions = []cdiv1beta1.DataVolumeCondition{{Type: cdiv1beta1.DataVolumeRunning, Status: corev1.ConditionFalse, Reason: reason, Message: fmt.Sprintf("the import of %s fails", name.Name)}}
			continue
		}
		changed = true
		volume.Status.Phase, volume.Status.Conditions = cdiv1beta1.Succeeded, nil
		if o.Claims[name] == nil {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: maps.Clone(volume.Labels)}}
			claim.Status.Phase = corev1.ClaimBound
			o.Claims[name] = claim
		}
	}
	return changed
}

// relevant is what the events of a DataSource depend on: its source and that of its target, and whether these are there.
// CDI gets no event if only labels change.
func (o *Objects) relevant(source *cdiv1beta1.DataSource) string {
	resolved := source
	if pointer := source.Spec.Source.DataSource; pointer != nil {
		resolved = o.Sources[Name{cmp.Or(pointer.Namespace, source.Namespace), pointer.Name}]
	}
	text, _ := json.Marshal(source.Spec)
	if resolved == nil {
		return string(text)
	}
	target, _ := json.Marshal(resolved.Spec)
	state := ""
	if claim := resolved.Spec.Source.PVC; claim != nil {
		name := Name{claim.Namespace, claim.Name}
		state = fmt.Sprint(o.Claims[name] != nil)
		if volume := o.Volumes[name]; volume != nil {
			state += string(volume.Status.Phase)
		}
	}
	return fmt.Sprint(string(text), string(target), state, source.UID, len(source.Status.Conditions))
}

// Reconcile runs both controllers for all objects that changed, and for crons that are gone.
func (o *Objects) Reconcile() error {
	names := Names(o.Crons)
	for _, source := range o.Sources {
		if cron := (Name{source.Namespace, source.Labels[CronLabel]}); cron.Name != "" && o.Crons[cron] == nil && !slices.Contains(names, cron) {
			names = append(names, cron)
		}
	}
	var errs []error
	for _, name := range names {
		if err := o.ReconcileCron(name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name.Name, err))
		}
	}
	for _, name := range Names(o.Sources) {
		if seen := o.relevant(o.Sources[name]); o.seen[name] != seen {
			o.ReconcileSource(name)
			o.seen[name] = seen
		}
	}
	return errors.Join(errs...)
}
