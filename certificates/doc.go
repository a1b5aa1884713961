// Package certificates plans the rotation of a server's CA, of its serving certificate, and of the token in the paths of
// webhooks. The servers are that of the webhooks and that of the aggregated API.
//
// Input: the data of the Secret with them, and the time. Output: what to create again, and the contents of the webhook
// configurations. The old ones stay valid until the new ones are in use everywhere, so no call fails during a rotation.
//
// The package creates and reads nothing, and has no clock.
package certificates
