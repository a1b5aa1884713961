// Package mutators completes a virtual machine: it fills the fields that its author left out, in layers.
//
// What enters: a VMI spec (or a VM, or a whole VMI) and the platform's Facts. What leaves: the same object
// with its zero fields filled, and a Recorder with the layer and the value of each filled field.
//
// A layer is an ordered table of steps. For each pair of hypervisor and architecture the layers base,
// hypervisor, architecture and hypervisor/architecture are merged once, when the program
// starts: a step of a more specific layer replaces the step of the same name below it, so every
// field has exactly one writer. They are evaluated in that order; the finalize steps, which derive values
// from all the others, come last. This is the DefaultsProvider of VEP 97, with its base implementation and
// its replaceable setters.
//
// The layers of the site precede them, one for each VirtualMachineDefaults that selects the virtual machine: see FillSite.
// The admin writes them, so each may set any field. The first one that sets a field has precedence.
//
// The package never overwrites a field that has a value, never draws random identities (firmware UUID,
// serial: KubeVirt does), and never reads a cluster, a clock or an environment.
package mutators
