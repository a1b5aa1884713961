// Package template has the commands about VM templates: process, parameters, list, create, import, export,
// approve, revoke and convert.
//
// Its input is templates, from files or from the cluster, and values for their parameters. Its output is
// VirtualMachines and templates as YAML or JSON, and the disks of local appliances, which it uploads. Rendering is that
// of package templates, or of the cluster's API.
package template
