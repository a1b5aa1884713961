package uninstall

import (
	"fmt"
	"slices"

	"github.com/virtward/virtward/texts"
)

// Choices are what the user chose.
type Choices struct {
	// DeleteDefinitions deletes the definitions of Virtward's kinds, with all objects and the keys of approvals.
	DeleteDefinitions bool
	// DeleteExports deletes the native policies of policies with exportTo.
	DeleteExports bool
	// OpenNamespaces confirms that users can create any virtual machine in approved-only namespaces afterwards.
	OpenNamespaces bool
}

// Plan is what an uninstallation does, in this order, and what it leaves.
type Plan struct {
	Release *Release `json:"release,omitempty"`
	Steps   []Step   `json:"steps"`
	Left    []Left   `json:"left"`
	// Needs are the flags without which nothing is done.
	Needs []Need `json:"needs,omitempty"`
	// Warnings are consequences for users.
	Warnings []string `json:"warnings,omitempty"`
	// Unread says what could not be read.
	Unread []string `json:"unread,omitempty"`
}

// Step is a step of an uninstallation.
type Step struct {
	Name   string  `json:"name"`
	Why    string  `json:"why"`
	Groups []Group `json:"objects"`

	do      action
	targets []Object
}

// action is what a step does with its objects.
type action int

const (
	deletes action = iota
	releases
	runsHelm
)

// Group is the objects of a kind.
type Group struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	// Names are the first of them: NAME, or NAMESPACE/NAME.
	Names []string `json:"names"`
}

// Left is what stays after an uninstallation.
type Left struct {
	Group `json:",inline"`

	Why    string `json:"why"`
	Remedy string `json:"remedy,omitempty"`
}

// Need is a flag that the user must give, and why.
type Need struct {
	Flag    string `json:"flag"`
	Message string `json:"message"`
}

// maxNames bounds the names of a group.
const maxNames = 1000

// groups counts objects by kind, in the order in which the kinds appear.
func groups(objects []Object) []Group {
	all := []Group{}
	for i := range objects {
		o := &objects[i]
		at := slices.IndexFunc(all, func(g Group) bool { return g.Kind == o.Kind })
		if at < 0 {
			at = len(all)
			all = append(all, Group{Kind: o.Kind, Names: []string{}})
		}
		if all[at].Count++; len(all[at].Names) < maxNames {
			all[at].Names = append(all[at].Names, o.title())
		}
	}
	return all
}

// stepTable are the steps, in order. Each has the objects of one class.
func stepTable(c Choices) []struct {
	class     class
	name, why string
	do        action
} {
	type row = struct {
		class     class
		name, why string
		do        action
	}
	table := []row{
		{controllers, "stop the controllers", "they would write finalizers, Reports and policies again", deletes},
		{finalized, "remove finalizers", "without Virtward, they would keep the objects and their namespaces", releases},
		{webhooks, "delete the webhooks", "without Virtward's processes, they would deny requests", deletes},
		{apiServices, "delete the APIs of VM templates", "without a server, they block the deletion of namespaces", deletes},
		{guards, "delete the guards", "the webhooks that they complement are deleted", deletes},
		{parts, "delete the parts of the installation", "nothing calls them any more", deletes},
		{roles, "delete the roles", "no account uses them any more", deletes},
		{reports, "delete Reports", "nothing keeps them up to date any more", deletes},
		{remains, "delete Leases and certificates", "Virtward's processes wrote them", deletes},
	}
	if c.DeleteExports {
		table = append(table, row{exports, "delete exported policies", "--delete-exports", deletes})
	}
	if c.DeleteDefinitions {
		table = append(table,
			row{definitions, "delete the definitions, with all objects of their kinds", "--delete-definitions", deletes},
			row{approvalKeys, "delete the keys of approvals", "the templates that they are for are deleted", deletes})
	}
	return table
}

// PlanOf returns the plan for what a cluster has. A plan without steps is one of a cluster in which nothing is to be done.
func PlanOf(i *Inventory, c Choices) *Plan {
	plan := &Plan{Release: i.Release, Steps: []Step{}, Left: []Left{}, Unread: slices.Clone(i.Unread)}
	if i.Release != nil {
		if helms := helmStep(i); len(helms.targets) > 0 {
			plan.Steps = append(plan.Steps, helms)
		}
	}
	for _, row := range stepTable(c) {
		var targets []Object
		for _, o := range i.Objects[row.class] {
			if row.do == releases || !i.helmDeletes(&o) {
				targets = append(targets, o)
			}
		}
		if row.do == releases && i.Release != nil {
			targets = nil // the Job of the release removes them
		}
		if len(targets) > 0 {
			plan.Steps = append(plan.Steps, Step{Name: row.name, Why: row.why, Groups: groups(targets), do: row.do, targets: targets})
		}
	}
	plan.consequences(i, c)
	plan.leave(i, c)
	return plan
}

