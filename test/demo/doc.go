// Demo shows Virtward at work on a real API server: `make demo`.
//
// Input: the repository with its binaries built, and DEMO=once to end after the last chapter. Output: the chapters on
// standard output, with the commands of users, and an exit code. Each chapter verifies what it shows, and a failure ends
// the demo. At the end, the demo deletes everything that it created.
//
// kubectl, Helm, the API server, the chart, RBAC and virtward are the real ones. The demo names the parts of KubeVirt that
// it simulates.
package main
