// Package killswitch switches Virtward off and on at the API server, and reports what is on.
//
// What enters: a client with the rights of an admin. What leaves: one more match condition, which never holds, on every
// webhook and admission policy of Virtward, and an annotation that says who added it, when and why. It needs no running
// part of Virtward, changes nothing else, and deletes nothing.
package killswitch
