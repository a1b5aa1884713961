// Package audit is the command audit: it evaluates all virtual machines again, and shows what would change under other
// policies.
//
// Its input is manifests or a cluster, and what to assume. Its output is a report; package comparison writes it. It
// changes nothing in the cluster.
package audit
