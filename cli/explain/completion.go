package explain

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/cli/options"
)

// completionTimeout bounds how long a shell waits for names of virtual machines.
const completionTimeout = 2 * time.Second

// completeNames completes vm/ and vmi/, and then names of objects of the cluster; after a type, only names.
func (c *command) completeNames(ctx context.Context, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(c.sources.Filenames) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, ok := strings.Cut(word, "/")
	prefix := kind + "/"
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		kind, prefix, ok = args[0], "", !ok
		if !ok {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	if !ok {
		return []string{"vm/", "vmi/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	resource, err := resourceOf(kind)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := c.namesOf(ctx, resource)
	for i := range names {
		names[i] = prefix + names[i]
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
}

// namesOf returns the names of objects of the cluster; none if it cannot be read.
func (c *command) namesOf(ctx context.Context, resource schema.GroupVersionResource) []string {
	cluster, err := options.Connect(c.sources.Config)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	list, err := objectsIn(cluster, resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}
