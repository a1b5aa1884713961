// Package ownership keeps Virtward from writing VM templates while another component manages them.
//
// Input: the metadata of the definitions and of the APIServices of templates. Output: who manages them, a gauge, log
// lines, and a client configuration that sends no writes while that is not Virtward. virt-operator of KubeVirt marks
// what it manages with a label.
//
// The package writes nothing. It never deletes or takes over an object: an admin decides who manages templates.
package ownership
