// Package memory divides what a process has for requests, such as memory or processor time, among those that request it.
//
// Input: an amount, and a holder such as a namespace. Output: a function that returns the amount, or an error. Every mechanism
// is a Gate, so it is acquired and released in one way:
//
//   - Shares waits, and divides fairly among holders;
//   - Lanes are two Shares, so that small requests do not wait for large ones;
//   - Parts never waits;
//   - Queue waits, and has no holders.
//
// A Bound is the most memory that one subject takes. The package that holds the memory reports it.
//
// The package never reads the cluster, and remembers a bounded number of holders.
package memory
