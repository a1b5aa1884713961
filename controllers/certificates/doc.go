// Package certificates carries out what the package certificates of the core plans: it makes the CA, the serving pair
// and the token of the webhooks, keeps them in one Secret, and writes the CA bundle and the path into our two webhook
// configurations.
//
// It is a reconciler with one key, because every step of a rotation depends on all three objects. The plan of a step is
// certificates.Next, which is pure. Nothing has a status here: the Secret and the configurations are the state.
//
// It reads and writes these three objects by their names, and no other. It runs in the controller, where one replica
// leads; the process that faces the network only reads the Secret.
package certificates
