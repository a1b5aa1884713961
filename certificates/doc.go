// Package certificates plans the rotation of the webhooks' CA, of their serving certificate, and of the token in their
// paths.
//
// Input: the data of the Secret with them, and the time. Output: what to create again, and the contents of the webhook
// configurations. The old ones stay valid until the new ones are in use everywhere, so no call fails during a rotation.
//
// The package creates and reads nothing, and has no clock.
package certificates
