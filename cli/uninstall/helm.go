package uninstall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/texts"
)

// helm runs Helm with the cluster and the user that the flags select.
type helm struct {
	program string
	config  *genericclioptions.ConfigFlags
}

// uninstall uninstalls a release, and waits for the Job that runs before.
func (h *helm) uninstall(ctx context.Context, release Release) error {
	path, err := exec.LookPath(h.program)
	if err != nil {
		return fmt.Errorf("helm uninstalls the release, and cannot be run: %w. Install it, name it with --helm, or run: helm uninstall %s --namespace %s", err, release.Name, release.Namespace)
	}
	environment, err := environmentOf(h.config)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "uninstall", release.Name, "--namespace", release.Namespace)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, texts.Shorten(texts.OneLine(strings.TrimSpace(output.String())), maxHelmOutput))
	}
	return nil
}

// maxHelmOutput bounds what an error has of Helm's output.
const maxHelmOutput = 2048

// environmentOf are the variables by which Helm knows the flags of kubectl. A token is not on its command line, where other users of
// the machine could read it.
func environmentOf(flags *genericclioptions.ConfigFlags) ([]string, error) {
	for name, value := range map[string]*string{
		"cluster": flags.ClusterName, "user": flags.AuthInfoName, "client-certificate": flags.CertFile, "client-key": flags.KeyFile, "username": flags.Username, "as-uid": flags.ImpersonateUID,
	} {
		if value != nil && *value != "" {
			return nil, options.Usagef("Helm has no flag --%s: select the cluster and the user with --context", name)
		}
	}
	if flags.WrapConfigFn != nil {
		return nil, errors.New("the configuration of the client is not one of flags")
	}
	var all []string
	for name, value := range map[string]*string{
		"KUBECONFIG": flags.KubeConfig, "HELM_KUBECONTEXT": flags.Context, "HELM_KUBEAPISERVER": flags.APIServer, "HELM_KUBETOKEN": flags.BearerToken, "HELM_KUBEASUSER": flags.Impersonate,
		"HELM_KUBECAFILE": flags.CAFile, "HELM_KUBETLS_SERVER_NAME": flags.TLSServerName,
	} {
		if value != nil && *value != "" {
			all = append(all, name+"="+*value)
		}
	}
	if flags.ImpersonateGroup != nil && len(*flags.ImpersonateGroup) > 0 {
		all = append(all, "HELM_KUBEASGROUPS="+strings.Join(*flags.ImpersonateGroup, ","))
	}
	if flags.Insecure != nil && *flags.Insecure {
		all = append(all, "HELM_KUBEINSECURE_SKIP_TLS_VERIFY="+strconv.FormatBool(true))
	}
	return all, nil
}
