package virtualimages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/cli/options"
)

const (
	// manager is the field manager of the writes.
	manager = "kubectl-virtward"
	// page is the number of images that are read together.
	page = 250
	// completionTimeout bounds how long a shell waits for names.
	completionTimeout = 2 * time.Second
)

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Create and upload VirtualImages, and show which virtual machines use them",
		Long: `Create and upload VirtualImages, and show which virtual machines use them.

A VirtualImage is an image of a disk with a name, which virtual machines clone. It is imported once, cannot be changed, and is
not deleted while virtual machines use it. Golden images, which are imported again and again, have the command images.`,
		Args: options.OnlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCreate(program), newUpload(program), newUsage(program))
	return cmd
}

// connected is a cluster, and the namespace of the images.
type connected struct {
	dynamic.ResourceInterface

	client    dynamic.Interface
	namespace string
}

// connect returns the VirtualImages of the namespace that the flags select.
func connect(sources *options.Sources) (*connected, error) {
	cluster, err := options.Connect(sources.Config)
	if err != nil {
		return nil, err
	}
	namespace := sources.Namespace(cluster)
	return &connected{cluster.Client.Resource(images).Namespace(namespace), cluster.Client, namespace}, nil
}

var images = v1alpha1.GroupVersion.WithResource("virtualimages")

// decoded is an image that was read.
func decoded(object *unstructured.Unstructured) (*v1alpha1.VirtualImage, error) {
	image := &v1alpha1.VirtualImage{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, image); err != nil {
		return nil, fmt.Errorf("VirtualImage %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return image, nil
}

// encoded is an image as it is created.
func encoded(image *v1alpha1.VirtualImage) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(image)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	return &unstructured.Unstructured{Object: object}, nil
}

// list reads the images of a namespace, or all.
func list(ctx context.Context, in dynamic.ResourceInterface) ([]v1alpha1.VirtualImage, error) {
	var all []v1alpha1.VirtualImage
	for query := (metav1.ListOptions{Limit: page}); ; {
		read, err := in.List(ctx, query)
		if err != nil {
			return nil, explained(err)
		}
		for i := range read.Items {
			image, err := decoded(&read.Items[i])
			if err != nil {
				return nil, err
			}
			all = append(all, *image)
		}
		if query.Continue = read.GetContinue(); query.Continue == "" {
			return all, nil
		}
	}
}

// errNotServed says that the cluster has no VirtualImages.
var errNotServed = errors.New("the cluster has no VirtualImages: install the chart of Virtward")

// explained is an error of the API server. It names the case that the kind does not exist.
func explained(err error) error {
	if options.IsNotServed(err) {
		return errNotServed
	}
	return err
}

// completions are words of the images of the namespace.
func completions(cmd *cobra.Command, sources *options.Sources, words func(*v1alpha1.VirtualImage) []string) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	in, err := connect(sources)
	if err != nil {
		return nil
	}
	all, err := list(ctx, in)
	if err != nil {
		return nil
	}
	var found []string
	for i := range all {
		found = append(found, words(&all[i])...)
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(word string) bool { return strings.TrimSpace(word) == "" })
}
