package main

import (
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"no certificate":       {"", "--tls-cert-file and --tls-private-key-file are required"},
		"an unknown flag":      {"--etcd-servers=http://localhost", "unknown flag: --etcd-servers"},
		"an argument":          {"serve", `unknown command "serve"`},
		"a log level":          {"--tls-cert-file=a --tls-private-key-file=b --namespace=a --log-level=loud", `--log-level is "loud": it must be error, warn, info or debug`},
		"no requests":          {"--tls-cert-file=a --tls-private-key-file=b --namespace=a --max-requests-in-flight=0", "--max-requests-in-flight is 0: it must be within 1 and 400"},
		"no namespace":         {"--tls-cert-file=a --tls-private-key-file=b", "--namespace is required: the keys of approvals are in its Secret virtward-approval-keys"},
		"no interval":          {"--tls-cert-file=a --tls-private-key-file=b --namespace=a --approval-check-interval=0s", "--approval-check-interval is 0s: it must be positive"},
		"a certificate absent": {"--tls-cert-file=a --tls-private-key-file=b --namespace=a --kubeconfig=absent", "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command()
			cmd.SetArgs(strings.Fields(tc.args))
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
