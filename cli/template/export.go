package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/template/v1beta1"
	commands "github.com/virtward/virtward/cli/artifacts"
	"github.com/virtward/virtward/cli/downloads"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/texts"
)

// annotationDownload of an export means that template export created it, and deletes it after the download.
const annotationDownload = "cli.virtward.io/delete-after-download"

// exporting has the flags of template export.
type exporting struct {
	program options.Program
	options.Sources

	template, name, to           string
	ttl, timeout                 time.Duration
	keep, overwrite, portForward bool
	// userData keeps the data for cloud-init.
	userData bool
	registry commands.Registry

	cluster *offline.Cluster
	exports dynamic.ResourceInterface
	// pause is the time between two reads of an export.
	pause time.Duration
}

func newExport(program options.Program) *cobra.Command {
	x := &exporting{program: program, Sources: options.NewSources(), pause: watchPause}
	cmd := &cobra.Command{
		Use:   "export NAME --to FILE|oci://REPOSITORY:TAG",
		Short: "Download a template and its disks as an OVA or an OCI artifact, or send the artifact to a registry",
		Long: `Download a template and its disks as an OVA or, if the name of the file ends in .tar, as an OCI artifact in an image layout.
With oci://, send the artifact to a registry. It is not stored on this machine, and layers that the registry has are not downloaded.

export creates a VirtualMachineTemplateExport with the name of the template, and waits until the cluster has read the disks. Then it
downloads the file, verifies its digest and deletes the export. No file is stored in the cluster: the server makes it while you download
it. If an export with this name exists, it is used. The command deletes it only if an earlier call created it.

An artifact is that of KubeVirt's exporter. It has the template as it is, with MAC addresses and with the data for cloud-init and its
passwords and keys: it needs --keep-user-data. By default, an OVA does not have them.

A download continues after broken connections. If the command is interrupted, call it again: it continues with the part beside the
file, which has .part at the end of its name. The file appears when it is complete.

The command uses the link of the export outside of the cluster, if it has one. Otherwise it connects through the API server, as kubectl
port-forward does.

You need permission to create, get and delete virtualmachinetemplateexports, to get the template, to create datavolumes, and to get the
Secret with the token. In the namespace of each volume, you need permission to clone: create on datavolumes/source. Without a link outside
of the cluster, you need permission to get services, to list pods and to create pods/portforward.

ova create makes an OVA of images on this machine, and template push writes to a registry.`,
		Example: program.Examples(`  # Download a template
  PROGRAM template export fedora -n templates --to fedora.ova

  # Download a template as an OCI artifact, as KubeVirt exports it
  PROGRAM template export fedora -n templates --to fedora.oci.tar --keep-user-data

  # Send a template to a registry, with the credentials of docker's configuration
  PROGRAM template export fedora -n templates --to oci://quay.io/templates/fedora:42 --keep-user-data

  # Keep the export, so that others can download the same OVA for a day
  PROGRAM template export fedora -n templates --to fedora.ova --keep --ttl 24h`),
		Args:              x.validate,
		RunE:              func(cmd *cobra.Command, args []string) error { return x.run(cmd.Context(), args[0]) },
		ValidArgsFunction: (&source{Sources: x.Sources}).completeNames,
	}
	flags := cmd.Flags()
	flags.StringVar(&x.to, "to", "", "File to write: .tar for an OCI artifact, any other name for an OVA; or oci:// and a repository with a tag; required")
	flags.StringVar(&x.name, "name", "", "Name of the export; that of the template if empty")
	flags.DurationVar(&x.ttl, "ttl", 0, "Time after which the cluster deletes the export, such as 24h; that of the cluster if 0")
	flags.DurationVar(&x.timeout, "timeout", 0, "Time to wait until the disks are read; 0 waits without a limit")
	flags.BoolVar(&x.keep, "keep", false, "Do not delete the export after the download")
	flags.BoolVar(&x.userData, "keep-user-data", false, "Keep the data for cloud-init with its passwords and keys")
	flags.BoolVar(&x.overwrite, "overwrite", false, "Replace the file if it exists")
	flags.BoolVar(&x.portForward, "port-forward", false, "Connect through the API server, also if the export has a link outside of the cluster")
	x.registry.AddRegistryFlags(cmd, program)
	options.AddClusterFlags(cmd, x.Config, "", "Namespace of the template and of the export")
	return cmd
}

