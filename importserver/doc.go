// Package importserver serves the disks of a package of OVF or of an OCI artifact to CDI, as files of their own, and the archive of a claim
// to Virtward's controller.
//
// Input: a plan of package ovf/transfer, which names the places of the disks, and requests with the token of the plan. Output: the bytes
// of each disk from the web server, the volume or the registry that has it, and a status. No disk is stored: the bytes flow through two blocks
// of memory for each answer.
//
// The header of an image is inspected before its first byte is served, and each later answer is compared with what was inspected. The
// digests of the plan are calculated while an answer has all bytes of a part, whose last block waits for the result. CDI restarts a
// transfer that breaks, so the server continues broken connections to its source itself, as long as the file is the same one.
//
// The package never lists what it serves, and never reads anything that the plan does not name.
package importserver
