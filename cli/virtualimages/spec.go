package virtualimages

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/cli/options"
)

// specFlags are the flags for the fields of an image.
type specFlags struct {
	name, src, format, container, class, checksum, secret, authorities string
	size, storageClass, volumeMode, clusterCopy                        string
	accessModes                                                        []string
	minDisk, minRAM                                                    int32
	// uploaded tells that the image has no source.
	uploaded bool
	has      func(flag string) bool
}

// flagOf has the flag of each field.
var flagOf = map[string]string{
	"spec.src": "--src", "spec.format": "--format", "spec.containerFormat": "--container-format", "spec.minDisk": "--min-disk", "spec.minRam": "--min-ram",
	"spec.imageClassName": "--class", "spec.clusterCopy": "--cluster-copy", "spec.checksum": "--checksum", "spec.secretRef": "--secret", "spec.certConfigMap": "--cert-config-map",
	"spec.storage.resources.requests.storage": "--storage", "spec.storage.storageClassName": "--storage-class", "spec.storage.accessModes": "--access-mode",
	"spec.storage.volumeMode": "--volume-mode", "metadata.name": "NAME",
}

func formats() []string {
	return []string{
		string(v1alpha1.FormatRaw), string(v1alpha1.FormatQCOW2), string(v1alpha1.FormatISO), string(v1alpha1.FormatVDI), string(v1alpha1.FormatAMI),
		string(v1alpha1.FormatARI), string(v1alpha1.FormatAKI), string(v1alpha1.FormatVHD), string(v1alpha1.FormatVMDK),
	}
}

func containers() []string {
	return []string{string(v1alpha1.ContainerBare), "ami", "ari", "aki", "ovf"}
}

func volumeModes() []string {
	return []string{string(corev1.PersistentVolumeBlock), string(corev1.PersistentVolumeFilesystem)}
}

func accessModes() []string {
	return []string{string(corev1.ReadWriteOnce), string(corev1.ReadOnlyMany), string(corev1.ReadWriteMany), string(corev1.ReadWriteOncePod)}
}

func clusterCopies() []string {
	return []string{string(v1alpha1.ClusterCopyAlways), string(v1alpha1.ClusterCopyNever)}
}

// add adds the flags.
func (s *specFlags) add(cmd *cobra.Command, sources *options.Sources) {
	flags := cmd.Flags()
	flags.StringVar(&s.format, "format", "", "Format of the disk: "+strings.Join(formats(), ", ")+". By default that of the name of the file, such as disk.qcow2")
	flags.StringVar(&s.container, "container-format", "", "Format of the container: "+strings.Join(containers(), ", ")+"; bare by default")
	flags.StringVar(&s.class, "class", "", "Name of the class that stores the image; the cluster has a default")
	flags.StringVar(&s.clusterCopy, "cluster-copy", "", "Whether an image in OpenStack is copied into the cluster: "+strings.Join(clusterCopies(), ", "))
	flags.Int32Var(&s.minDisk, "min-disk", 0, "Size of the smallest disk on which the image boots, in GB of 2^30 bytes")
	flags.Int32Var(&s.minRAM, "min-ram", 0, "Smallest memory with which the image boots, in MB of 2^20 bytes")
	flags.StringVar(&s.size, "storage", "", "Size of the volume, such as 10Gi. By default that of --min-disk, or the one that the file states")
	flags.StringVar(&s.storageClass, "storage-class", "", "StorageClass of the volume")
	flags.StringSliceVar(&s.accessModes, "access-mode", nil, "Access modes of the volume: "+strings.Join(accessModes(), ", "))
	flags.StringVar(&s.volumeMode, "volume-mode", "", "Mode of the volume: "+strings.Join(volumeModes(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"format": formats(), "container-format": containers(), "access-mode": accessModes(), "volume-mode": volumeModes(), "cluster-copy": clusterCopies()})
	err := cmd.RegisterFlagCompletionFunc("class", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		words := func(i *v1alpha1.VirtualImage) []string {
			return []string{i.Spec.ImageClassName, i.Status.ImageClassName}
		}
		return completions(cmd, sources, words), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag is the one above
	}
	s.has = flags.Changed
}

// addSource adds the flags for images that are imported from a URL.
func (s *specFlags) addSource(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.src, "src", "", "URL of the file, with http or https; required")
	flags.StringVar(&s.checksum, "checksum", "", "Checksum of the file: sha256:HEX or sha512:HEX")
	flags.StringVar(&s.secret, "secret", "", "Secret with the credentials for the URL: accessKeyId is the user name, secretKey the password")
	flags.StringVar(&s.authorities, "cert-config-map", "", "ConfigMap with certificates of authorities for the URL")
}

var checksums = regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

