package chart

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/test/controlplane"
)

var update = flag.Bool("update", false, "write the golden files, and the tables of docs/accounts.md")

// TestAccounts asks the API server, with a real token of each account, what the account may do. It is what
// docs/accounts.md says, and nothing else.
func TestAccounts(t *testing.T) {
	cluster := pool.Take(t)
	values := map[string]any{"policies": map[string]any{"readers": []any{}}}
	enable(values, func(p *processes.Process) bool { return !p.Job })
	must(t, cluster.InstallChart(t.Context(), controlplane.Chart{Dir: folder, Release: release, Namespace: namespace, Values: values}))
	file := filepath.Join(root, "docs", "accounts.md")
	page, err := os.ReadFile(file)
	must(t, err)
	without := func(rules, others []string) []string {
		return slices.DeleteFunc(rules, func(rule string) bool { return slices.Contains(others, rule) })
	}
	general := rulesIn(t, accountClient(t, cluster, metav1.NamespaceDefault, "default"), metav1.NamespaceDefault)
	for _, account := range lasting() {
		client := accountClient(t, cluster, namespace, account)
		everywhere := without(rulesIn(t, client, metav1.NamespaceDefault), general)
		here := without(rulesIn(t, client, namespace), slices.Concat(everywhere, general))
		var want []string
		for _, rule := range everywhere {
			want = append(want, "| every namespace "+rule)
		}
		for _, rule := range here {
			want = append(want, "| its own namespace "+rule)
		}
		if len(want) == 0 {
			want = []string{"| none | none | none | none | none |"}
		}
		if *update {
			page = tableOf(account).ReplaceAll(page, []byte("${1}"+strings.Join(want, "\n")+"${3}"))
			continue
		}
		found := tableOf(account).FindSubmatch(page)
		if found == nil {
			t.Fatalf("%s has no table of %s", file, account)
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(found[2])), "\n")); diff != "" {
			t.Errorf("%s may do (-want +documented):\n%s", account, diff)
		}
	}
	if *update {
		must(t, os.WriteFile(file, append(bytes.TrimRight(page, "\n"), '\n'), 0o644))
	}
}

// tableOf finds the rows of an account's table.
func tableOf(account string) *regexp.Regexp {
	return regexp.MustCompile("(?s)(## `" + account + "`\n.*?\n\\|---\\|---\\|---\\|---\\|---\\|\n)(.*?)(\n\n|$)")
}

// accountClient is a client with the token of an account.
func accountClient(t *testing.T, cluster *controlplane.ControlPlane, namespace, account string) kubernetes.Interface {
	t.Helper()
	config, err := cluster.ServiceAccountConfig(t.Context(), namespace, account)
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

// rulesIn are the rows of what an account may do in a namespace.
func rulesIn(t *testing.T, client kubernetes.Interface, namespace string) []string {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(context.Background(), review, metav1.CreateOptions{})
	must(t, err)
	if review.Status.Incomplete {
		t.Fatalf("the API server does not know all rules: %s", review.Status.EvaluationError)
	}
	var rows []string
	for _, rule := range review.Status.ResourceRules {
		group := strings.Join(rule.APIGroups, ", ")
		if group == "" {
			group = "core"
		}
		names := strings.Join(rule.ResourceNames, ", ")
		if names == "" {
			names = "all"
		}
		for _, words := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
			if slices.Contains(words, "*") {
				t.Errorf("a wildcard in %v", rule)
			}
		}
		rows = append(rows, "| "+group+" | "+strings.Join(rule.Resources, ", ")+" | "+names+" | "+strings.Join(rule.Verbs, ", ")+" |")
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}
