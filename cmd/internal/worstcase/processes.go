package worstcase

import (
	"slices"
	"strings"

	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/apiserver"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers/audit"
	"github.com/virtward/virtward/controllers/capture"
	"github.com/virtward/virtward/controllers/export"
	"github.com/virtward/virtward/controllers/goldenimages"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/pending"
	"github.com/virtward/virtward/controllers/rollout"
	"github.com/virtward/virtward/controllers/templateexport"
	"github.com/virtward/virtward/controllers/templateimport"
	"github.com/virtward/virtward/controllers/templates"
	"github.com/virtward/virtward/controllers/variants"
	"github.com/virtward/virtward/controllers/virtualimages"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/nodes/hook"
	"github.com/virtward/virtward/nodes/labeller"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/webhooks"
	"github.com/virtward/virtward/webhooks/serving"
)

// Process is a process of the chart.
type Process struct {
	// Name is that of its Deployment.
	Name string
	// Values is the path of its values in the chart, from the table of processes; its memory limit is at resources.limits.memory below
	// it. The path is empty for the webhooks.
	Values []string
	// Bounds returns what takes memory, for the values of the process.
	Bounds func(Values) []memory.Bound
}

// Processes returns all processes, in the order of docs/memory.md.
func Processes() []Process {
	list := bounded()
	for i := range list {
		row, _ := processes.Find(list[i].Name) // a test compares both tables
		if section, nested := strings.CutSuffix(row.Resources, ".resources"); nested {
			list[i].Values = strings.Split(section, ".")
		}
	}
	return list
}

// bounded are the processes with their bounds.
func bounded() []Process {
	return []Process{
		{Name: processes.Webhook, Bounds: func(Values) []memory.Bound {
			return slices.Concat(
				idle(20<<20, "measured: 15 MB, without the binary's pages, which the kernel can reclaim"), configcache.WorstCaseOfPolicies(), configcache.WorstCaseOfCounts(), webhooks.WorstCase(), evaluator.WorstCaseOfPlugins(),
				platform.WorstCase(), configcache.WorstCaseOfNamespaces(), configcache.WorstCaseOfCatalogs(), configcache.WorstCaseOfNodes(), configcache.WorstCaseOfExceptions(), serving.WorstCase(), serving.WorstCaseOfSides(),
			)
		}},
		{Name: processes.APIServer, Bounds: func(Values) []memory.Bound {
			return slices.Concat(idle(40<<20, "measured: 32 MB, without the binary's pages"), apiserver.WorstCase())
		}},
		{Name: processes.Controller, Bounds: func(Values) []memory.Bound {
			return slices.Concat(
				idleController(), serving.WorstCaseOfSides(), configcache.WorstCaseOfPolicies(), configcache.WorstCaseOfCounts(), audit.WorstCase(), platform.WorstCase(),
				configcache.WorstCaseOfNamespaces(), configcache.WorstCaseOfNodes(), configcache.WorstCaseOfExceptions(), pages.WorstCase(),
			)
		}},
		{Name: processes.Export, Bounds: func(Values) []memory.Bound {
			return slices.Concat(idleController(), serving.WorstCaseOfSides(), configcache.WorstCaseOfPolicies(), export.WorstCase())
		}},
		{Name: processes.Templates, Bounds: func(Values) []memory.Bound {
			return slices.Concat(
				idleController(), serving.WorstCaseOfSides(), configcache.WorstCaseOfPolicies(), capture.WorstCase(), templates.WorstCase(), platform.WorstCase(), configcache.WorstCaseOfNamespaces(), pages.WorstCase(),
			)
		}},
		{Name: processes.TemplateImports, Bounds: func(Values) []memory.Bound {
			return slices.Concat(idleController(), serving.WorstCaseOfSides(), templateimport.WorstCase(), pages.WorstCase())
		}},
		{Name: processes.TemplateExports, Bounds: func(Values) []memory.Bound {
			return slices.Concat(idleController(), serving.WorstCaseOfSides(), templateexport.WorstCase(), pages.WorstCase())
		}},
		{Name: processes.Rollouts, Bounds: func(Values) []memory.Bound {
			return slices.Concat(
				idleController(), serving.WorstCaseOfSides(), configcache.WorstCaseOfPolicies(), pending.WorstCase(), rollout.WorstCase(), platform.WorstCase(),
				configcache.WorstCaseOfNamespaces(), configcache.WorstCaseOfExceptions(), pages.WorstCase(),
			)
		}},
		{Name: processes.Images, Bounds: func(Values) []memory.Bound {
			return slices.Concat(idleController(), serving.WorstCaseOfSides(), goldenimages.WorstCase(), variants.WorstCase(), pages.WorstCase())
		}},
		{Name: processes.VirtualImages, Bounds: func(v Values) []memory.Bound {
			return slices.Concat(idleController(), serving.WorstCaseOfSides(), virtualimages.WorstCase(v.Limits.Imports), pages.WorstCase())
		}},
		{Name: processes.NodeLabeller, Bounds: func(Values) []memory.Bound {
			return slices.Concat(idle(20<<20, "measured: 14 MB, without the binary's pages"), serving.WorstCaseOfSides(), labeller.WorstCase())
		}},
		{Name: processes.NodeTuner, Bounds: func(Values) []memory.Bound {
			return slices.Concat(idle(18<<20, "measured: 12 MB, without the binary's pages"), serving.WorstCaseOfSides(), hook.WorstCase())
		}},
	}
}

// idle is the memory of a process without requests, in bytes.
func idle(bytes int64, reason string) []memory.Bound {
	return []memory.Bound{{Name: "idle", Subject: "idle process", Bytes: bytes, Reason: reason}}
}

func idleController() []memory.Bound {
	return idle(30<<20, "of the Go runtime and the objects created at the start")
}
