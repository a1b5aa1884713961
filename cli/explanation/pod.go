package explanation

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/launcher"
)

// AddPod adds the pod that KubeVirt makes of the virtual machine, or why it cannot; and what the user may not read for it.
func (e *Explanation) AddPod(pod *launcher.Result, unread []string, err error) {
	e.pod, e.podUnread, e.podError = pod, unread, err
}

// podTables has a row for each resource of a container, for each component of the memory overhead and for each demand on the
// node. Only the first has warnings and notes about the cluster.
func (e *Explanation) podTables(first bool) ([]byte, error) {
	lines := slices.Concat(e.headlines(first), e.findingLines())
	switch {
	case e.podError != nil:
		lines = append(lines, "KubeVirt cannot make a pod: "+e.podError.Error())
	case e.pod == nil:
		lines = append(lines, "KubeVirt makes no pod of it.")
	default:
		for _, assumed := range e.pod.Assumptions {
			lines = append(lines, "assumed: "+assumed)
		}
		for _, unread := range e.podUnread {
			lines = append(lines, "not read: "+unread)
		}
		for _, remark := range e.pod.Remarks {
			lines = append(lines, "remark: "+remark.Field+": "+remark.Text)
		}
	}
	var out bytes.Buffer
	for _, line := range lines {
		out.WriteString(Printable(line) + "\n")
	}
	if e.pod == nil {
		return out.Bytes(), nil
	}
	for _, rows := range [][][]string{resourceRows(e.pod), overheadRows(&e.pod.Overhead), demandRows(e.pod.Demands)} {
		out.WriteByte('\n')
		if err := printers.Rows(&out, printers.Narrow, rows); err != nil {
			return nil, fmt.Errorf("the pod of %s cannot be shown: %w", e.Object, err)
		}
	}
	return out.Bytes(), nil
}

// resourceRows lists the containers that run with the guest first, and then those that prepare it.
func resourceRows(pod *launcher.Result) [][]string {
	rows := [][]string{{"CONTAINER", "RESOURCE", "REQUEST", "LIMIT", "FIELD"}}
	fields := map[corev1.ResourceName]string{}
	for _, device := range pod.Devices {
		fields[device.Resource] = device.Field
	}
	spec := &pod.Pod.Spec
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			names := map[corev1.ResourceName]bool{}
			for name := range c.Resources.Requests {
				names[name] = true
			}
			for name := range c.Resources.Limits {
				names[name] = true
			}
			for _, name := range slices.Sorted(maps.Keys(names)) {
				rows = append(rows, []string{Printable(c.Name), Printable(string(name)), amountIn(c.Resources.Requests, name), amountIn(c.Resources.Limits, name), fields[name]})
			}
		}
	}
	return rows
}

// amountIn is the amount of a resource, or a dash.
func amountIn(list corev1.ResourceList, name corev1.ResourceName) string {
	amount, ok := list[name]
	if !ok {
		return "-"
	}
	return amount.String()
}

func overheadRows(overhead *launcher.Overhead) [][]string {
	rows := [][]string{{"MEMORY OVERHEAD", "AMOUNT", "FIELD"}}
	for i := range overhead.Components {
		c := &overhead.Components[i]
		rows = append(rows, []string{Printable(c.Title), launcher.Readable(&c.Amount), c.Field})
	}
	return append(rows, []string{"total", launcher.Readable(&overhead.Total), ""})
}

func demandRows(demands []launcher.Demand) [][]string {
	rows := [][]string{{"NODE LABEL", "DEMAND", "WHY", "FIELD", "LAYER"}}
	for i := range demands {
		d := &demands[i]
		demand := string(d.Operator)
		if d.Operator == corev1.NodeSelectorOpIn {
			demand = d.Value
		}
		if d.Preferred {
			demand += " (preferred)"
		}
		rows = append(rows, []string{Printable(d.Key), Printable(demand), d.Rule, d.Field, Printable(d.Layer)})
	}
	return rows
}
