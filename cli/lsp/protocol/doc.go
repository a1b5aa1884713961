// Package protocol reads and writes messages of the Language Server Protocol 3.17.
//
// Its input is a stream of messages, each with a header. Its output is Messages, and streams of them. It has the types that
// the server uses, with the names of the protocol, and no others. ADR 0035 has the reasons.
package protocol
