// Package killswitch has the commands disable, enable and status: they switch Virtward off and on at the API server, and
// report what is on.
//
// Its input is a client with the rights of an admin. Its output is one more match condition, which never holds, on every
// webhook and admission policy of Virtward but those of admissionpolicies.StayActive, and an annotation with the user, the time
// and the reason. It needs no running part of Virtward, changes nothing else, and deletes nothing.
package killswitch
