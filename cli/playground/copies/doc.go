// Package copies reads objects of a cluster as files of the playground.
//
// Its input is a client with the rights of the user, and a namespace. Its output is files with the virtual machines of the namespace,
// the instancetypes and preferences that they name, and the configuration of KubeVirt and of Virtward; and notes that name what is
// missing. It only reads, reads no Secret and no ConfigMap, and leaves out what can be a credential.
package copies
