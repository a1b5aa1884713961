package template

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/options"
)

// completionTimeout bounds how long a shell waits for names of templates.
const completionTimeout = 2 * time.Second

// completeNames completes the name of a template of the cluster.
func (s *source) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || s.file != "" || s.name != "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cluster, err := options.Connect(s.Config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, err := cluster.Client.Resource(v1beta1.GroupVersion.WithResource("virtualmachinetemplates")).Namespace(s.Namespace(cluster)).List(ctx, metav1.ListOptions{Limit: listPage})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
