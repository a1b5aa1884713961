package template

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/appliances"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/uploadproxy"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/texts"
)

const (
	// labelUpload is on the DataVolumes and on the template of a file: a digest of the file and of its template. The same command
	// continues with objects that have it.
	labelUpload = "cli.virtward.io/upload"
	// annotationSource is on the template: the SHA-256 digest of the file.
	annotationSource = "cli.virtward.io/source-digest"
	manager          = "kubectl-virtward"
)

// uploading makes a template of a file, with the rights of the user.
type uploading struct {
	*importing

	file    *appliances.File
	outcome *imports.Outcome
	// digest is that of the file, and id the value of labelUpload.
	digest, id string
	// bare tells that the file is a descriptor, and its disks are beside it.
	bare bool
	// layers are those of an artifact, by the names of DataVolumes.
	layers map[string]*oci.Disk

	of                 *v1beta1.VirtualMachineTemplateImport
	cluster            *offline.Cluster
	proxy              uploadproxy.Options
	volumes, templates dynamic.ResourceInterface
	pause              time.Duration
	// begun tells that a volume exists.
	begun bool
}

// upload makes the template.
func (i *importing) upload(ctx context.Context, namespace string) error {
	if i.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, i.timeout, fmt.Errorf("it is not complete after %s", i.timeout))
		defer cancel()
	}
	u := &uploading{importing: i, of: i.described(namespace), pause: watchPause, layers: map[string]*oci.Disk{}}
	var err error
	if u.file, err = appliances.Open(i.from); err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	defer u.file.Close()
	if err := u.inspect(ctx); err != nil {
		return err
	}
	if err := u.identify(ctx); err != nil {
		return err
	}
	if err := u.connect(ctx); err != nil {
		return err
	}
	err = u.run(ctx)
	if err != nil && ctx.Err() != nil {
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
	}
	switch {
	case err != nil && !u.begun:
		return err
	case err != nil:
		return fmt.Errorf("%w: to continue, run the same command again; to give up, run kubectl delete datavolumes -n %s -l %s=%s", err, namespace, labelUpload, u.id)
	}
	fmt.Fprintf(i.program.Streams.Out, "virtualmachinetemplate.template.kubevirt.io/%s\n", imports.TemplateName(u.of))
	return nil
}

// inspect reads the file, and decides what the command creates.
func (u *uploading) inspect(ctx context.Context) error {
	if err := u.sum(ctx); err != nil {
		return err
	}
	through, end := u.metered(ctx, "decompressing", u.file.Size)
	err := u.file.Decompress(through)
	end()
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	data := u.file.Data()
	if oci.IsLayout(data, data.Size()) {
		if err = u.inspectArtifact(ctx); err != nil {
			return fmt.Errorf("%s: %w", u.from, err)
		}
	} else if err := u.inspectAppliance(); err != nil {
		return err
	}
	for _, w := range u.outcome.Warnings {
		fmt.Fprintf(u.program.Streams.ErrOut, "warning: %s\n", flagsOfFields.Replace(texts.OneLine(w)))
	}
	if u.outcome.Fault != nil {
		return fmt.Errorf("%s: %s", u.from, flagsOfFields.Replace(u.outcome.Fault.Message))
	}
	return nil
}

// inspectAppliance reads a package of OVF, and decides what the command creates.
func (u *uploading) inspectAppliance() error {
	if u.platform != "" {
		return options.Usagef("--platform needs an artifact, and %s is an appliance", u.from)
	}
	read := imports.Options(u.of)
	read.HeadersOnly = u.of.Spec.Verify == v1beta1.ImportVerifySkip
	read.Scratch = appliances.NewScratch
	read.Sibling = u.beside
	found, err := appliance.Inspect(filepath.Base(u.from), u.file.Data(), read)
	switch {
	case errors.Is(err, ovf.ErrChoice):
		return options.Usagef("%s: %w: ova inspect lists them", u.from, err)
	case err != nil:
		return fmt.Errorf("%s: %w", u.from, err)
	case found.Verdict == appliance.Rejected:
		var all []string
		for i := range found.Rejections {
			all = append(all, found.Rejections[i].Error())
		}
		return fmt.Errorf("%s: %s", u.from, texts.First(all, 10))
	}
	u.bare = found.Package.Format == appliance.FormatOVF
	u.outcome = imports.Evaluate(u.of, found)
	for i := range u.outcome.Disks {
		if f := &u.outcome.Disks[i].File; f.Compression != "" && f.Format == "" { // its header is not known
			return fmt.Errorf("%s: the disk %s is compressed, so --verify Skip is not possible: use IfPresent", u.from, texts.Shorten(texts.OneLine(f.Href), 100))
		}
	}
	return nil
}

