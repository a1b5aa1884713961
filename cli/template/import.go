package template

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/appliances"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/cli/uploadproxy"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/sources/artifacts"
)

// importing has the flags of template import.
type importing struct {
	program options.Program
	options.Sources

	// from is a URL, a reference or a file.
	from, name, output        string
	proxy                     uploadproxy.Flags
	spec                      v1beta1.VirtualMachineTemplateImportSpec
	verify, secret, authority string
	platform, class, mode     string
	instancetype, preference  string
	networks, properties      map[string]string
	ttl, timeout              time.Duration
	hasTTL, watch             bool
}

func newImport(program options.Program) *cobra.Command {
	i := &importing{program: program, Sources: options.NewSources(), output: printers.YAML}
	cmd := &cobra.Command{
		Use:   "import URL|oci://REGISTRY/REPOSITORY:TAG|FILE [NAME]",
		Short: "Make a template of a virtual appliance, or of an artifact of a registry",
		Long: `Make a template of a virtual appliance, an OVA on a web server or on this machine, or of an artifact of a registry, as template push
writes it.

An artifact is a template or a virtual machine with its disks, or an OVA file. The flags for descriptors, such as --network, are for OVA
files only.

For a URL and an artifact, import prints a VirtualMachineTemplateImport: apply it with kubectl create. The cluster then reads the
descriptor, imports the disks and creates the template. The import has the name of the file or of the repository, unless you name another.

With --watch, import sends it itself, and shows the progress until the template is complete. The exit code is 1 if the import fails. If
you interrupt the command, the import continues in the cluster.

For a file of this machine, import does the work itself, with your rights. It inspects the file as ova inspect does, before it creates
anything. Then it creates a DataVolume for each disk, uploads the disks through CDI's upload proxy, and creates the template at the end,
which then owns the disks. It repeats the upload of a disk whose connection breaks. If the command ends before the template is complete,
run it again with the same flags: it uploads the disks that CDI does not have yet.

The file is an OVA, or an OVF descriptor whose files are beside it: in the same folder, and no links that leave it. An OVA that is
compressed as a whole with gzip, bzip2, xz or zstd is decompressed into a temporary file, in the folder that TMPDIR names. The file can
also be an artifact that template export wrote, an archive .tar with an OCI layout: its disks are uploaded as raw bytes, and no signature
of it is verified.

ova inspect shows before what comes out, and which choices a file offers, also one of a registry. You need permission to create
virtualmachinetemplateimports, virtualmachinetemplates and datavolumes in the namespace, and to get the Secret and the ConfigMap that
you name. For a file, you need permission to create and get virtualmachinetemplates, to create, get and patch datavolumes, to create
uploadtokenrequests.upload.cdi.kubevirt.io, and to get the cdiconfig config, unless you give --uploadproxy-url.`,
		Example: program.Examples(`  # Import an appliance, and wait for its template
  PROGRAM template import https://appliances.example.com/harbour-light.ova -n templates --accept-eula --watch

  # Map a network, require a manifest, and store the disks in a class
  PROGRAM template import https://appliances.example.com/harbour-light.ova harbour -n templates \
    --network Sea=lab/sea --verify Require --storage-class fast | kubectl create -f -

  # Upload an appliance of this machine
  PROGRAM template import harbour-light.ova -n templates --network Sea=lab/sea

  # Upload a descriptor and the disks beside it, which have the digests of its manifest
  PROGRAM template import appliances/harbour-light.ovf -n templates --verify Require

  # Upload an artifact of this machine
  PROGRAM template import web.oci.tar -n templates

  # Import a template of a registry with its disks
  PROGRAM template import oci://registry.example.com/templates/web:v1 -n templates --platform arm64 --secret registry-login --watch

  # Import an OVA of a registry
  PROGRAM template import oci://registry.example.com/templates/appliance:v1 -n templates --network Sea=lab/sea --accept-eula --watch`),
		Args: func(cmd *cobra.Command, args []string) error {
			i.hasTTL = cmd.Flags().Changed("ttl")
			return i.validate(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return i.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&i.spec.TemplateName, "template-name", "", "Name of the template; that of the import if empty")
	flags.StringVar(&i.platform, "platform", "", "Architecture of an artifact that has several: arm64, or arm64/v8")
	flags.StringVar(&i.secret, "secret", "", "Secret with accessKeyId and secretKey, the user name and the password for the server or the registry")
	flags.StringVar(&i.authority, "cert-configmap", "", "ConfigMap with certificates of authorities that verify the server or the registry")
	flags.StringVar(&i.spec.Checksum, "checksum", "", "Digest of the whole file: sha256:HEX or sha512:HEX. The reference of an artifact has its digest instead")
	flags.StringVar(&i.verify, "verify", "", "How the manifest is used: "+strings.Join(verifications(), ", ")+"; IfPresent if empty")
	flags.StringToStringVar(&i.networks, "network", nil, "What a network of the descriptor becomes: NETWORK=NAME, NETWORK=NAMESPACE/NAME, NETWORK=pod or NETWORK=none")
	flags.StringVar(&i.class, "storage-class", "", "StorageClass of the volumes; that of the cluster if empty")
	flags.StringVar(&i.mode, "access-mode", "", "Access mode of the volumes: "+strings.Join(accessModes(), ", ")+"; that of the StorageProfile if empty")
	flags.StringVar(&i.instancetype, "instancetype", "", "Instancetype in place of the CPU and the memory: NAME of a VirtualMachineClusterInstancetype, or KIND/NAME")
	flags.StringVar(&i.preference, "preference", "", "Preference in place of that of the operating system: NAME of a VirtualMachineClusterPreference, or KIND/NAME")
	flags.StringVar(&i.spec.DeploymentOption, "deployment-option", "", "Deployment option of the descriptor; its default if empty")
	flags.StringVar(&i.spec.VirtualSystem, "virtual-system", "", "Virtual system of the descriptor, if it has several")
	flags.BoolVar(&i.spec.AcceptEula, "accept-eula", false, "Accept the license of the appliance")
	flags.StringToStringVar(&i.properties, "property", nil, "Default of a property of the descriptor: KEY=VALUE")
	flags.BoolVar(&i.spec.Lax, "lax", false, "Drop required parts of the descriptor that have no equivalent")
	flags.DurationVar(&i.ttl, "ttl", 0, "Delete the completed import after this time, such as 1h; by default it is kept")
	flags.BoolVar(&i.watch, "watch", false, "Send the import, and show the progress until the template is complete; always so for a file")
	flags.DurationVar(&i.timeout, "timeout", 0, "Time to wait with --watch, or for a file and its upload; 0 waits without a limit")
	flags.StringVarP(&i.output, "output", "o", i.output, "What to print: yaml, json")
	i.proxy.Add(flags)
	options.AddClusterFlags(cmd, i.Config, ", for --watch, files and the namespace", "Namespace of the import and of the template")
	options.CompleteFlags(cmd, map[string][]string{"output": {printers.YAML, printers.JSON}, "verify": verifications(), "access-mode": accessModes()})
	return cmd
}

// verifications are the values of --verify.
func verifications() []string {
	return []string{string(v1beta1.ImportVerifyIfPresent), string(v1beta1.ImportVerifyRequire), string(v1beta1.ImportVerifySkip)}
}

// accessModes are the values of --access-mode.
func accessModes() []string {
	return []string{"ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"}
}

func (i *importing) validate(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 || len(args) > 2:
		return options.Usagef("name one URL, artifact or file%s", options.SeeHelp(cmd))
	case i.ttl < 0 || i.ttl%time.Second != 0 || i.ttl > math.MaxInt32*time.Second:
		return options.Usagef("--ttl %s: use whole seconds, from 0 to %d", i.ttl, math.MaxInt32)
	case i.timeout != 0 && !i.watch && !isFile(args[0]):
		return options.Usagef("--timeout needs --watch")
	case i.timeout < 0:
		return options.Usagef("--timeout %s: must not be negative", i.timeout)
	}
	i.from = args[0]
	source := i.web
	switch {
	case artifacts.IsReference(i.from):
		source = i.artifact
	case isFile(i.from):
		source = i.local
	}
	if err := source(); err != nil {
		return err
	}
	if len(args) == 2 {
		i.name = args[1]
	}
	for flag, of := range map[string][]string{"verify": verifications(), "access mode": accessModes()} {
		if err := options.OptionalOneOf(flag, map[string]string{"verify": i.verify, "access mode": i.mode}[flag], of); err != nil {
			return err
		}
	}
	return options.OneOf("output", i.output, []string{printers.YAML, printers.JSON})
}

// web sets the source to a URL.
func (i *importing) web() error {
	parsed, err := url.Parse(i.from)
	switch {
	case err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "":
		return options.Usagef("%s: name a file of this machine, or a URL with the scheme http, https or oci", i.from)
	case parsed.User != nil:
		return options.Usagef("the URL has credentials: put them into a Secret, and name it with --secret")
	case i.platform != "":
		return options.Usagef("--platform needs an artifact of a registry: oci://REGISTRY/REPOSITORY:TAG")
	}
	i.name = ovf.Name(ovf.FileName(path.Base(parsed.Path)))
	i.spec.Source.HTTP = &v1beta1.ImportHTTP{URL: i.from, SecretRef: i.secret, CertConfigMap: i.authority}
	return nil
}

// isFile reports whether the argument is a file of this machine.
func isFile(from string) bool { return !strings.Contains(from, "://") }

// local names the template after a file.
func (i *importing) local() error {
	switch {
	case i.from == "":
		return options.Usagef("the name of the file is empty")
	case i.platform != "" && appliances.Extension(i.from) != ".tar":
		return options.Usagef("--platform needs an artifact: oci://REGISTRY/REPOSITORY:TAG, or its file .tar")
	case i.secret != "" || i.authority != "":
		return options.Usagef("--secret and --cert-configmap are for a server or a registry, and %s is a file", i.from)
	case i.hasTTL:
		return options.Usagef("--ttl is for an import in the cluster: a file is uploaded without one")
	case appliances.Extension(i.from) == ".ovf" && i.spec.Checksum != "":
		return options.Usagef("--checksum is for an appliance in one file: the manifest beside %s has the digests of all files, and --verify Require requires it", i.from)
	}
	i.name = ovf.Name(appliances.Name(i.from))
	return nil
}

// artifact sets the source to a reference. With a tag and a digest, the digest counts.
func (i *importing) artifact() error {
	reference, err := artifacts.ParseReference(i.from)
	switch {
	case err != nil:
		return options.Usagef("%q: %w", i.from, err)
	case !reference.Named:
		return options.Usagef("%q: name a tag or a digest, such as oci://quay.io/templates/fedora:42", i.from)
	case i.spec.Checksum != "":
		return options.Usagef("--checksum: name the digest of an artifact in the reference")
	}
	i.name = ovf.Name(path.Base(reference.Repository))
	i.spec.Source.OCI = &v1beta1.ImportOCI{Reference: reference.String(), Platform: i.platform, SecretRef: i.secret, CertConfigMap: i.authority}
	return nil
}

func (i *importing) run(ctx context.Context) error {
	namespace, _, err := i.Config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if isFile(i.from) {
		return i.upload(ctx, namespace)
	}
	object, err := i.object(namespace)
	if err != nil {
		return err
	}
	if !i.watch {
		return printers.Document(i.program.Streams.Out, i.output, object.Object)
	}
	cluster, err := options.Connect(i.Config)
	if err != nil {
		return err
	}
	all := cluster.Client.Resource(v1beta1.GroupVersion.WithResource("virtualmachinetemplateimports")).Namespace(namespace)
	created, err := all.Create(ctx, object, metav1.CreateOptions{FieldManager: "kubectl-virtward"})
	if err != nil {
		return fmt.Errorf("creating the import: %w", err)
	}
	w := &watcher{requests: all, created: created, streams: i.program.Streams, timeout: i.timeout, pause: watchPause, object: "import", work: "import"}
	return w.run(ctx)
}

// object is the import that the flags describe, as it is sent.
func (i *importing) object(namespace string) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(i.described(namespace))
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}, nil
}

