// Package volumes opens the OVA in a claim that is mounted in this pod.
//
// Input: the folder or the device of a plan. Output: the file, whose content does not change while it is read, with a tag that identifies
// its version; or why there is none. Who writes the claim chooses its content: no link is followed, nothing outside of the claim is opened,
// and neither are pipes and devices in it. The package writes nothing.
package volumes
