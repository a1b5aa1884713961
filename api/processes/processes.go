package processes

import (
	"slices"
	"strings"
)

// Names of processes. The Deployment or the Job, the account and the Lease of a process have its name.
const (
	Webhook         = "virtward-webhook"
	Controller      = "virtward-controller"
	Export          = "virtward-export"
	APIServer       = "virtward-apiserver"
	Templates       = "virtward-templates"
	Rollouts        = "virtward-rollouts"
	Images          = "virtward-images"
	VirtualImages   = "virtward-virtualimages"
	NodeLabeller    = "virtward-node-labeller"
	NodeTuner       = "virtward-node-tuner"
	Library         = "virtward-library"
	TemplateImports = "virtward-templateimports"
	TemplateExports = "virtward-templateexports"
	Uninstall       = "virtward-uninstall"
)

// prefix is that of all names. The chart calls the rest a component.
const prefix = "virtward-"

// Process is a row of the table.
type Process struct {
	Name string
	// Purpose completes the sentence "This process …".
	Purpose string
	// Command is the command of the program virtward. It is empty for a process with a program of its own, which has its name.
	Command string
	// Job is set for a process that ends, and Daemon for one that runs on each node. The others have a Deployment.
	Job, Daemon bool
	// When says when the chart installs the process, in Markdown; "always" is for one without a condition.
	When string
	// Switch is the path of the chart's value that installs the process, and On is such a value. Switch is empty for a process that
	// is always installed.
	Switch string
	On     any
	// Resources is the path of the chart's value with the requests and the limits; empty if the chart has fixed ones.
	Resources string
	// Metrics is the path of the chart's value with the port of the metrics; empty for a process without.
	Metrics string
	// Ports are the paths of the chart's values with the ports of the process, and of its Service. Those of a group have one value where
	// the process runs beside the API server.
	Ports [][]string
	// Evaluates is set for a process that evaluates policies, so it reads what they refer to.
	Evaluates bool
}

// Component returns the name of the process in the chart's labels and templates.
func (p *Process) Component() string { return strings.TrimPrefix(p.Name, prefix) }

// background returns a process with a leader, whose section of the chart's values has the usual form.
func background(name, command, section string) Process {
	return Process{
		Name: name, Command: command, Resources: section + ".resources", Metrics: section + ".metricsPort",
		Ports: [][]string{{section + ".metricsPort"}, {section + ".healthPort"}},
	}
}

// All returns the table, in the order of the pages.
func All() []Process {
	controller := background(Controller, "controller", "controller")
	controller.Purpose = "audits existing objects, writes the statuses of policies and replaces certificates"
	controller.When, controller.Switch, controller.On = "unless `controller.enabled` is `false`", "controller.enabled", true
	controller.Evaluates = true

	export := background(Export, "export", "policies.export")
	export.Purpose = "exports policies as ValidatingAdmissionPolicies"
	export.When, export.Switch, export.On = "with `policies.export.enabled`", "policies.export.enabled", true

	templates := background(Templates, "templates", "templates.controller")
	templates.Purpose = "captures VMs as templates and reports whether templates are ready"
	templates.When, templates.Switch, templates.On = "where Virtward serves VM templates", "templates.mode", "manage"
	templates.Evaluates = true

	rollouts := background(Rollouts, "rollouts", "rollouts")
	rollouts.Purpose = "reports pending changes of running VMs and carries out VirtualMachineRollouts"
	rollouts.When, rollouts.Switch, rollouts.On = "unless `rollouts.enabled` is `false`", "rollouts.enabled", true
	rollouts.Evaluates = true

	images := background(Images, "images", "goldenImages")
	images.Purpose = "imports golden images"
	images.When, images.Switch, images.On = "with `goldenImages.enabled`", "goldenImages.enabled", true

	virtualImages := background(VirtualImages, "virtualimages", "virtualImages")
	virtualImages.Purpose = "imports VirtualImages"
	virtualImages.When, virtualImages.Switch, virtualImages.On = "with `virtualImages.enabled`", "virtualImages.enabled", true
	virtualImages.Ports = append(virtualImages.Ports, []string{"virtualImages.copies.port", "virtualImages.copies.servicePort"})

	imports := background(TemplateImports, "templateimports", "templates.imports")
	imports.Purpose = "imports virtual appliances as VM templates"
	imports.When, imports.Switch, imports.On = "with `templates.imports.enabled`", "templates.imports.enabled", true

	exports := background(TemplateExports, "templateexports", "templates.exports")
	exports.Purpose = "exports VM templates as virtual appliances"
	exports.When, exports.Switch, exports.On = "with `templates.exports.enabled`", "templates.exports.enabled", true

	return []Process{
		{
			Name: Webhook, Command: "webhook", Purpose: "completes, validates and evaluates objects when users write them",
			When: "always", Resources: "resources", Metrics: "metrics.port", Evaluates: true,
			Ports: [][]string{
				{"webhook.port", "webhook.servicePort"},
				{"webhook.deletionsPort", "webhook.deletionsServicePort"},
				{"webhook.policyCountsPort"},
				{"metrics.port"},
				{"health.port"},
			},
		},
		{
			Name: Library, Command: "library", Job: true, Purpose: "creates the policies of the library",
			When: "in the first release with `library.policies`", Switch: "library.policies", On: map[string]any{"disk-bus-virtio": map[string]any{}},
		},
		controller,
		export,
		{
			Name: APIServer, Purpose: "serves the API of VM templates",
			When: "where Virtward serves VM templates", Switch: "templates.mode", On: "manage", Resources: "templates.server.resources",
			Ports: [][]string{{"templates.server.port", "templates.server.servicePort"}},
		},
		templates,
		imports,
		exports,
		rollouts,
		images,
		{
			Name: Uninstall, Command: "release", Job: true, Purpose: "removes finalizers before an uninstallation",
			When: "during an uninstallation",
		},
		{
			Name: NodeLabeller, Daemon: true, Purpose: "labels its node with the hypervisors and what they can do",
			When: "with `nodes.labeller.enabled`", Switch: "nodes.labeller.enabled", On: true, Resources: "nodes.labeller.resources", Metrics: "nodes.labeller.metricsPort",
			Ports: [][]string{{"nodes.labeller.metricsPort"}, {"nodes.labeller.healthPort"}},
		},
		{
			Name: NodeTuner, Daemon: true, Purpose: "tunes the processes of virtual machines on its node",
			When: "with `nodes.tuner.enabled`", Switch: "nodes.tuner.enabled", On: true, Resources: "nodes.tuner.resources", Metrics: "nodes.tuner.metricsPort",
			Ports: [][]string{{"nodes.tuner.metricsPort"}, {"nodes.tuner.healthPort"}},
		},
		virtualImages,
	}
}

// Find returns the row of a process, and whether there is one.
func Find(name string) (Process, bool) {
	all := All()
	at := slices.IndexFunc(all, func(p Process) bool { return p.Name == name })
	if at < 0 {
		return Process{}, false
	}
	return all[at], true
}

// Names returns the names of all processes, sorted.
func Names() []string {
	all := All()
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	slices.Sort(names)
	return names
}

// Enable sets the value that installs the process in values of the chart, and keeps the others.
func (p *Process) Enable(values map[string]any) {
	if p.Switch == "" {
		return
	}
	path := strings.Split(p.Switch, ".")
	for _, name := range path[:len(path)-1] {
		section, isMap := values[name].(map[string]any)
		if !isMap {
			section = map[string]any{}
			values[name] = section
		}
		values = section
	}
	values[path[len(path)-1]] = p.On
}
