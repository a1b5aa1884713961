// Package virtualimages plans the life of a VirtualImage: its import, its attempts, its use by virtual machines, and its
// deletion (design document "VirtualImage" of KupenStack).
//
// Input: the VirtualImage, what its backend observes, and the virtual machines that use it. Output: the next action and the
// status. The package also identifies images in backends, reads the headers of disk formats, and finds the images that a
// virtual machine refers to. It is pure. No input makes it panic, and its output is bounded.
package virtualimages