func (x *exporting) validate(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) != 1:
		return options.Usagef("name one template%s", options.SeeHelp(cmd))
	case x.to == "":
		return options.Usagef("--to is required: the file to write, or oci:// and a repository with a tag")
	case x.format() == v1beta1.ExportOCI && !x.userData:
		return options.Usagef("--to %s: an OCI artifact has the MAC addresses and the data for cloud-init with its passwords and keys: confirm it with --keep-user-data", x.to)
	case x.ttl < 0 || x.ttl%time.Second != 0:
		return options.Usagef("--ttl %s: use whole seconds", x.ttl)
	case x.timeout < 0:
		return options.Usagef("--timeout %s: must not be negative", x.timeout)
	}
	return nil
}

// format is what the name of the file says.
func (x *exporting) format() v1beta1.ExportFormat {
	if artifacts.IsReference(x.to) || strings.EqualFold(filepath.Ext(x.to), ".tar") {
		return v1beta1.ExportOCI
	}
	return v1beta1.ExportOVA
}

func (x *exporting) run(ctx context.Context, template string) error {
	var to *artifacts.Writer
	var err error
	if artifacts.IsReference(x.to) {
		to, err = x.registry.Writer(ctx, x.to)
	} else {
		err = options.Free(x.to, x.overwrite)
	}
	if err != nil {
		return err
	}
	if x.cluster, err = options.ConnectWarning(x.Config, x.program.Streams.ErrOut); err != nil {
		return err
	}
	namespace := x.cluster.Namespace
	if x.template = template; x.name == "" {
		x.name = template
	}
	x.exports = x.cluster.Client.Resource(exportResource).Namespace(namespace)
	e, err := x.begin(ctx, namespace)
	if err != nil {
		return err
	}
	printed, err := x.transfer(ctx, e, to)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: call the command again to continue, or delete the export %s/%s", namespace, x.name)
	case errors.Is(err, downloads.ErrChanged):
		return fmt.Errorf("the export %s/%s: %w: delete the export, and call the command again", namespace, x.name, err)
	case err != nil:
		return fmt.Errorf("the export %s/%s: %w", namespace, x.name, err)
	}
	fmt.Fprint(x.program.Streams.Out, printed)
	return x.end(ctx, e)
}

// transfer downloads the file or, with a writer, sends the artifact. It returns what is printed.
func (x *exporting) transfer(ctx context.Context, e *export, to *artifacts.Writer) (string, error) {
	if to != nil {
		digest, err := x.send(ctx, e, to)
		return fmt.Sprintf("pushed %s\ndigest: %s\n", to.String(), digest), err
	}
	result, err := x.download(ctx, e)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\nsize: %d\nsha256: %s\n", x.to, result.Size, result.SHA256), nil
}

