// Package templateapi has the tests of the aggregated API of VM templates on a real API server: with Virtward's chart
// installed by Helm, virtward-apiserver running as its Deployment says, and users with RBAC rights.
package templateapi
