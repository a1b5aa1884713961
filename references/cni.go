package references

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/limits/decode"
)

// maxVLAN is the highest VLAN of IEEE 802.1Q.
const maxVLAN = 4094

// maxTrunk bounds the VLANs of one trunk, with repetitions.
const maxTrunk = 2 * maxVLAN

// maxCNIValues bounds the objects and lists of the configuration of a network.
const maxCNIValues = 500

// cniOf returns the types of the plugins in the configuration of a network, and all VLANs that they name, sorted. The
// plugins are written in Go, which does not distinguish upper and lower case in the names of fields, so cniOf does not either.
// Without a configuration, there are none: the plugin reads a file of the node.
func cniOf(config string) (types []string, vlans []int64, err error) {
	types, vlans = []string{}, []int64{}
	if strings.TrimSpace(config) == "" {
		return types, vlans, nil
	}
	if decode.Brackets([]byte(config)) > maxCNIValues {
		return nil, nil, errors.New("it has too many values")
	}
	var whole map[string]any
	if err := json.Unmarshal([]byte(config), &whole); err != nil {
		return nil, nil, errors.New("it is not a JSON object")
	}
	plugins := []any{whole}
	for _, list := range membersOf(whole, "plugins") {
		more, _ := list.([]any)
		plugins = append(plugins, more...)
	}
	for _, plugin := range plugins {
		fields, ok := plugin.(map[string]any)
		if !ok {
			return nil, nil, errors.New("a plugin is not a JSON object")
		}
		for _, value := range membersOf(fields, "type") {
			types = append(types, fmt.Sprint(value))
		}
		for _, name := range []string{"vlan", "vlanId"} {
			for _, value := range membersOf(fields, name) {
				vlan, err := vlanOf(value)
				if err != nil {
					return nil, nil, err
				}
				if vlan > 0 {
					vlans = append(vlans, vlan)
				}
			}
		}
		for _, trunk := range membersOf(fields, "vlanTrunk", "trunk") {
			more, err := trunkOf(trunk)
			if err != nil {
				return nil, nil, err
			}
			vlans = append(vlans, more...)
		}
	}
	slices.Sort(vlans)
	return types, slices.Compact(vlans), nil
}

// membersOf returns the values of members by their names in any case.
func membersOf(fields map[string]any, names ...string) []any {
	var found []any
	for key, value := range fields {
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, key) }) {
			found = append(found, value)
		}
	}
	return found
}

func vlanOf(value any) (int64, error) {
	number, ok := value.(float64)
	if !ok || number != float64(int64(number)) || number < 0 || number > maxVLAN {
		return 0, errors.New("a VLAN is not a number from 0 to 4094")
	}
	return int64(number), nil
}

// trunkOf returns the VLANs of a trunk: a list of id, and of minID and maxID.
func trunkOf(value any) ([]int64, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, errors.New("a trunk is not a list")
	}
	var vlans []int64
	for _, element := range list {
		fields, ok := element.(map[string]any)
		if !ok {
			return nil, errors.New("an element of a trunk is not a JSON object")
		}
		ids, from, to := membersOf(fields, "id"), membersOf(fields, "minID"), membersOf(fields, "maxID")
		if len(ids)+len(from) == 0 || len(from) != len(to) || len(from) > 1 {
			return nil, errors.New("an element of a trunk names no VLANs")
		}
		for _, id := range ids {
			vlan, err := vlanOf(id)
			if err != nil {
				return nil, err
			}
			vlans = append(vlans, vlan)
		}
		if len(from) == 0 {
			continue
		}
		first, err := vlanOf(from[0])
		if err != nil {
			return nil, err
		}
		last, err := vlanOf(to[0])
		if err != nil {
			return nil, err
		}
		for vlan := first; vlan <= last; vlan++ {
			vlans = append(vlans, vlan)
		}
		if len(vlans) > maxTrunk {
			return nil, errors.New("a trunk names too many VLANs")
		}
	}
	return vlans, nil
}

// canonical returns a quantity in canonical form; the text as it is if it is none.
func canonical(text string) string {
	if len(text) > 64 {
		return text
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return text
	}
	return quantity.String()
}

// encoded returns an object as JSON decodes it.
func encoded(object any) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}