// begin creates the export, or takes the one that exists.
func (x *exporting) begin(ctx context.Context, namespace string) (*export, error) {
	namespaces, err := x.sourceNamespaces(ctx, namespace)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": exportKind,
		"metadata": map[string]any{"name": x.name, "namespace": namespace, "annotations": map[string]any{annotationDownload: "true"}},
		"spec":     map[string]any{"templateRef": map[string]any{"name": x.template}, "format": string(x.format())},
	}}
	if x.userData {
		_ = unstructured.SetNestedField(object.Object, true, "spec", "keepUserData") // spec is a map
	}
	if x.ttl > 0 {
		_ = unstructured.SetNestedField(object.Object, x.ttl.String(), "spec", "ttl") // spec is a map
	}
	if len(namespaces) > 0 {
		_ = unstructured.SetNestedStringSlice(object.Object, namespaces, "spec", "sourceNamespaces") // spec is a map
	}
	created, err := x.exports.Create(ctx, object, metav1.CreateOptions{FieldManager: "kubectl-virtward"})
	switch {
	case err == nil:
		fmt.Fprintf(x.program.Streams.ErrOut, "created the export %s/%s\n", namespace, x.name)
		return exportOf(created)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("creating the export: the cluster exports no templates, or the namespace %s does not exist: %w", namespace, err)
	case !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("creating the export: %w", err)
	}
	found, err := x.exports.Get(ctx, x.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the export: %w", err)
	}
	e, err := exportOf(found)
	switch {
	case err != nil:
		return nil, err
	case e.DeletionTimestamp != nil:
		return nil, fmt.Errorf("the export %s/%s is being deleted: call the command again later, or name another export with --name", namespace, x.name)
	case e.Spec.TemplateRef.Name != x.template:
		return nil, fmt.Errorf("the export %s/%s is of the template %s: name another one with --name", namespace, x.name, e.Spec.TemplateRef.Name)
	case cmp.Or(e.Spec.Format, v1beta1.ExportOVA) != x.format():
		return nil, fmt.Errorf("the export %s/%s has the format %s, not %s: name another one with --name", namespace, x.name, cmp.Or(e.Spec.Format, v1beta1.ExportOVA), x.format())
	case e.Spec.KeepUserData && !x.userData:
		return nil, fmt.Errorf("the export %s/%s keeps the data for cloud-init with its passwords and keys: confirm it with --keep-user-data, or name another one with --name", namespace, x.name)
	}
	fmt.Fprintf(x.program.Streams.ErrOut, "using the export %s/%s\n", namespace, x.name)
	return e, nil
}

// ready waits until the export is ready, and returns the options of the download. The function ends the connections.
func (x *exporting) ready(ctx context.Context, e *export) (o downloads.Options, end func(), err error) {
	e, err = x.wait(ctx, e)
	if err != nil {
		return o, func() {}, err
	}
	for _, w := range e.Status.Warnings {
		fmt.Fprintln(x.program.Streams.ErrOut, "warning:", texts.OneLine(w))
	}
	return x.connect(ctx, e)
}

// download downloads the export when it is ready.
func (x *exporting) download(ctx context.Context, e *export) (*downloads.Result, error) {
	o, end, err := x.ready(ctx, e)
	defer func() { end() }()
	if err != nil {
		return nil, err
	}
	return downloads.Get(ctx, o)
}

// wait reads the export until it is ready or has failed.
func (x *exporting) wait(ctx context.Context, e *export) (*export, error) {
	within := ctx
	if x.timeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, x.timeout)
		defer cancel()
	}
	progress := options.NewProgress(x.program.Streams.ErrOut)
	defer progress.End()
	uid, shown, failed := e.UID, "", 0
	err := wait.PollUntilContextCancel(within, x.pause, true, func(ctx context.Context) (bool, error) {
		read, err := x.exports.Get(ctx, x.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && read.GetUID() != uid:
			return false, errors.New("it was deleted")
		case err != nil:
			if failed++; failed >= maxReadErrors || apierrors.IsForbidden(err) {
				return false, err
			}
			return false, nil
		}
		failed = 0
		if e, err = exportOf(read); err != nil {
			return false, err
		}
		switch now := doing(e); {
		case progress.IsTerminal():
			progress.Line(e.Status.Progress + " " + now)
		case now != shown:
			shown = now
			fmt.Fprintln(x.program.Streams.ErrOut, now)
		}
		return isReady(e)
	})
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("it is not ready after %s: call the command again to wait longer", x.timeout)
	}
	return e, err
}

// end deletes the export, if a call of the command created it.
func (x *exporting) end(ctx context.Context, e *export) error {
	if x.keep || e.Annotations[annotationDownload] == "" {
		fmt.Fprintf(x.program.Streams.ErrOut, "kept the export %s/%s\n", e.Namespace, e.Name)
		return nil
	}
	err := x.exports.Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("all is done, but the export %s/%s cannot be deleted: %w", e.Namespace, e.Name, err)
	}
	return nil
}