// beside opens a file beside a descriptor, which is not in a folder below it.
func (u *uploading) beside(name string) (appliance.Data, error) {
	if strings.Contains(name, "/") {
		return nil, &ovf.Rejection{
			Reason: ovf.UnsafeReference, Element: texts.Shorten(name, 256), Message: "the file is not in the folder of the descriptor",
			Remedy: "move it there, and correct the descriptor and the manifest, or pack them into an OVA",
		}
	}
	return u.file.Beside(name) //nolint:wrapcheck // it names the file
}

// identify computes the value of labelUpload from the file, what it becomes, and the files of disks beside it.
func (u *uploading) identify(ctx context.Context) error {
	id := sha256.New()
	id.Write([]byte(u.digest + " " + u.outcome.Plan))
	for n := range u.outcome.Disks {
		if !u.bare {
			break
		}
		for _, section := range u.sections(&u.outcome.Disks[n]) {
			through, end := u.metered(ctx, "reading", section.Size)
			sum, err := section.File.Whole().Sum(sha256.New(), through)
			end()
			if err != nil {
				return err //nolint:wrapcheck // it names the file
			}
			id.Write([]byte(" " + sum))
		}
	}
	u.id = hex.EncodeToString(id.Sum(nil)[:16])
	return nil
}

// flagsOfFields replaces what a message says about the fields of an import.
var flagsOfFields = strings.NewReplacer(
	"spec.networkMappings", "--network", "spec.virtualSystem", "--virtual-system", "spec.acceptEula", "--accept-eula", "set acceptEula to true", "set --accept-eula",
	"spec.properties", "--property", "spec.deploymentOption", "--deployment-option", "spec.storage.class", "--storage-class", "spec.verify", "--verify", "choose one of status.choices.virtualSystems", "ova inspect lists them", "see status.choices.properties", "ova inspect lists them",
)

// sum computes the digest of the file, and compares it with --checksum.
func (u *uploading) sum(ctx context.Context) error {
	through, end := u.metered(ctx, "reading", u.file.Size)
	defer end()
	whole, long := sha256.New(), sha512.New()
	to := io.Writer(whole)
	if strings.HasPrefix(u.spec.Checksum, "sha512:") {
		to = io.MultiWriter(whole, long)
	}
	if _, err := io.Copy(to, through(io.NewSectionReader(u.file, 0, u.file.Size))); err != nil {
		return fmt.Errorf("reading %s: %w", u.from, err)
	}
	u.digest = "sha256:" + hex.EncodeToString(whole.Sum(nil))
	found := u.digest
	if to != whole {
		found = "sha512:" + hex.EncodeToString(long.Sum(nil))
	}
	if u.spec.Checksum != "" && u.spec.Checksum != found {
		return fmt.Errorf("--checksum: %s has %s", u.from, found)
	}
	return nil
}

// metered returns a function whose reader shows how much was read, and ends with the context. Call end.
func (u *uploading) metered(ctx context.Context, what string, size int64) (through func(io.Reader) io.Reader, end func()) {
	meter := options.NewMeter(u.program.Streams.ErrOut, what, size)
	return func(from io.Reader) io.Reader { return meter.Reader(ctx, from) }, meter.End
}

// connect finds the cluster and its proxy, so that nothing is created that cannot be uploaded.
func (u *uploading) connect(ctx context.Context) (err error) {
	if u.cluster, err = options.Connect(u.Config); err != nil {
		return err
	}
	u.volumes = u.cluster.Client.Resource(cdiv1beta1.SchemeGroupVersion.WithResource("datavolumes")).Namespace(u.of.Namespace)
	u.templates = u.cluster.Client.Resource(v1beta1.GroupVersion.WithResource("virtualmachinetemplates")).Namespace(u.of.Namespace)
	if len(u.outcome.Disks) == 0 {
		return nil
	}
	if u.proxy, err = u.importing.proxy.Find(ctx, u.cluster.Client); err != nil {
		return err //nolint:wrapcheck // it says which flag helps
	}
	client, err := uploadproxy.New(u.proxy)
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	return client.Reach(ctx) //nolint:wrapcheck // as above
}

