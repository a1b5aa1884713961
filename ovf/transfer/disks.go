package transfer

import "github.com/virtward/virtward/ovf/appliance"

// Disks returns the disks of a package that was inspected, in the order of its Files. The function returns the index in Files of the
// plan for a file of the package: 0 for all of an OVA, and that of the file of a name beside a descriptor. Where two disks of a virtual
// system have one file, there is one disk here, whose Name is the href of both.
func Disks(found *appliance.Appliance, file func(name string) int) []Disk {
	list := make([]Disk, 0, len(found.Files))
	for i := range found.Files {
		f := &found.Files[i]
		d := Disk{Name: f.Href, Compression: f.Compression, Format: f.Format, MaxContent: f.MaxContent, Parts: make([]Part, len(f.Parts))}
		for j, p := range f.Parts {
			d.Parts[j] = Part{File: file(p.Name), Offset: p.Offset, Size: p.Size, Digest: p.Digest}
		}
		list = append(list, d)
	}
	return list
}
