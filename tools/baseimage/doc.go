// Command baseimage serves a base image to the command that it runs, so that images can be built on a machine
// without a container daemon and without any registry:
//
//	baseimage -dir .. -- ko build ./cmd/virtward
//
// What enters: a command. What leaves: the command's exit code. While the command runs, a registry on
// loopback holds one image for each platform: a root file system with nothing in it but a user without
// rights and a folder for temporary files. The command finds its name in KO_DEFAULTBASEIMAGE. It never talks
// to another registry, and writes nothing to the disk.
package main
