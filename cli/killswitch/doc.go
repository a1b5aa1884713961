// Package killswitch has the commands disable and enable: they switch Virtward off and on at the API server. The command status
// reads from here what is on.
//
// Its input is a client with the rights of an admin. Its output is one more match condition, which never holds, on every
// webhook and admission policy of Virtward but those of admissionpolicies.StayActive, and an annotation with the user, the time
// and the reason. APIServices that do not answer are removed, recorded in an annotation, and created again. It needs no running part of
// Virtward, and changes nothing else.
package killswitch
