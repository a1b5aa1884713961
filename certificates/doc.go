// Package certificates plans what the webhooks are called with: a CA, a serving pair under it, and the token in the
// paths.
//
// What enters: the data of the Secret that holds them, and the time. What leaves: what must be made again, and what the
// webhook configurations must say. Nothing that is replaced is trusted less before its successor is in use, so a
// rotation costs no call. The package makes nothing, reads nothing and has no clock.
package certificates
