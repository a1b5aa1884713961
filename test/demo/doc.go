// Demo shows Virtward at work on a real API server: `make demo`.
//
// What enters: the repository with its binaries built, and DEMO=once to end after the story. What leaves: the
// story on standard output, told by the commands that a user would type, and an exit code: every chapter
// checks what it shows, and what turns out otherwise ends the demo with an error. Nothing is left on the
// machine when it ends.
//
// It never pretends: kubectl, Helm, the API server, the chart and virtward are the real ones, users have the
// rights that RBAC gives them, and what is simulated of KubeVirt is said on the screen.
package main
