package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
)

// evidence shows the metrics of the webhooks and of the API server, and the layers in the audit log.
func evidence() []step {
	return []step{
		{
			prose: `Virtward counts requests. The API server calls its mutating webhook twice for each create: KubeVirt's mutator
				runs after it and replaces the spec, so the API server calls it again. The second call changes nothing. (The
				first requests were dry runs, to see that the webhooks are called.)`,
			do:      (*show).countsRequests,
			checked: "the API server counts no call of a webhook that failed.",
		},
		{
			prose: "It also counts findings by rule. They show the effect of a rule before and after its severity changes:",
			do:    (*show).countsFindings,
		},
		{
			prose: "The API server's audit log shows who created each object, and which layers completed it:",
			do:    (*show).audit,
		},
	}
}

// countsRequests shows the counters of the webhooks.
func (s *show) countsRequests(ctx context.Context) error {
	counters, err := s.greps(ctx, admin, s.scrape(), regexp.MustCompile(`{kind="VirtualMachine[I"].*verdict=.*`), true)
	if err != nil {
		return err
	}
	if err := says(counters,
		`kind="VirtualMachine",operation="CREATE",verdict="patched",webhook="mutate"`,
		`kind="VirtualMachineInstance",operation="CREATE",verdict="patched",webhook="mutate"`,
		`kind="VirtualMachine",operation="CREATE",verdict="denied",webhook="validate"`,
	); err != nil {
		return err
	}
	everything, err := s.call(ctx, admin, s.scrape())
	if err != nil {
		return failed(admin, s.scrape(), everything, err)
	}
	if err := faultless(everything); err != nil {
		return err
	}
	missed, err := s.failedCalls(ctx)
	if err == nil && missed != s.missed {
		err = fmt.Errorf("the API server counts %v calls of webhooks that failed since the start", missed-s.missed)
	}
	return err
}

// countsFindings shows the counters of a rule with two severities.
func (s *show) countsFindings(ctx context.Context) error {
	found, err := s.key("arm64-bios").greps(ctx, admin, s.scrape(), regexp.MustCompile(`findings_total{.*`), true)
	if err != nil {
		return err
	}
	const counter = `{kind="VirtualMachine",rule="arm64-bios",severity="`
	return says(found, counter+`Deny"}`, counter+`Warn"}`)
}

// failedCalls returns the API server's count of failed calls of webhooks: those after which it admitted, and
// those after which it rejected.
func (s *show) failedCalls(ctx context.Context) (float64, error) {
	passed, err := s.cluster.Metric(ctx, "apiserver_admission_webhook_fail_open_count", nil)
	if err != nil {
		return 0, err
	}
	rejected, err := s.cluster.Metric(ctx, "apiserver_admission_webhook_rejection_count", map[string]string{"error_type": "calling_webhook_error"})
	return passed + rejected, err
}

// faultless fails if a webhook could not answer a request, of any kind.
func faultless(metrics string) error {
	for l := range strings.Lines(metrics) {
		if strings.Contains(l, `verdict="failed"`) || strings.Contains(l, `verdict="malformed"`) {
			return fmt.Errorf("the webhooks could not answer every request: %s", l)
		}
	}
	return nil
}

func (s *show) scrape() string { return "kubectl get --raw /metrics -s " + s.metrics }

// metric is the value of one of virtward's metrics without labels.
func (s *show) metric(ctx context.Context, name string) (float64, error) {
	output, err := s.call(ctx, admin, s.scrape())
	if err != nil {
		return 0, failed(admin, s.scrape(), output, err)
	}
	for l := range strings.Lines(output) {
		if value, found := strings.CutPrefix(l, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("virtward has no metric %s", name)
}

// event is one of the audit log.
type event struct {
	Verb           string `json:"verb"`
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Namespace, Name string }
	ResponseStatus struct{ Code int }
	// Annotations of admission; a webhook's begin with its name.
	Annotations map[string]string `json:"annotations"`
}

func (s *show) audit(context.Context) error {
	events, err := s.completions()
	if err != nil {
		return err
	}
	var table bytes.Buffer
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "USER\tCREATED\tFOR\tLAYERS")
	for _, e := range events {
		kind := strings.TrimSuffix(strings.NewReplacer("virtualmachineinstances", "vmi", "virtualmachines", "vm").Replace(e.ObjectRef.Resource), "s")
		layers := wrap(strings.ReplaceAll(e.Annotations[annotation+"layers"], ",", " "), width/2, "")
		fmt.Fprintf(columns, "%s\t%s/%s\t%s\t%s\n", shortName(e.User.Username), kind, e.ObjectRef.Name,
			e.Annotations[annotation+"hypervisor"], layers[0])
		for _, more := range layers[1:] {
			fmt.Fprintf(columns, "\t\t\t%s\n", more)
		}
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	s.prompt(admin, "grep "+annotation+"layers "+s.cluster.AuditLog()+"  # as a table")
	s.output(table.String())
	return errors.Join(
		says(table.String(), "mshv/amd64"),
		says(table.String(), "kvm/arm64"))
}

// annotation is the prefix of the audit annotations of the mutating webhook.
const annotation = "mutate.virtward.io/"

// completions returns the audit events of creations in the demo's namespace that the mutating webhook completed. A
// rejected request was also completed, before its validation.
func (s *show) completions() ([]event, error) {
	log, err := os.Open(s.cluster.AuditLog())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var events []event
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("the audit log: %w", err)
		}
		if e.ObjectRef.Namespace == namespace && e.ResponseStatus.Code == http.StatusCreated && e.Annotations[annotation+"layers"] != "" {
			events = append(events, e)
		}
	}
	return events, lines.Err()
}

// shortName returns a user name without the prefix of KubeVirt's service accounts.
func shortName(username string) string {
	name := strings.TrimPrefix(username, "system:serviceaccount:kubevirt:")
	return cmp.Or(name, username)
}
