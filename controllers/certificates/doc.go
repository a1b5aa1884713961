// Package certificates carries out what the package certificates of the core plans: it makes the CA, the serving pair
// and the token of the webhooks, keeps them in one Secret, and writes the CA bundle and the path into our two webhook
// configurations.
//
// It reads and writes these three objects by their names, and no other. It runs in the controller, where one replica
// leads; the process that faces the network only reads the Secret.
package certificates