// run creates all volumes first, so that a quota is known before a byte is sent.
func (u *uploading) run(ctx context.Context) error {
	template, err := u.template(ctx)
	if err != nil {
		return err
	}
	if template == nil {
		for n := range u.outcome.Disks {
			if err := u.claim(ctx, &u.outcome.Disks[n]); err != nil {
				return err
			}
			u.begun = true
		}
		for n := range u.outcome.Disks {
			if err := u.disk(ctx, &u.outcome.Disks[n]); err != nil {
				return err
			}
		}
		if template, err = u.create(ctx); err != nil {
			return err
		}
	}
	return u.handOver(ctx, template)
}

// template is the one that an earlier call created; nil if none exists.
func (u *uploading) template(ctx context.Context) (*unstructured.Unstructured, error) {
	name := imports.TemplateName(u.of)
	read, err := u.templates.Get(ctx, name, metav1.GetOptions{})
	switch {
	case options.IsNotServed(err):
		return nil, errors.New("the cluster has no VirtualMachineTemplates: install the chart of Virtward")
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("reading the template: %w", err)
	case read.GetLabels()[labelUpload] != u.id || read.GetDeletionTimestamp() != nil:
		return nil, fmt.Errorf("VirtualMachineTemplate %s/%s exists, and is not of this file and these flags: use another --template-name", u.of.Namespace, name)
	}
	return read, nil
}

// labels are those of the objects.
func (u *uploading) labels() map[string]string { return map[string]string{labelUpload: u.id} }

// claim creates the volume of a disk, or finds the one that an earlier call created.
func (u *uploading) claim(ctx context.Context, disk *imports.Disk) error {
	made := imports.Upload(u.of, disk, u.labels())
	made.APIVersion, made.Kind = cdiv1beta1.SchemeGroupVersion.String(), "DataVolume"
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made)
	if err != nil {
		return err
	}
	delete(object, "status")
	_, err = u.volumes.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldManager: manager})
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("creating the DataVolume %s: %w", disk.Name, err)
		}
		return nil
	}
	read, err := u.read(ctx, disk.Name)
	if err != nil {
		return err
	}
	if read.Labels[labelUpload] != u.id || read.Spec.Source == nil || read.Spec.Source.Upload == nil || metav1.GetControllerOf(read) != nil {
		return fmt.Errorf("DataVolume %s/%s exists, and is not of this file and these flags: use another --template-name", u.of.Namespace, disk.Name)
	}
	return nil
}

// read reads a volume. The error is not temporary.
func (u *uploading) read(ctx context.Context, name string) (*cdiv1beta1.DataVolume, error) {
	for failed := 1; ; failed++ {
		read, err := u.volumes.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("the DataVolume %s/%s was deleted", u.of.Namespace, name)
		case err != nil && (apierrors.IsForbidden(err) || failed >= maxReadErrors):
			return nil, fmt.Errorf("reading the DataVolume %s: %w", name, err)
		case err == nil:
			volume := &cdiv1beta1.DataVolume{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, volume); err != nil {
				return nil, fmt.Errorf("reading the DataVolume %s: %w", name, err)
			}
			return volume, nil
		}
		if err := u.wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (u *uploading) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(u.pause):
		return nil
	}
}

// disk uploads a disk, and waits until CDI has stored it.
func (u *uploading) disk(ctx context.Context, disk *imports.Disk) error {
	volume, err := u.await(ctx, disk.Name, cdiv1beta1.UploadReady)
	if err != nil || volume.Status.Phase == cdiv1beta1.Succeeded {
		return err
	}
	content := u.content(disk)
	shown := uploadproxy.NewProgress(u.program.Streams.ErrOut, disk.Name, content.Size)
	to := u.proxy
	to.Sent = shown.Sent
	to.Token = func(ctx context.Context) (string, error) {
		return uploadproxy.Token(ctx, u.cluster.Client, u.of.Namespace, disk.Name) //nolint:wrapcheck // it says what failed
	}
	to.Again = func(ctx context.Context, reason error) error {
		shown.Again(reason)
		_, err := u.observe(ctx, disk.Name, volume.Status.RestartCount+maxUploadRestarts)
		return err
	}
	client, err := uploadproxy.New(to)
	if err != nil {
		return err //nolint:wrapcheck // it says which flag is wrong
	}
	_, err = client.Send(ctx, content)
	shown.End()
	if err != nil && !uploadproxy.Done(err) {
		return fmt.Errorf("uploading %s: %w", disk.Name, err)
	}
	fmt.Fprintf(u.program.Streams.ErrOut, "%s: uploaded, and CDI converts it\n", disk.Name)
	_, err = u.await(ctx, disk.Name, cdiv1beta1.Succeeded)
	return err
}

