// Package mutators completes a virtual machine: it fills the fields that its author left out, in layers.
//
// What enters: a VMI spec (or a VM, or a whole VMI) and the platform's Facts. What leaves: the same object
// with its zero fields filled, and a Recorder that knows which layer filled which field with what.
//
// A layer is an ordered table of steps. For each pair of hypervisor and architecture the layers base,
// hypervisor, architecture and hypervisor/architecture are merged once, when the program
// starts: a step of a more specific layer replaces the step of the same name below it, so every
// field has exactly one writer. They are evaluated in that order; the finalize steps, which derive values
// from all the others, come last. This is the DefaultsProvider of VEP 97, with its base implementation and
// its replaceable setters.
//
// Before them come the layers of the site, one for each VirtualMachineDefaults that selects the virtual machine: see
// FillSite. They are the admin's, so that each of them may write any field, and the first one that does so wins.
//
// The package never overwrites a field that has a value, never draws random identities (firmware UUID,
// serial: KubeVirt does), and never reads a cluster, a clock or an environment.
package mutators
