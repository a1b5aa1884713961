package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
)

// Rule is a check of Plugins.
type Rule struct {
	ID, Title, Remedy string
	// Warning says that a Plugin that breaks the rule works, though probably not as its author means.
	Warning bool
	// Cross says that the rule compares Plugins with each other. The others are of one Plugin.
	Cross bool
	check func(*linted) []finding
}

// finding is what a rule reports.
type finding struct {
	path    *field.Path
	message string
}

func findingf(p *field.Path, format string, args ...any) finding {
	return finding{p, fmt.Sprintf(format, args...)}
}

// Problem is what a rule reports about a Plugin.
type Problem struct {
	Plugin  string `json:"plugin"`
	Rule    string `json:"rule"`
	Warning bool   `json:"warning,omitempty"`
	// Field is the path of the field in the Plugin.
	Field   string `json:"field"`
	Message string `json:"message"`
}

// linted is a Plugin with its programs, and with the Plugins that KubeVirt calls before it.
type linted struct {
	*compiled
	before []*linted
	writes []write
}

var specPath = field.NewPath("spec")

// Unreadable is the rule of documents that KubeVirt would not accept as Plugins.
const Unreadable = "plugin-unreadable"

// Rules returns the checks in the order in which they report.
func Rules() []Rule {
	return []Rule{
		{ID: "plugin-hook-kind", Title: "A domain hook is an expression or a sidecar", Remedy: "Set exactly one of cel and sidecar.", check: hookKinds},
		{ID: "plugin-failure-strategy", Title: "A failure strategy is Fail or Ignore", Remedy: "Set Fail or Ignore.", check: failureStrategies},
		{ID: "plugin-condition", Title: "The conditions of domain hooks compile", Remedy: "Correct the condition. Fields have the names of Go: vmi.Spec.Domain.CPU.", check: conditions},
		{ID: "plugin-condition-of-two-languages", Title: "The condition of a plugin with node hooks compiles in both languages", Remedy: "Move the condition to each hook: virt-launcher reads the names of Go, and virt-handler those of JSON.", check: twoLanguages},
		{ID: "plugin-expression", Title: "The expressions of domain hooks compile", Remedy: "Correct the expression. The fields of libvirtxml have the names of Go.", check: expressions},
		{ID: "plugin-returns-domain", Title: "A domain hook returns a Domain that it makes", Remedy: "Return Domain{} where nothing changes.", check: returnsDomain},
		{ID: "plugin-node-condition", Title: "The conditions of node hooks compile", Remedy: "Correct the condition. Fields have the names of JSON: vmi.spec.domain.cpu.", check: nodeConditions},
		{ID: "plugin-hook-point", Title: "The points of node hooks exist", Remedy: "Name points of KubeVirt.", check: hookPoints},
		{ID: "plugin-socket", Title: "The sockets of plugins are where KubeVirt looks for them", Remedy: "Use a socket of the plugin's own folder.", check: sockets},
		{ID: "plugin-without-hooks", Title: "A plugin has hooks or names admission objects", Remedy: "Add a hook, or delete the plugin.", Warning: true, check: withoutHooks},
		{ID: "plugin-ignored-field", Title: "Fields have an effect", Remedy: "Delete the field, or set it in the hook.", Warning: true, check: ignoredFields},
		{ID: "plugin-replaces-list", Title: "A list that KubeVirt fills is extended", Remedy: "Add the old items: domainSpec.Devices.Disks + [DomainDisk{…}].", Warning: true, check: replacedLists},
		{ID: "plugin-not-previewed", Title: "Virtward can preview the hooks", Remedy: "Test the plugin in a cluster: previews and policies do not have its changes.", Warning: true, check: notPreviewed},
		{ID: "plugin-conflict", Title: "Two plugins do not write one field", Remedy: "Write the field in one plugin. The last one by its name wins.", Warning: true, Cross: true, check: conflicts},
	}
}

// Lint reports what is wrong with Plugins, sorted by their names and then by the order of the rules.
func Lint(list []*pluginv1alpha1.Plugin) []Problem {
	var problems []Problem
	var before []*linted
	for _, c := range NewSet(list).plugins {
		l := &linted{compiled: c, before: before, writes: writesOf(c)}
		before = append(before, l)
		for _, rule := range Rules() {
			for _, found := range rule.check(l) {
				problems = append(problems, Problem{Plugin: c.plugin.Name, Rule: rule.ID, Warning: rule.Warning, Field: found.path.String(), Message: found.message})
			}
		}
	}
	return problems
}

