// Package forwards connects to ports of pods through the API server, as kubectl port-forward does.
//
// Input: the configuration of a client, and the Service of the pod. Output: a function that dials. A connection that breaks is not mended:
// the next one finds the pod again, and connects again. Others on this machine can connect to the same port meanwhile, so what listens there
// must require a token.
package forwards
