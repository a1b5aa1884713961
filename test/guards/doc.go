// Package guards runs the cases of cel/guards on a real API server: every request of the table, on each
// definition of the KubeVirt resource that it names, with the answer and the warnings compared to the letter.
//
// It never judges anything itself: what is tested is the API server with our policies in it.
package guards