// validate rejects what no cluster accepts, by the names of the flags. The file is the source, from whose name the format is
// known.
func (s *specFlags) validate(cmd *cobra.Command, args []string, file string) error {
	if len(args) != 1 {
		return options.Usagef("name one image%s", options.SeeHelp(cmd))
	}
	s.name = args[0]
	if problems := validation.IsDNS1123Subdomain(s.name); len(problems) > 0 || len(s.name) > v1alpha1.MaxName {
		return options.Usagef("NAME %q: must have at most %d lowercase letters, digits, - and .", s.name, v1alpha1.MaxName)
	}
	if s.format == "" {
		s.format = string(formatOf(file))
	}
	switch {
	case s.format == "":
		return options.Usagef("--format is required: the name of the file does not state it; use one of %s", strings.Join(formats(), ", "))
	case s.minDisk < 0:
		return options.Usagef("--min-disk %d: must not be negative", s.minDisk)
	case s.minRAM < 0:
		return options.Usagef("--min-ram %d: must not be negative", s.minRAM)
	case s.checksum != "" && !checksums.MatchString(s.checksum):
		return options.Usagef("--checksum: must be sha256: and 64 lowercase hex digits, or sha512: and 128")
	}
	if s.size != "" {
		if size, err := resource.ParseQuantity(s.size); err != nil || size.Sign() <= 0 {
			return options.Usagef("--storage %s: must be a size such as 10Gi", s.size)
		}
	}
	for _, mode := range s.accessModes {
		if err := options.OneOf("value of --access-mode", mode, accessModes()); err != nil {
			return err
		}
	}
	return errors.Join(
		options.OneOf("value of --format", s.format, formats()), options.OptionalOneOf("value of --container-format", s.container, containers()),
		options.OptionalOneOf("value of --volume-mode", s.volumeMode, volumeModes()), options.OptionalOneOf("value of --cluster-copy", s.clusterCopy, clusterCopies()),
	)
}

// validateSource rejects URLs that no cluster accepts.
func (s *specFlags) validateSource() error {
	u, err := url.Parse(s.src)
	switch {
	case s.src == "":
		return options.Usagef("--src is required: the URL of the file")
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return options.Usagef("--src: must be a URL such as https://example.com/disk.qcow2")
	case u.User != nil:
		return options.Usagef("--src: must not contain credentials: use --secret")
	}
	return nil
}

// extensions are the formats of files by the ends of their names. A .img can have several formats.
var extensions = map[string]v1alpha1.DiskFormat{
	".qcow2": v1alpha1.FormatQCOW2, ".raw": v1alpha1.FormatRaw, ".iso": v1alpha1.FormatISO, ".vdi": v1alpha1.FormatVDI, ".vhd": v1alpha1.FormatVHD, ".vmdk": v1alpha1.FormatVMDK,
}

// formatOf is the format that the name of a file or a URL states; empty if it states none.
func formatOf(file string) v1alpha1.DiskFormat {
	if u, err := url.Parse(file); err == nil && u.Scheme != "" && u.Host != "" {
		file = u.Path
	}
	name := strings.ToLower(path.Base(file))
	for _, compressed := range []string{".gz", ".xz"} {
		name = strings.TrimSuffix(name, compressed)
	}
	return extensions[path.Ext(name)]
}

// image is the image that the flags describe.
func (s *specFlags) image(namespace string) *v1alpha1.VirtualImage {
	image := &v1alpha1.VirtualImage{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: namespace},
		Spec: v1alpha1.VirtualImageSpec{
			Src: s.src, Format: v1alpha1.DiskFormat(s.format), ContainerFormat: v1alpha1.ContainerFormat(s.container), ImageClassName: s.class,
			ClusterCopy: v1alpha1.ClusterCopy(s.clusterCopy), Checksum: s.checksum, SecretRef: s.secret, CertConfigMap: s.authorities,
		},
	}
	if s.uploaded {
		image.Spec.Src, image.Spec.Checksum, image.Spec.Upload = "", "", &v1alpha1.VirtualImageUpload{}
	}
	if s.has("min-disk") {
		image.Spec.MinDisk = &s.minDisk
	}
	if s.has("min-ram") {
		image.Spec.MinRAM = &s.minRAM
	}
	if s.size != "" || s.storageClass != "" || s.volumeMode != "" || len(s.accessModes) > 0 {
		image.Spec.Storage = &v1alpha1.VirtualImageStorage{StorageClassName: s.storageClass, VolumeMode: corev1.PersistentVolumeMode(s.volumeMode)}
		for _, mode := range s.accessModes {
			image.Spec.Storage.AccessModes = append(image.Spec.Storage.AccessModes, corev1.PersistentVolumeAccessMode(mode))
		}
	}
	if s.size != "" {
		image.Spec.Storage.Resources = &v1alpha1.VirtualImageResources{Requests: v1alpha1.VirtualImageRequests{Storage: resource.MustParse(s.size)}}
	}
	return image
}

// named is an error of the API server that names the flags of fields.
func named(err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return explained(err)
	}
	var causes []error
	for _, cause := range status.Status().Details.Causes {
		flag := flagOf[strings.TrimPrefix(cause.Field, ".")]
		if flag == "" {
			return err
		}
		causes = append(causes, fmt.Errorf("%s: %s", flag, cause.Message))
	}
	if len(causes) == 0 {
		return err
	}
	return options.JoinErrors(causes...)
}
