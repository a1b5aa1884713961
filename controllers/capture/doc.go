// Package capture makes VirtualMachineTemplates of VirtualMachines, as VirtualMachineTemplateRequests ask for.
//
// What enters: a request, the snapshot of its VirtualMachine and the clones of the snapshot's volumes, all read live. What
// leaves: these objects, the template that owns the clones, and the status of the request. Each reconciliation observes,
// plans and applies; the plan depends on what exists and on nothing else, so a new process continues where another ended.
//
// The package never adopts an object: a name that is taken ends the capture. It reads no Secrets.
package capture