// helmDeletes reports whether Helm deletes an object with the release.
func (i *Inventory) helmDeletes(o *Object) bool {
	return i.Release != nil && o.release == *i.Release && !o.helmKeeps
}

// helmStep is the uninstallation by Helm. Its targets are the objects of the release, and those whose finalizers its Job removes.
func helmStep(i *Inventory) Step {
	step := Step{
		Name: "helm uninstall " + i.Release.Name, do: runsHelm,
		Why: "its Job stops the controllers and removes finalizers, and then Helm deletes the objects of the release",
	}
	for _, c := range []class{controllers, finalized, webhooks, apiServices, guards, parts, roles, instances} {
		for _, o := range i.Objects[c] {
			if c == finalized || i.helmDeletes(&o) {
				step.targets = append(step.targets, o)
			}
		}
	}
	if len(step.targets) == 0 { // only Helm's own record is left
		step.targets = []Object{{Kind: "Release", Namespace: i.Release.Namespace, Name: i.Release.Name}}
	}
	step.Groups = groups(step.targets)
	return step
}

// consequences adds what users must know before.
func (p *Plan) consequences(i *Inventory, c Choices) {
	closed := len(i.Objects[approvedOnly])
	guarded := slices.ContainsFunc(i.Objects[guards], func(o Object) bool { return o.Name == "virtward-template-approved-only" })
	switch {
	case !guarded || c.OpenNamespaces:
	case closed > 0:
		p.Needs = append(p.Needs, Need{"--open-namespaces", fmt.Sprintf("afterwards, users who may create virtual machines can create any in %s that %s approved-only now: %s",
			texts.Count(closed, "namespace", "namespaces"), verb(closed, "is", "are"), texts.First(groups(i.Objects[approvedOnly])[0].Names, mostNamed))})
	case !i.ReadNamespaces:
		p.Needs = append(p.Needs, Need{"--open-namespaces", "you may not list namespaces, so it is not known whether some are approved-only: afterwards, users who may create virtual machines can create any there"})
	}
	images, rollouts := 0, 0
	for _, o := range i.Objects[instances] {
		switch o.Kind {
		case "VirtualImage":
			images++
		case "VirtualMachineRollout":
			rollouts++
		}
	}
	if images > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("what OpenStack stores of the %s stays in Glance: to delete it there, delete the VirtualImages first", texts.Count(images, "VirtualImage", "VirtualImages")))
	}
	if rollouts > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the %s stop: virtual machines keep the changes that they have", texts.Count(rollouts, "VirtualMachineRollout", "VirtualMachineRollouts")))
	}
	if n := len(i.Objects[exports]); n > 0 && !c.DeleteExports {
		p.Warnings = append(p.Warnings, "exported policies stay active, and nothing keeps them up to date: --delete-exports deletes them")
	}
}

// leave adds what stays.
func (p *Plan) leave(i *Inventory, c Choices) {
	add := func(objects []Object, why, remedy string) {
		for _, g := range groups(objects) {
			p.Left = append(p.Left, Left{Group: g, Why: why, Remedy: remedy})
		}
	}
	if !c.DeleteDefinitions {
		add(i.Objects[definitions], "deleting a definition deletes all of its objects", "kubectl virtward uninstall --delete-definitions")
		var kept []Object
		for _, o := range i.Objects[instances] {
			if !i.helmDeletes(&o) {
				kept = append(kept, o)
			}
		}
		add(kept, "users wrote them", "kubectl virtward uninstall --delete-definitions")
		add(i.Objects[approvalKeys], "approvals of templates count again after an installation in this namespace", "kubectl virtward uninstall --delete-definitions")
	}
	if !c.DeleteExports {
		add(i.Objects[exports], "they enforce policies without Virtward", "kubectl virtward uninstall --delete-exports")
	}
	var closed, marked []Object
	for _, o := range i.Objects[annotated] {
		if o.Kind == "Namespace" {
			closed = append(closed, o)
		} else {
			marked = append(marked, o)
		}
	}
	add(closed, "labels and annotations of virtward.io, such as approved-only, have no effect without Virtward", "")
	add(marked, "they have labels or annotations of virtward.io. CDI, KubeVirt and users use the objects", "")
	if i.Namespace != "" {
		p.Left = append(p.Left, Left{Group{Kind: "Namespace", Count: 1, Names: []string{i.Namespace}}, "it can have objects of others", "kubectl delete namespace " + i.Namespace})
	}
}

// mostNamed bounds the names of objects in a sentence.
const mostNamed = 5

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