// described is the import that the flags describe.
func (i *importing) described(namespace string) *v1beta1.VirtualMachineTemplateImport {
	spec := i.spec
	spec.Verify = v1beta1.ImportVerify(i.verify)
	spec.Properties = i.properties
	for source, target := range i.networks {
		spec.NetworkMappings = append(spec.NetworkMappings, v1beta1.NetworkMapping{Source: source, Target: target})
	}
	slices.SortFunc(spec.NetworkMappings, func(a, b v1beta1.NetworkMapping) int { return strings.Compare(a.Source, b.Source) })
	if i.class != "" || i.mode != "" {
		spec.Storage = &v1beta1.ImportStorage{Class: i.class, AccessMode: i.mode}
	}
	if kind, name := kindAndName(i.instancetype); name != "" {
		spec.Instancetype = &v1beta1.ImportInstancetype{Kind: kind, Name: name}
	}
	if kind, name := kindAndName(i.preference); name != "" {
		spec.Preference = &v1beta1.ImportPreference{Kind: kind, Name: name}
	}
	if i.hasTTL {
		spec.TTLSecondsAfterFinished = new(int32(i.ttl / time.Second)) //nolint:gosec // validate bounds it
	}
	return &v1beta1.VirtualMachineTemplateImport{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: apikinds.VirtualMachineTemplateImport},
		ObjectMeta: metav1.ObjectMeta{Name: i.name, Namespace: namespace}, Spec: spec,
	}
}

// kindAndName splits KIND/NAME. A name has no kind.
func kindAndName(text string) (kind, name string) {
	if kind, name, found := strings.Cut(text, "/"); found {
		return kind, name
	}
	return "", text
}
