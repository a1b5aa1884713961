package options

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// completionNames bounds the names that a shell gets.
const completionNames = 100

// CompleteNames completes names of objects of the namespace; none if the cluster cannot be read.
func CompleteNames(cmd *cobra.Command, config *genericclioptions.ConfigFlags, resource schema.GroupVersionResource) ([]string, cobra.ShellCompDirective) {
	cluster, err := Connect(config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, err := cluster.Client.Resource(resource).Namespace(cluster.Namespace).List(ctx, metav1.ListOptions{Limit: completionNames})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found := make([]string, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, list.Items[i].GetName())
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}
