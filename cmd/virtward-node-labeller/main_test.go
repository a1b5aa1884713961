package main

import (
	"strings"
	"testing"
)

// TestForm holds that the device and the domain type of a hypervisor can be replaced, as VEP 97's node labeller does.
func TestForm(t *testing.T) {
	for _, tc := range []struct {
		options      options
		device, kind string
		fails        string
	}{
		{options{hypervisor: "mshv"}, "devices.kubevirt.io/mshv", "hyperv", ""},
		{options{hypervisor: "mshv", device: "example.org/mshv", virtType: "other"}, "example.org/mshv", "other", ""},
		{options{virtType: "hyperv"}, "", "", "--virt-type and --hypervisor-device need --hypervisor"},
		{options{hypervisor: "xen"}, "", "", `--hypervisor: unknown hypervisor "xen"`},
		{options{}, "", "", ""},
	} {
		forms, err := tc.options.form()
		switch {
		case tc.fails != "":
			if err == nil || !strings.HasPrefix(err.Error(), tc.fails) {
				t.Errorf("%+v: error %v", tc.options, err)
			}
		case err != nil:
			t.Errorf("%+v: error %v", tc.options, err)
		case tc.device == "" && len(forms) > 0, tc.device != "" && (len(forms) != 1 || forms[0].Device != tc.device || forms[0].VirtType != tc.kind):
			t.Errorf("%+v: %+v", tc.options, forms)
		}
	}
}
