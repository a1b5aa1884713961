package reports

import (
	"maps"
	"strconv"
	"time"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/migrations"
)

// The definitions that the chart can install, without the words of their authors.
//go:generate ../../bin/tools/controller-gen crd:crdVersions=v1,maxDescLen=0 paths=github.com/openreports/reports-api/apis/openreports.io/v1alpha1 output:crd:dir=../../charts/virtward/openreports

// Name is the name of every Report of Virtward.
const Name = "virtward"

// The label of Virtward's Reports.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "virtward"
)

// LeftAnnotation has the number of results that do not fit into a Report. The summary counts them.
const LeftAnnotation = "virtward.io/results-left-out"

// TargetsProperty of a result about an instance that runs says whether other nodes could receive it by live migration.
const TargetsProperty = "migrationTargets"

// targets are the values of TargetsProperty. They do not say how many nodes: an author who reads the Report could find out with node
// selectors how many nodes have a label.
var targets = [migrations.Levels]string{migrations.NoTarget: "none", migrations.OneTarget: "some", migrations.SeveralTargets: "some", migrations.UnknownTargets: "unknown"}

// Sources of results.
const (
	sourcePolicies = "virtward"
	sourceRules    = "virtward/rules"
	// categoryRules is what built-in rules are about.
	categoryRules = "virtward"
)

// About has the facts about a policy.
type About struct {
	Category    string
	Severity    openreports.ResultSeverity
	Enforcement string
}

// Context is the same for all Reports.
type Context struct {
	// About are the policies, by name.
	About map[string]About
	// Skipped is the number of policies that cannot be audited.
	Skipped int
	// Limit is the most results of a Report.
	Limit int
	Now   time.Time
}

// Build returns the Report of a namespace; nil if it has no objects. A result that the Report before had too keeps its
// time. It is pure.
func Build(c *Context, namespace string, view *auditresults.View, before *openreports.Report) *openreports.Report {
	if view.Objects == 0 {
		return nil
	}
	r := &openreports.Report{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: namespace, Labels: map[string]string{ManagedByLabel: ManagedBy}},
		Source:     sourcePolicies,
		Scope:      &corev1.ObjectReference{APIVersion: "v1", Kind: apikinds.Namespace, Name: namespace},
		Configuration: &openreports.ReportConfiguration{
			Limits: openreports.Limits{MaxResults: c.Limit},
		},
		Summary: openreports.ReportSummary{Pass: view.Sum.Pass, Fail: view.Sum.Fail, Warn: view.Sum.Warn, Error: view.Sum.Error, Skip: c.Skipped + view.Sum.Exempt},
	}
	if view.Left > 0 {
		r.Annotations = map[string]string{LeftAnnotation: strconv.Itoa(view.Left)}
	}
	times := timesOf(before)
	for i := range view.Results {
		result := c.result(&view.Results[i])
		found, known := times[identityOf(&result)]
		if !known {
			found = metav1.Timestamp{Seconds: c.Now.Unix()}
		}
		result.Timestamp = found
		r.Results = append(r.Results, result)
	}
	return r
}

func (c *Context) result(held *auditresults.Held) openreports.ReportResult {
	r := openreports.ReportResult{
		Source: sourcePolicies, Policy: held.Source.Name, Description: held.Message,
		Result: outcomes[held.Outcome], Scored: held.Outcome == auditresults.Fail,
		Subjects: []corev1.ObjectReference{{
			APIVersion: held.APIVersion, Kind: held.Kind, Namespace: held.Namespace, Name: held.Subject.Name, UID: held.UID,
		}},
	}
	properties := map[string]string{}
	if held.Field != "" {
		properties["field"] = held.Field
	}
	if text := targets[held.Targets]; text != "" {
		properties[TargetsProperty] = text
	}
	if held.Remedy != "" {
		properties["remedy"] = held.Remedy
	}
	if held.BuiltIn {
		r.Source, r.Category = sourceRules, categoryRules
	} else {
		about := c.About[held.Source.Name]
		r.Category, r.Severity = about.Category, about.Severity
		if about.Enforcement != "" {
			properties["enforcement"] = about.Enforcement
		}
	}
	if len(properties) > 0 {
		r.Properties = properties
	}
	return r
}

var outcomes = map[auditresults.Outcome]openreports.Result{auditresults.Fail: "fail", auditresults.Warn: "warn", auditresults.Error: "error", auditresults.Exempt: "skip"}

// identity identifies a result.
type identity struct {
	source, policy, kind, name, field, message string
}

func identityOf(r *openreports.ReportResult) identity {
	id := identity{source: r.Source, policy: r.Policy, field: r.Properties["field"], message: r.Description}
	if len(r.Subjects) > 0 {
		id.kind, id.name = r.Subjects[0].Kind, r.Subjects[0].Name
	}
	return id
}

func timesOf(before *openreports.Report) map[identity]metav1.Timestamp {
	if before == nil {
		return nil
	}
	times := make(map[identity]metav1.Timestamp, len(before.Results))
	for i := range before.Results {
		times[identityOf(&before.Results[i])] = before.Results[i].Timestamp
	}
	return times
}

// Fresh returns the first result of each policy about each object of which the Report before has no violation. It returns
// none if that Report had no room for all results.
func Fresh(view *auditresults.View, before *openreports.Report) []auditresults.Held {
	type violation struct{ policy, kind, name string }
	seen := map[violation]bool{}
	if before != nil {
		if _, cut := before.Annotations[LeftAnnotation]; cut {
			return nil
		}
		for i := range before.Results {
			id := identityOf(&before.Results[i])
			if id.source == sourcePolicies && before.Results[i].Result != outcomes[auditresults.Error] && before.Results[i].Result != outcomes[auditresults.Exempt] {
				seen[violation{id.policy, id.kind, id.name}] = true
			}
		}
	}
	var fresh []auditresults.Held
	for i := range view.Results {
		r := &view.Results[i]
		found := violation{r.Source.Name, r.Kind, r.Subject.Name}
		if r.BuiltIn || r.Outcome >= auditresults.Error || seen[found] {
			continue
		}
		seen[found] = true
		fresh = append(fresh, *r)
	}
	return fresh
}

// merged returns a Report as it is stored, with the metadata of the one before except for Virtward's. same reports
// whether there is nothing to write.
func merged(before, wanted *openreports.Report) (stored *openreports.Report, same bool) {
	stored = wanted.DeepCopy()
	stored.ObjectMeta = *before.ObjectMeta.DeepCopy()
	stored.Labels, stored.Annotations = maps.Clone(before.Labels), maps.Clone(before.Annotations)
	if stored.Labels == nil {
		stored.Labels = map[string]string{}
	}
	maps.Copy(stored.Labels, wanted.Labels)
	delete(stored.Annotations, LeftAnnotation)
	if len(wanted.Annotations) > 0 {
		if stored.Annotations == nil {
			stored.Annotations = map[string]string{}
		}
		maps.Copy(stored.Annotations, wanted.Annotations)
	}
	stored.TypeMeta = before.TypeMeta
	return stored, equality.Semantic.DeepEqual(before, stored)
}
