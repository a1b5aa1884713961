// Package policycounts counts the evaluations of policies in one process, and serves the counts.
//
// Input: the outcomes of evaluations (policies.Recorder). Output: a Report, as a value and over HTTP. A Report has counts by
// expression and reason. It never has objects, names of objects or namespaces, values, or texts of errors, because
// statuses of policies are readable by all users. The package writes nothing in the cluster.
package policycounts
