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

	"github.com/virtward/virtward/test/controlplane"
)

var updateAccounts = flag.Bool("update", false, "write the tables of docs/accounts.md")

// TestAccounts asks the API server, with a real token of each account, what the account may do. It is what
// docs/accounts.md says, and nothing else.
func TestAccounts(t *testing.T) {
	cluster, err := controlplane.Start(t.Context(), controlplane.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, cluster.Stop()) })
	must(t, cluster.InstallChart(t.Context(), controlplane.Chart{
		Dir: folder, Release: release, Namespace: namespace, Values: map[string]any{"policies": map[string]any{"readers": []any{}, "export": map[string]any{"enabled": true}}, "images": map[string]any{"enabled": true}, "virtualImages": map[string]any{"enabled": true}},
	}))
	file := filepath.Join(root, "docs", "accounts.md")
	page, err := os.ReadFile(file)
	must(t, err)
	for _, account := range []string{"virtward-webhook", "virtward-controller", "virtward-export", "virtward-templates", "virtward-rollouts", "virtward-apiserver", "virtward-images", "virtward-virtualimages"} {
		config, err := cluster.ServiceAccountConfig(t.Context(), namespace, account)
		must(t, err)
		client, err := kubernetes.NewForConfig(config)
		must(t, err)
		everywhere := rulesIn(t, client, metav1.NamespaceDefault)
		here := slices.DeleteFunc(rulesIn(t, client, namespace), func(rule string) bool { return slices.Contains(everywhere, rule) })
		var want []string
		for _, rule := range everywhere {
			want = append(want, "| every namespace "+rule)
		}
		for _, rule := range here {
			want = append(want, "| its own namespace "+rule)
		}
		if *updateAccounts {
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
	if *updateAccounts {
		must(t, os.WriteFile(file, append(bytes.TrimRight(page, "\n"), '\n'), 0o644))
	}
}

// tableOf finds the rows of an account's table.
func tableOf(account string) *regexp.Regexp {
	return regexp.MustCompile("(?s)(## `" + account + "`\n.*?\n\\|---\\|---\\|---\\|---\\|---\\|\n)(.*?)(\n\n|$)")
}

// rulesIn are the rows of what an account may do in a namespace, without what every account may.
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
		if cmp.Equal(rule.Verbs, []string{"create"}) && strings.HasPrefix(strings.Join(rule.Resources, ","), "self") {
			continue // what every account may ask about itself
		}
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
