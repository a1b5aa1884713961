// Package convert turns policies of other engines into VirtualMachinePolicies.
//
// What enters: the objects of some files, such as ValidatingAdmissionPolicies with their bindings and parameters, Kyverno's
// ValidatingPolicies and ClusterPolicies, and Gatekeeper's templates with their constraints. What leaves: a
// VirtualMachinePolicy for each policy and binding, each rule and each constraint, with notes at its fields, and the same as
// YAML with the notes as comments.
//
// A rule in patterns becomes CEL with the same results as in Kyverno's engine, with its order of anchors: a part fails, passes, or is
// skipped. Conditions in JMESPath become CEL with the same results, also where Kyverno has an error. What has no equivalent is a
// reason that names the field of the pattern, or the condition. A template in Rego becomes one module in Rego v1 with its libraries.
//
// A part of the original that has no equivalent is always a note, and so is a finding of package advice. An original that is not
// converted has one of Reasons. Expressions do not change, except where they read parameters, the object at deletions, or
// compare quantities as texts. The package reads no cluster, and evaluates nothing.
package convert
