package virtualimages

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/virtualimages"
)

// usage has the flags of image usage.
type usage struct {
	program options.Program
	options.Sources

	names  []string
	all    bool
	output string
}

func newUsage(program options.Program) *cobra.Command {
	u := &usage{program: program, Sources: options.NewSources(), output: printers.Table}
	outputs := u.printer().Formats()
	cmd := &cobra.Command{
		Use:   "usage [IMAGE ...]",
		Short: "Show which virtual machines use VirtualImages",
		Long: `Show which virtual machines use VirtualImages: the images that you name, those of the namespace, or all with -A.

  IN-USE    whether virtual machines or servers of OpenStack use the image: then it is not deleted
  USED-BY   the virtual machines, and DataVolumes that are being cloned, as NAMESPACE/NAME; the numbers of servers and of volumes
            in OpenStack, and a note if not all of them can be counted
  DELETION  for an image that is being deleted, what the deletion waits for

VM templates that refer to the image are in the output wide. They do not prevent the deletion. The status of an image has up to
20 users, and the number of the others.

You need permission to get or list virtualimages. The exit code is 0 if the images could be read.`,
		Example: program.Examples(`  # Which virtual machines use an image?
  PROGRAM image usage fedora

  # Show the images of all namespaces, with templates and sizes
  PROGRAM image usage -A -o wide`),
		Args: func(_ *cobra.Command, args []string) error {
			u.names = args
			if u.all && len(args) > 0 {
				return options.Usagef("name images or use -A, not both")
			}
			return options.OneOf("output", u.output, outputs)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return u.run(cmd.Context()) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			names := completions(cmd, &u.Sources, func(i *v1alpha1.VirtualImage) []string { return []string{i.Name} })
			return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&u.all, "all-namespaces", "A", false, "Show the images of all namespaces")
	flags.StringVarP(&u.output, "output", "o", u.output, "What to print: "+strings.Join(outputs, ", "))
	options.AddClusterFlags(cmd, u.Config, "", "Namespace of the images")
	options.CompleteFlags(cmd, map[string][]string{"output": outputs})
	return cmd
}

// used is an image with its users.
type used struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	InUse     bool   `json:"inUse"`
	// UsedBy are Namespace/Name. The last entry can be the number of the others.
	UsedBy    []string `json:"usedBy"`
	Templates []string `json:"templates,omitempty"`
	// OpenStack are the users there, of an image that is stored there.
	OpenStack *openStack `json:"openStack,omitempty"`
	// Deletion is what the deletion waits for.
	Deletion *reason `json:"deletion,omitempty"`
	Size     string  `json:"size,omitempty"`
	Class    string  `json:"class,omitempty"`

	// known is false before Virtward has read the virtual machines.
	known bool
}

// openStack has the numbers of the users in OpenStack; none is absent if it is not known.
type openStack struct {
	Servers *int32 `json:"servers,omitempty"`
	Volumes *int32 `json:"volumes,omitempty"`
	// Counted says which users are counted.
	Counted reason `json:"counted"`

	all bool
}

type reason struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func usedOf(image *v1alpha1.VirtualImage) used {
	u := used{
		Namespace: image.Namespace, Name: image.Name, Ready: image.Status.Ready, InUse: image.Status.Usage.InUse,
		UsedBy: oneLine(image.Status.Usage.VirtualMachines), Templates: oneLine(image.Status.Usage.Templates),
		Size: texts.OneLine(image.Status.Size), Class: texts.OneLine(image.Status.ImageClassName),
	}
	inUse := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionInUse)
	u.known = inUse != nil && inUse.Status != metav1.ConditionUnknown
	if c := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionCloudUsersCounted); c != nil {
		u.OpenStack = &openStack{Counted: reason{texts.OneLine(c.Reason), texts.OneLine(c.Message)}, all: c.Status == metav1.ConditionTrue}
		if cloud := image.Status.Usage.Cloud; cloud != nil {
			u.OpenStack.Servers, u.OpenStack.Volumes = cloud.Servers, cloud.Volumes
		}
	}
	if image.DeletionTimestamp == nil {
		return u
	}
	u.Deletion = &reason{"Pending", "Virtward has not read the deletion yet"}
	if c := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionDeleting); c != nil {
		u.Deletion = &reason{texts.OneLine(c.Reason), texts.OneLine(c.Message)}
	}
	return u
}