func hookKinds(l *linted) (found []finding) {
	for i := range l.plugin.Spec.DomainHooks {
		h := &l.plugin.Spec.DomainHooks[i]
		at := specPath.Child(domainHooks).Index(i)
		switch {
		case h.CEL != nil && h.Sidecar != nil:
			found = append(found, findingf(at, "a domain hook has cel or sidecar, and not both"))
		case h.CEL == nil && h.Sidecar == nil:
			found = append(found, findingf(at, "a domain hook needs cel or sidecar"))
		case h.CEL != nil && h.CEL.Expression == "":
			found = append(found, findingf(at.Child("cel", "expression"), "the expression is empty"))
		}
	}
	return found
}

func failureStrategies(l *linted) (found []finding) {
	check := func(at *field.Path, strategy pluginv1alpha1.FailureStrategy) {
		if strategy != "" && strategy != pluginv1alpha1.FailureStrategyFail && strategy != pluginv1alpha1.FailureStrategyIgnore {
			found = append(found, findingf(at.Child("failureStrategy"), "%q is neither Fail nor Ignore", strategy))
		}
	}
	check(specPath, l.plugin.Spec.FailureStrategy)
	for i := range l.plugin.Spec.DomainHooks {
		check(specPath.Child(domainHooks).Index(i), l.plugin.Spec.DomainHooks[i].FailureStrategy)
	}
	for i := range l.plugin.Spec.NodeHooks {
		check(specPath.Child(nodeHooks).Index(i), l.plugin.Spec.NodeHooks[i].FailureStrategy)
	}
	return found
}

// failed is the error of a step's compiler.
func (s *step) failed() error {
	if s == nil {
		return nil
	}
	return s.err
}

// conditions checks what virt-launcher, and KubeVirt's webhook, compiles.
func conditions(l *linted) (found []finding) {
	if err := l.condition.failed(); err != nil {
		found = append(found, findingf(specPath.Child("condition"), "KubeVirt compiles it with the names of Go: %v", err))
	}
	for i := range l.domainHooks {
		if err := l.domainHooks[i].condition.failed(); err != nil {
			found = append(found, findingf(specPath.Child(domainHooks).Index(i).Child("condition"), "%v", err))
		}
	}
	return found
}

// twoLanguages checks a condition that virt-handler compiles too.
func twoLanguages(l *linted) []finding {
	if err := l.onNodeCondition.failed(); err != nil {
		return []finding{findingf(specPath.Child("condition"), "virt-handler reads it for the node hooks, with the names of JSON, and fails: %v", err)}
	}
	return nil
}

func expressions(l *linted) (found []finding) {
	for i := range l.domainHooks {
		if err := l.domainHooks[i].expression.failed(); err != nil && l.plugin.Spec.DomainHooks[i].CEL.Expression != "" {
			found = append(found, findingf(specPath.Child(domainHooks).Index(i).Child("cel", "expression"), "%v", err))
		}
	}
	return found
}

func returnsDomain(l *linted) (found []finding) {
	for i := range l.domainHooks {
		if s := l.domainHooks[i].expression; s != nil && s.err == nil && s.program.returnsVariable() {
			found = append(found, findingf(specPath.Child(domainHooks).Index(i).Child("cel", "expression"), "it can return the variable domainSpec, which virt-launcher rejects when it starts the virtual machine"))
		}
	}
	return found
}

func nodeConditions(l *linted) (found []finding) {
	for i := range l.nodeHooks {
		if err := l.nodeHooks[i].condition.failed(); err != nil {
			found = append(found, findingf(specPath.Child(nodeHooks).Index(i).Child("condition"), "%v", err))
		}
	}
	return found
}

// points are the points at which virt-handler calls node hooks.
var points = []pluginv1alpha1.NodeHookPoint{
	pluginv1alpha1.NodeHookPreVMStart, pluginv1alpha1.NodeHookPostVMStart, pluginv1alpha1.NodeHookPreVMStop, pluginv1alpha1.NodeHookPostVMStop,
	pluginv1alpha1.NodeHookPreMigrationSource, pluginv1alpha1.NodeHookPreMigrationTarget, pluginv1alpha1.NodeHookPostMigrationTarget,
}

func hookPoints(l *linted) (found []finding) {
	for i := range l.plugin.Spec.NodeHooks {
		at := specPath.Child(nodeHooks).Index(i).Child("permittedHooks")
		if len(l.plugin.Spec.NodeHooks[i].PermittedHooks) == 0 {
			found = append(found, findingf(at, "the hook is never called: name at least one of %v", points))
		}
		for j, point := range l.plugin.Spec.NodeHooks[i].PermittedHooks {
			if !slices.Contains(points, point) {
				found = append(found, findingf(at.Index(j), "KubeVirt never calls a hook at %q: the points are %v", point, points))
			}
		}
	}
	return found
}