// maxUploadRestarts is the number of failures of CDI's upload server after which a disk has failed.
const maxUploadRestarts = 3

// sections are where a disk is in the archive, or beside the descriptor.
func (u *uploading) sections(disk *imports.Disk) []uploadproxy.Section {
	all := make([]uploadproxy.Section, len(disk.File.Parts))
	for i := range disk.File.Parts {
		all[i] = u.file.Part(&disk.File.Parts[i])
	}
	return all
}

// await waits until a volume is complete or has a phase.
func (u *uploading) await(ctx context.Context, name string, phase cdiv1beta1.DataVolumePhase) (*cdiv1beta1.DataVolume, error) {
	limit := int32(-1)
	for {
		volume, err := u.observe(ctx, name, limit)
		if err != nil {
			return nil, err
		}
		if limit < 0 {
			limit = volume.Status.RestartCount + maxUploadRestarts
		}
		if volume.Status.Phase == phase || volume.Status.Phase == cdiv1beta1.Succeeded {
			return volume, nil
		}
		if err := u.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// observe reads a volume. The error says why CDI does not complete it. A negative number of restarts is no limit.
func (u *uploading) observe(ctx context.Context, name string, restarts int32) (*cdiv1beta1.DataVolume, error) {
	volume, err := u.read(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case volume.DeletionTimestamp != nil:
		return nil, fmt.Errorf("the DataVolume %s/%s is being deleted", u.of.Namespace, name)
	case volume.Status.Phase == cdiv1beta1.Failed, restarts >= 0 && volume.Status.RestartCount >= restarts:
		message := ""
		for i := range volume.Status.Conditions {
			if c := &volume.Status.Conditions[i]; c.Type == cdiv1beta1.DataVolumeRunning && c.Message != "" {
				message = ": " + texts.Shorten(texts.OneLine(c.Message), maxMessage)
			}
		}
		return nil, fmt.Errorf("CDI could not store the disk %s%s", name, message)
	}
	return volume, nil
}

// maxMessage bounds a message of CDI.
const maxMessage = 512

// create creates the template.
func (u *uploading) create(ctx context.Context) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1beta1.VirtualMachineTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: apikinds.VirtualMachineTemplate},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: u.of.Namespace, Name: imports.TemplateName(u.of), Labels: u.labels(), Annotations: map[string]string{annotationSource: u.digest},
		},
		Spec: u.outcome.Template.Spec,
	})
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	created, err := u.templates.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		return nil, fmt.Errorf("creating the template: %w", err)
	}
	return created, nil
}

// handOver makes the template the owner of its disks, so that they are deleted with it.
func (u *uploading) handOver(ctx context.Context, template *unstructured.Unstructured) error {
	owner := metav1.NewControllerRef(template, v1beta1.GroupVersion.WithKind(apikinds.VirtualMachineTemplate))
	owner.BlockOwnerDeletion = nil
	for n := range u.outcome.Disks {
		name := u.outcome.Disks[n].Name
		volume, err := u.read(ctx, name)
		if err != nil {
			return err
		}
		if metav1.IsControlledBy(volume, template) {
			continue
		}
		if volume.Labels[labelUpload] != u.id {
			return fmt.Errorf("the DataVolume %s/%s is not of this file: the template does not own it", u.of.Namespace, name)
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": volume.UID, "ownerReferences": []metav1.OwnerReference{*owner},
		}})
		if err != nil {
			return err
		}
		if _, err := u.volumes.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}); err != nil {
			return fmt.Errorf("the template is created, and does not own the DataVolume %s: %w", name, err)
		}
	}
	return nil
}