func oneLine(words []string) []string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = texts.OneLine(word)
	}
	return all
}

func (u *usage) run(ctx context.Context) error {
	found, err := u.read(ctx)
	if err != nil {
		return err
	}
	all := make([]used, len(found))
	for i := range found {
		all[i] = usedOf(&found[i])
	}
	if len(all) == 0 && (u.output == printers.Table || u.output == printers.Wide) {
		fmt.Fprintln(u.program.Streams.ErrOut, "No VirtualImages found.")
		return nil
	}
	return u.printer().Print(u.program.Streams.Out, u.output, all)
}

// read reads the images that the command line names.
func (u *usage) read(ctx context.Context) ([]v1alpha1.VirtualImage, error) {
	if u.all {
		cluster, err := options.Connect(u.Config)
		if err != nil {
			return nil, err
		}
		return list(ctx, cluster.Client.Resource(images))
	}
	in, err := connect(&u.Sources)
	if err != nil {
		return nil, err
	}
	if len(u.names) == 0 {
		return list(ctx, in)
	}
	var all []v1alpha1.VirtualImage
	for _, name := range u.names {
		read, err := in.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("VirtualImage %s/%s: %w", in.namespace, name, explained(err))
		}
		image, err := decoded(read)
		if err != nil {
			return nil, err
		}
		all = append(all, *image)
	}
	return all, nil
}

// shownUsers bounds the users of a row. The output wide has all of the status.
const shownUsers = 3

// printer prints images with their users.
func (u *usage) printer() *printers.Printer[used] {
	return &printers.Printer[used]{
		Columns: []string{"NAMESPACE", "NAME", "READY", "IN-USE", "USED-BY", "DELETION", "TEMPLATES", "SIZE", "CLASS"}, Wide: 3,
		Row:        func(image *used) []string { return image.row(u.output == printers.Wide) },
		Namespaced: true, AllNamespaces: u.all,
		Document: printers.List[used]("images"),
	}
}

func (u *used) row(wide bool) []string {
	inUse, deletion := fmt.Sprint(u.InUse), "-"
	if !u.known {
		inUse = "Unknown"
	}
	if u.Deletion != nil {
		deletion = u.Deletion.Reason
		if wide {
			deletion += ": " + u.Deletion.Message
		}
	}
	users := u.UsedBy
	if !wide {
		users = shortened(users)
	}
	users = append(slices.Clone(users), u.inOpenStack(wide)...)
	return []string{
		u.Namespace, u.Name, fmt.Sprint(u.Ready), inUse, orNone(strings.Join(users, ", ")), deletion,
		orNone(strings.Join(u.Templates, ", ")), orNone(u.Size), orNone(u.Class),
	}
}

// inOpenStack are the numbers of users in OpenStack, and a note if there can be others.
func (u *used) inOpenStack(wide bool) (list []string) {
	if u.OpenStack == nil {
		return nil
	}
	list = virtualimages.UsedBy(&v1alpha1.VirtualImageUsage{Cloud: &v1alpha1.VirtualImageCloudUsage{Servers: u.OpenStack.Servers, Volumes: u.OpenStack.Volumes}})
	switch {
	case u.OpenStack.all:
	case wide:
		list = append(list, "others in OpenStack are unknown ("+u.OpenStack.Counted.Reason+": "+u.OpenStack.Counted.Message+")")
	default:
		list = append(list, "others in OpenStack are unknown ("+u.OpenStack.Counted.Reason+")")
	}
	return list
}

// shortened are the first users, and the number of the others.
func shortened(users []string) []string {
	if len(users) <= shownUsers+1 {
		return users
	}
	others := len(users) - shownUsers
	var counted int
	if n, err := fmt.Sscanf(users[len(users)-1], "and %d more", &counted); err == nil && n == 1 {
		others += counted - 1
	}
	return append(slices.Clone(users[:shownUsers]), fmt.Sprintf("and %d more", others))
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
