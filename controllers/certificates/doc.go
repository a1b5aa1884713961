// Package certificates carries out what the package certificates of the core plans: it makes the CA, the serving pair
// and the token of the webhooks, keeps them in one Secret, and writes the CA bundle and the path into our two webhook
// configurations. It does the same for the aggregated API, without a token, with our two APIServices.
//
// It is a reconciler with one key, because every step of a rotation depends on all of these objects. The plan of a step is
// certificates.Next, which is pure. Nothing has a status here: the Secret and the other objects are the state.
//
// It reads and writes these objects by their names, and no other. It runs in the controller, where one replica leads. The
// process of the webhooks only reads the Secret; that of the aggregated API has the serving pair mounted.
package certificates
