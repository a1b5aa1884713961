package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answered is the output of kubectl, and its exit code.
type answered struct {
	output, errors string
	code           int
}

// kubectl runs the real one as a user, with manifests on its standard input; kubectl virtward too.
func kubectl(ctx context.Context, user, manifests string, args ...string) answered {
	GinkgoHelper()
	config, err := cluster.UserConfig(user)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := cluster.WriteKubeconfig("kubectl-"+user, config)
	Expect(err).NotTo(HaveOccurred())
	return kubectlWith(ctx, kubeconfig, manifests, args...)
}

// kubectlAsAdmin runs it as the cluster admin.
func kubectlAsAdmin(ctx context.Context, manifests string, args ...string) answered {
	GinkgoHelper()
	return kubectlWith(ctx, cluster.Kubeconfig(), manifests, args...)
}

func kubectlWith(ctx context.Context, kubeconfig, manifests string, args ...string) answered {
	GinkgoHelper()
	command := exec.CommandContext(ctx, cluster.Binary("kubectl"), args...)
	path := filepath.Dir(cluster.Binary("kubectl-virtward")) + string(filepath.ListSeparator) + os.Getenv("PATH")
	command.Env = append(cluster.Environment(kubeconfig), "PATH="+path)
	command.Stdin = strings.NewReader(manifests)
	var output, complaints strings.Builder
	command.Stdout, command.Stderr = &output, &complaints
	err := command.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		Fail("kubectl does not run: " + err.Error())
	}
	return answered{output: output.String(), errors: complaints.String(), code: command.ProcessState.ExitCode()}
}

// ruleID matches the rule in messages of Virtward.
var ruleID = regexp.MustCompile(`\[virtward/([a-z0-9-]+)\]`)

// causes returns the causes of a rejection, each as its field and its rule. The status must be 422 Invalid.
func causes(err error) []string {
	GinkgoHelper()
	var rejected []string
	for _, cause := range detailed(err) {
		rejected = append(rejected, cause.Field+" "+ruleOf(cause.Message))
	}
	return rejected
}

func detailed(err error) []metav1.StatusCause {
	GinkgoHelper()
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), "it is not rejected as invalid, but: %v", err)
	var rejection apierrors.APIStatus
	Expect(errors.As(err, &rejection)).To(BeTrue())
	Expect(rejection.Status().Details).NotTo(BeNil(), "%v", err)
	return rejection.Status().Details.Causes
}

func ruleOf(message string) string {
	GinkgoHelper()
	found := ruleID.FindStringSubmatch(message)
	Expect(found).To(HaveLen(2), "%q names no rule", message)
	return found[1]
}
