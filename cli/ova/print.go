package ova

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/texts"
)

// printAppliance prints what a package is, for people.
func printAppliance(w io.Writer, a *appliance.Appliance) error {
	rows := [][]string{{"Verdict:", a.Verdict}, {"Package:", packageText(&a.Package)}}
	if m := a.Package.Manifest; m != nil {
		state := "not verified"
		if m.Verified {
			state = "verified"
		}
		rows = append(rows, []string{"Manifest:", m.Algorithm + ", " + state})
	}
	if c := a.Package.Certificate; c != nil {
		state := "not verified"
		if c.Verified {
			state = "verified, " + c.Signer
		}
		rows = append(rows, []string{"Signature:", state})
	}
	if s := a.VirtualSystem; s != nil {
		rows = append(rows, systemRows(s)...)
	}
	if len(a.Needs) > 0 {
		rows = append(rows, []string{"Needs:", strings.Join(a.Needs, ", ")})
	}
	for i := range rows {
		rows[i][1] = texts.OneLine(rows[i][1])
	}
	if err := printers.Rows(w, printers.Narrow, rows); err != nil {
		return err
	}
	var out bytes.Buffer
	list := func(title string, n int, line func(int) string) {
		if n > 0 {
			fmt.Fprintln(&out, "\n"+title+":")
		}
		for i := range n {
			fmt.Fprintln(&out, "  "+texts.OneLine(line(i)))
		}
	}
	if a.VirtualSystem == nil {
		list("Virtual systems", len(a.Choices.VirtualSystems), func(i int) string {
			return strings.TrimSpace(a.Choices.VirtualSystems[i].ID + " " + a.Choices.VirtualSystems[i].Name)
		})
	}
	list("Deployment options", len(a.Choices.DeploymentOptions), func(i int) string {
		o := &a.Choices.DeploymentOptions[i]
		return strings.TrimSpace(o.ID + " " + o.Label)
	})
	list("Rejections", len(a.Rejections), func(i int) string { return string(a.Rejections[i].Reason) + ": " + a.Rejections[i].Error() })
	list("Warnings", len(a.Warnings), func(i int) string {
		return fmt.Sprintf("%s: %s: %s", a.Warnings[i].Code, a.Warnings[i].Element, a.Warnings[i].Message)
	})
	_, err := w.Write(out.Bytes())
	return err
}

func packageText(p *appliance.Package) string {
	if p.OVFVersion == "" {
		return p.Format
	}
	return fmt.Sprintf("%s, OVF %s, producer %s", p.Format, p.OVFVersion, p.Producer)
}

func systemRows(s *ovf.System) [][]string {
	rows := [][]string{{"Name:", s.Name}, {"Preference:", s.OS.Preference}}
	if s.CPU != nil {
		rows = append(rows, []string{"CPU:", fmt.Sprintf("%s, %s each", texts.Count(s.CPU.Sockets, "socket", "sockets"), texts.Count(s.CPU.CoresPerSocket, "core", "cores"))})
	}
	if s.MemoryMiB > 0 {
		rows = append(rows, []string{"Memory:", fmt.Sprintf("%d MiB", s.MemoryMiB)})
	}
	rows = append(rows, []string{"Firmware:", s.Firmware})
	for i := range s.Disks {
		d := &s.Disks[i]
		name, image := d.Href, d.Image
		if d.Blank {
			name, image = "blank", "no image"
		} else if image == "" {
			image = "image not read"
		}
		rows = append(rows, []string{"Disk:", fmt.Sprintf("%s, %d bytes, %s, bus %s", name, d.CapacityBytes, image, d.Bus)})
	}
	for _, c := range s.CDROMs {
		rows = append(rows, []string{"CD-ROM:", c.Href})
	}
	for i := range s.NICs {
		rows = append(rows, []string{"Network:", fmt.Sprintf("%s, model %s", s.NICs[i].Network, s.NICs[i].Model)})
	}
	return rows
}
