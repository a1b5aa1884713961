// Package restorecheck is the command restore-check: it compares the approvals of templates and the exceptions of policies in a backup
// with what a cluster has after a restore, and approves the templates that the user names.
//
// Its input is a backup, as a folder or an archive of manifests, and a cluster. The functions compareTemplate and compareException are
// pure. The command writes nothing of the archive to the disk, and follows no link. Whether a template is approved now is the answer of
// Virtward's API server: nothing that is stored in an object of the cluster counts. The digest of a template is always computed from its
// spec.
package restorecheck
