package references

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCNI(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		types  []string
		vlans  []int64
		err    string
	}{
		"nothing":            {config: " \n", types: []string{}, vlans: []int64{}},
		"a plugin":           {config: `{"type":"bridge","vlan":100}`, types: []string{"bridge"}, vlans: []int64{100}},
		"without a VLAN":     {config: `{"type":"bridge","vlan":0}`, types: []string{"bridge"}, vlans: []int64{}},
		"a list":             {config: `{"plugins":[{"type":"bridge","vlan":7},{"type":"tuning"}]}`, types: []string{"bridge", "tuning"}, vlans: []int64{7}},
		"OVN":                {config: `{"type":"ovn-k8s-cni-overlay","vlanID":9}`, types: []string{"ovn-k8s-cni-overlay"}, vlans: []int64{9}},
		"other case":         {config: `{"TYPE":"bridge","vlan":5,"VLAN":6}`, types: []string{"bridge"}, vlans: []int64{5, 6}},
		"a list and more":    {config: `{"type":"bridge","vlan":3,"Plugins":[{"vlan":4}]}`, types: []string{"bridge"}, vlans: []int64{3, 4}},
		"a trunk":            {config: `{"type":"bridge","vlanTrunk":[{"id":3},{"minID":10,"maxID":12}]}`, types: []string{"bridge"}, vlans: []int64{3, 10, 11, 12}},
		"a trunk of OVS":     {config: `{"type":"ovs","trunk":[{"id":3},{"minID":3,"maxID":4}]}`, types: []string{"ovs"}, vlans: []int64{3, 4}},
		"no JSON":            {config: `vlan: 3`, err: "it is not a JSON object"},
		"a list of plugins":  {config: `[{"vlan":3}]`, err: "it is not a JSON object"},
		"a text":             {config: `{"vlan":"3"}`, err: "a VLAN is not a number from 0 to 4094"},
		"half a VLAN":        {config: `{"vlan":3.5}`, err: "a VLAN is not a number from 0 to 4094"},
		"too high":           {config: `{"vlan":4095}`, err: "a VLAN is not a number from 0 to 4094"},
		"negative":           {config: `{"vlan":-1}`, err: "a VLAN is not a number from 0 to 4094"},
		"a plugin of text":   {config: `{"plugins":["bridge"]}`, err: "a plugin is not a JSON object"},
		"an open trunk":      {config: `{"vlanTrunk":[{"minID":3}]}`, err: "an element of a trunk names no VLANs"},
		"an unknown trunk":   {config: `{"vlanTrunk":[{}]}`, err: "an element of a trunk names no VLANs"},
		"a trunk of numbers": {config: `{"vlanTrunk":[3]}`, err: "an element of a trunk is not a JSON object"},
		"a long trunk":       {config: `{"vlanTrunk":[` + strings.Repeat(`{"minID":0,"maxID":4094},`, 3) + `{"id":1}]}`, err: "a trunk names too many VLANs"},
		"many values":        {config: `{"plugins":[` + strings.Repeat(`{},`, 600) + `{}]}`, err: "it has too many values"},
	} {
		t.Run(name, func(t *testing.T) {
			types, vlans, err := cniOf(c.config)
			if err != nil {
				if err.Error() != c.err {
					t.Errorf("the error is %q, not %q", err, c.err)
				}
				return
			}
			if c.err != "" {
				t.Fatalf("no error, but %v %v", types, vlans)
			}
			if diff := cmp.Diff([]any{c.types, c.vlans}, []any{types, vlans}); diff != "" {
				t.Errorf("types and VLANs (-want +got):\n%s", diff)
			}
		})
	}
}
