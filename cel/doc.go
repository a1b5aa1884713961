// Package cel is the language of policies: CEL as Kubernetes has it, typed by KubeVirt's schemas.
//
// What enters: expressions, and Documents, which are the objects, facts and requests that one evaluation sees, as
// the typed values that the rest of Virtward works with. What leaves: a Program, or Issues with line, column and
// what may have been meant; and of a Program its result, or an Error that says why there is none. The package
// never reads a cluster, has no clock, and lets no expression run long: each has a limit of cost, and those of
// one policy share a Budget.
//
// An expression knows the names that ValidatingAdmissionPolicies know, and those that only Virtward can fill:
//
//	object           the object of the request, as its author wrote it; typed if the policy matches one kind
//	oldObject        the object before an update, null otherwise
//	vm               the VM as it will run: metadata and spec, everything expanded and completed
//	provenance       which layer set a field of vm: provenance['spec.domain.machine.type'] == 'base'
//	platform         hypervisor, hypervisorDevice, architecture (the VM's), defaultArchitecture, featureGates, kubeVirtUsers
//	instancetype     the spec of the VM's instancetype; null without one
//	preference       the spec of the VM's preference; null without one
//	request          operation, kind, resource, name, namespace, userInfo, dryRun
//	requester        the name of the requester, also if an account of Virtward acts for them
//	rollout          what an update of a running VM changes: restart, migration, never, unknown
//	namespaceObject  the namespace: its metadata; null if unknown
//	params           the parameters of the policy
//	variables        the policy's own, each evaluated when it is first read
//	authorizer       checks the permissions of the requester
//
// Functions are those of Kubernetes: strings, lists, sets, regular expressions, quantities, addresses, versions,
// URLs, formats, optional values, comprehensions of two variables. virtward.image, virtward.isImage, virtward.url and
// virtward.isURL are Virtward's: see package addresses.
//
// # Values
//
// A typed object reads as its JSON form does. Quantities are strings in canonical form, whatever was written:
// quantity(vm.spec.domain.memory.guest).isGreaterThan(quantity('8Gi')) is how they are compared. Times are strings
// of RFC 3339, for timestamp(); bytes are in base64. A value that is an integer or a string, such as a port, has no
// type. A field that is null is absent; an empty struct, such as resources: {}, is absent for has(), and
// empty if it is read. Maps are read in the order of their keys, so the same input gives the same messages.
package cel