// socketFolder has a folder for each Plugin.
const socketFolder = "/var/run/kubevirt-plugin"

// maxSocket is the length of the address of a Unix socket on Linux.
const maxSocket = 107

func sockets(l *linted) (found []finding) {
	check := func(at *field.Path, socket, folder string) {
		switch {
		case socket == "":
			found = append(found, findingf(at, "the path of the socket is empty"))
		case !path.IsAbs(socket) || path.Clean(socket) != socket:
			found = append(found, findingf(at, "%s is not an absolute path without .. and empty parts", socket))
		case !strings.HasPrefix(socket, folder):
			found = append(found, findingf(at, "virt-launcher accepts only sockets below %s", folder))
		case len(socket) > maxSocket:
			found = append(found, findingf(at, "the path is longer than %d bytes, the limit of Linux", maxSocket))
		}
	}
	for i := range l.plugin.Spec.DomainHooks {
		if sidecar := l.plugin.Spec.DomainHooks[i].Sidecar; sidecar != nil {
			check(specPath.Child(domainHooks).Index(i).Child("sidecar", "socketPath"), sidecar.SocketPath, socketFolder+"/"+l.plugin.Name+"/")
		}
	}
	for i := range l.plugin.Spec.NodeHooks {
		check(specPath.Child(nodeHooks).Index(i).Child("socket"), l.plugin.Spec.NodeHooks[i].Socket, "/")
	}
	return found
}

func withoutHooks(l *linted) []finding {
	s := &l.plugin.Spec
	admission := len(s.MutatingAdmissionPolicies) + len(s.ValidatingAdmissionPolicies) + len(s.MutatingAdmissionWebhooks) + len(s.ValidatingAdmissionWebhooks)
	if len(s.DomainHooks)+len(s.NodeHooks)+admission == 0 {
		return []finding{findingf(specPath, "the plugin has no effect")}
	}
	return nil
}

func ignoredFields(l *linted) (found []finding) {
	for i := range l.plugin.Spec.DomainHooks {
		h := &l.plugin.Spec.DomainHooks[i]
		if h.CEL != nil && h.Timeout != nil {
			found = append(found, findingf(specPath.Child(domainHooks).Index(i).Child("timeout"), "an expression has a cost limit and no timeout"))
		}
	}
	if l.plugin.Spec.FailureStrategy != pluginv1alpha1.FailureStrategyIgnore {
		return found
	}
	for i := range l.plugin.Spec.NodeHooks {
		if l.plugin.Spec.NodeHooks[i].FailureStrategy == "" {
			found = append(found, findingf(specPath.Child(nodeHooks).Index(i).Child("failureStrategy"), "a node hook does not read the strategy of its plugin: this one stops the virtual machine when it fails"))
		}
	}
	return found
}

func replacedLists(l *linted) (found []finding) {
	for _, w := range l.writes {
		if w.list && !w.extends && filled(w.element) {
			found = append(found, findingf(w.at, "it replaces the list %s, which KubeVirt fills", w.element))
		}
	}
	return found
}

func notPreviewed(l *linted) (found []finding) {
	add := func(at *field.Path, s *step) {
		var part *UnpreviewableError
		if s != nil && s.err == nil && errors.As(s.program.unpreviewable, &part) {
			found = append(found, findingf(at, "%v", part))
		}
	}
	add(specPath.Child("condition"), l.condition)
	for i := range l.domainHooks {
		at := specPath.Child(domainHooks).Index(i)
		add(at.Child("condition"), l.domainHooks[i].condition)
		add(at.Child("cel", "expression"), l.domainHooks[i].expression)
		if l.plugin.Spec.DomainHooks[i].Sidecar != nil {
			found = append(found, findingf(at.Child("sidecar"), "a sidecar changes the domain when the virtual machine starts, and cannot be previewed"))
		}
	}
	return found
}

// conflicts compares the writes of a Plugin with those of the ones that KubeVirt calls before it.
func conflicts(l *linted) (found []finding) {
	reported := map[string]bool{}
	for _, other := range l.before {
		for _, mine := range l.writes {
			for _, theirs := range other.writes {
				element, clash := mine.overwrites(theirs)
				if key := other.plugin.Name + " " + element; clash && !reported[key] {
					reported[key] = true
					found = append(found, findingf(mine.at, "it overwrites %s, which the plugin %s writes before", element, other.plugin.Name))
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(a.path.String(), b.path.String()) })
	return found
}
