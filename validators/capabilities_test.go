package validators

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/platform"
)

// tpm is a capability that no shared table knows.
func tpm() Capability {
	return Capability{Name: "tpm", Title: "A TPM", Uses: func(s *Subject) []Use {
		if s.Spec.Domain.Devices.TPM == nil {
			return nil
		}
		return []Use{{Path: s.Devices().Child("tpm"), Value: field.OmitValueType{}}}
	}}
}

func tpmSupport(level Level) Support {
	line := Support{
		Hypervisor: "sample", Capability: tpm(), Level: level, Rule: "sample-tpm", Title: "No TPM on sample", Remedy: "Remove devices.tpm.",
		Detail: "sample has no TPM", Source: "a test",
	}
	if level == Experimental {
		line.Gate = "VSOCK"
	}
	return line
}

func TestBaseSupportIsValid(t *testing.T) {
	if err := BaseSupport().Validate(); err != nil {
		t.Error(err)
	}
}

func TestLevels(t *testing.T) {
	const open = `{"developerConfiguration":{"featureGates":["VSOCK"]}}`
	for _, tc := range []struct {
		level               Level
		spec, configuration string
		severity            Severity
		want                []string
	}{
		{level: Unsupported, spec: `{}`},
		{
			level: Unsupported, spec: `{"domain":{"devices":{"tpm":{}}}}`, severity: Deny,
			want: []string{`sample-tpm: spec.domain.devices.tpm: Unsupported value: sample has no TPM`},
		},
		{
			level: Deprecated, spec: `{"domain":{"devices":{"tpm":{}}}}`, severity: Warn,
			want: []string{`sample-tpm: spec.domain.devices.tpm: Invalid value: sample has no TPM`},
		},
		{
			level: Experimental, spec: `{"domain":{"devices":{"tpm":{}}}}`, severity: Deny,
			want: []string{`sample-tpm: spec.domain.devices.tpm: Invalid value: sample has no TPM: it needs KubeVirt's feature gate VSOCK, which is off in this cluster`},
		},
		{level: Experimental, spec: `{"domain":{"devices":{"tpm":{}}}}`, configuration: open},
		{level: Experimental, spec: `{}`},
	} {
		rules, err := Join(SupportTable{tpmSupport(tc.level)}.Rules())
		if err != nil {
			t.Fatal(err)
		}
		findings := rules.Check((&ruleCase{spec: tc.spec, configuration: tc.configuration}).subject(t), OnSpec)
		if diff := cmp.Diff(tc.want, messages(findings)); diff != "" {
			t.Errorf("%s, %s: findings (-want +got):\n%s", tc.level, tc.spec, diff)
		}
		for _, f := range findings {
			if f.Severity != tc.severity || f.Remedy != "Remove devices.tpm." {
				t.Errorf("%s: severity %s, remedy %q", tc.level, f.Severity, f.Remedy)
			}
		}
	}
}

func TestSupportFor(t *testing.T) {
	line := func(hypervisor, architecture string) Support {
		return Support{Hypervisor: hypervisor, Architecture: architecture}
	}
	table := SupportTable{line("", ""), line("kvm", ""), line("mshv", ""), line("", "arm64"), line("", "amd64"), line("kvm", "arm64"), line("mshv", "arm64")}
	var got []string
	for _, s := range table.For("kvm", "arm64") {
		got = append(got, s.Platform())
	}
	if diff := cmp.Diff([]string{"any/any", "kvm/any", "any/arm64", "kvm/arm64"}, got); diff != "" {
		t.Errorf("lines of kvm/arm64 (-want +got):\n%s", diff)
	}
}

// TestRulesOfSupport: lines of one id become one rule, at the place of the first.
func TestRulesOfSupport(t *testing.T) {
	var ids []string
	for _, rule := range BaseSupport().For(platform.KVM, architectures.S390X).Rules() {
		ids = append(ids, rule.ID)
	}
	if diff := cmp.Diff([]string{"s390x-watchdog", "s390x-video", "s390x-block-size", "device-panic-architecture"}, ids); diff != "" {
		t.Errorf("rules of s390x (-want +got):\n%s", diff)
	}
}

func TestValidateSupport(t *testing.T) {
	change := func(with func(*Support)) Support {
		line := tpmSupport(Unsupported)
		with(&line)
		return line
	}
	for _, tc := range []struct {
		name  string
		lines SupportTable
		want  string
	}{
		{"valid", SupportTable{tpmSupport(Unsupported), change(func(s *Support) { s.Capability.Name = "tpm-2" })}, ""},
		{"a name", SupportTable{change(func(s *Support) { s.Capability.Name = "TPM 2" })}, `capability "TPM 2" of sample/any has a name that is not kebab-case`},
		{"no title", SupportTable{change(func(s *Support) { s.Capability.Title = "" })}, `capability "tpm" of sample/any has no title`},
		{"no level", SupportTable{change(func(s *Support) { s.Level = "maybe" })}, `capability "tpm" of sample/any has no level, but "maybe"`},
		{"no gate", SupportTable{change(func(s *Support) { s.Level = Experimental })}, `capability "tpm" of sample/any must have a feature gate if it is experimental, and only then`},
		{"a gate", SupportTable{change(func(s *Support) { s.Gate = "VSOCK" })}, `capability "tpm" of sample/any must have a feature gate if it is experimental, and only then`},
		{"no rule", SupportTable{change(func(s *Support) { s.Rule, s.Title = "", "" })}, `capability "tpm" of sample/any has no rule that checks it`},
		{"no id", SupportTable{change(func(s *Support) { s.Rule, s.Level, s.Gate = "", Experimental, "VSOCK" })}, `capability "tpm" of sample/any has the title of a rule, but no id`},
		{"no remedy", SupportTable{change(func(s *Support) { s.Remedy = "" })}, `capability "tpm" of sample/any makes a rule without a remedy`},
		{"no uses", SupportTable{change(func(s *Support) { s.Capability.Uses = nil })}, `capability "tpm" of sample/any makes a rule, but does not say where a spec uses it`},
		{"no detail", SupportTable{change(func(s *Support) { s.Detail = "" })}, `capability "tpm" of sample/any says nothing in detail`},
		{"no source", SupportTable{change(func(s *Support) { s.Source = "" })}, `capability "tpm" of sample/any has no source`},
		{"twice", SupportTable{tpmSupport(Unsupported), tpmSupport(Unsupported)}, `capability "tpm" of sample/any is listed twice`},
		{
			"two titles",
			SupportTable{tpmSupport(Unsupported), change(func(s *Support) { s.Hypervisor, s.Rule, s.Capability.Title = "other", "other-tpm", "Another" })},
			`capability "tpm" of other/any has the title "Another", and elsewhere "A TPM"`,
		},
		{
			"two rules",
			SupportTable{tpmSupport(Unsupported), change(func(s *Support) { s.Capability.Name, s.Remedy = "tpm-2", "Another." })},
			`capability "tpm-2" of sample/any makes another rule sample-tpm than "tpm" of sample/any`,
		},
		{
			"two platforms",
			SupportTable{tpmSupport(Unsupported), change(func(s *Support) { s.Architecture = "arm64" })},
			`capability "tpm" of sample/arm64 makes another rule sample-tpm than "tpm" of sample/any`,
		},
		{
			"everything",
			SupportTable{{}},
			`capability "" of any/any has a name that is not kebab-case
capability "" of any/any has no title
capability "" of any/any has no level, but ""
capability "" of any/any has no rule that checks it
capability "" of any/any says nothing in detail
capability "" of any/any has no source`,
		},
	} {
		got := ""
		if err := tc.lines.Validate(); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: error (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestLinesOfSharedRules holds each line that a shared rule checks against that rule: it speaks up where the
// capability is used, and for what is experimental while the gate is off only.
func TestLinesOfSharedRules(t *testing.T) {
	const claims = `"resourceClaims":[{"name":"c","resourceClaimName":"r"}]`
	const grace = `"architecture":"arm64","domain":{"cpu":{"dedicatedCpuPlacement":true},"machine":{"type":"virt"},"devices":{"gpus":[{"name":"g","deviceName":"nvidia.com/GB200"}]}}`
	const permitted = `"permittedHostDevices":{"pciHostDevices":[{"pciVendorSelector":"10DE:2941","resourceName":"nvidia.com/GB200"}]}`
	uses := map[string]ruleCase{
		"vsock":                   {spec: `{"domain":{"devices":{"autoattachVSOCK":true}}}`},
		"downward-metrics-device": {spec: `{"domain":{"devices":{"downwardMetrics":{}}}}`},
		"downward-metrics-volume": {spec: `{"volumes":[{"name":"v","downwardMetrics":{}}]}`},
		"reboot-policy":           {spec: `{"domain":{"rebootPolicy":"Terminate"}}`},
		"host-devices":            {spec: `{"domain":{"devices":{"hostDevices":[{"name":"h","deviceName":"vendor/h"}]}}}`},
		"dra-gpus":                {spec: `{"domain":{"devices":{"gpus":[{"name":"g","claimName":"c","requestName":"q"}]}},` + claims + `}`},
		"dra-host-devices":        {spec: `{"domain":{"devices":{"hostDevices":[{"name":"h","claimName":"c","requestName":"q"}]}},` + claims + `}`},
		"dra-networks":            {spec: `{"networks":[{"name":"n","resourceClaim":{"claimName":"c","requestName":"q"}}],` + claims + `}`},
		"reserved-overhead":       {spec: `{"domain":{"memory":{"reservedOverhead":{}}}}`},
		"host-disk":               {spec: `{"volumes":[{"name":"v","hostDisk":{"path":"/disk.img","type":"Disk"}}]}`},
		"container-path":          {spec: `{"volumes":[{"name":"v","containerPath":{"path":"/data"}}]}`},
		"storage-filesystems":     {spec: `{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}],"domain":{"devices":{"filesystems":[{"name":"v","virtiofs":{}}]}}}`},
		"empty-cdrom":             {spec: `{"domain":{"devices":{"disks":[{"name":"d","cdrom":{}}]}}}`},
		"passt-binding":           {spec: `{"networks":[{"name":"n","pod":{}}],"domain":{"devices":{"interfaces":[{"name":"n","passtBinding":{}}]}}}`},
		"port-ranges":             {spec: `{"networks":[{"name":"n","pod":{}}],"domain":{"devices":{"interfaces":[{"name":"n","masquerade":{},"portRanges":[{"start":1,"end":2}]}]}}}`},
		"ignition":                {vmi: `{"metadata":{"annotations":{"kubevirt.io/ignitiondata":"{}"}}}`},
		"sidecars":                {vmi: `{"metadata":{"annotations":{"hooks.kubevirt.io/hookSidecars":"[]"}}}`},
		"wait-as-receiver":        {vm: `{"spec":{"runStrategy":"WaitAsReceiver","template":{"spec":{"domain":{}}}}}`},
		"sev":                     {spec: `{"architecture":"amd64","domain":{"launchSecurity":{"sev":{}}}}`},
		"sev-snp":                 {spec: `{"architecture":"amd64","domain":{"launchSecurity":{"snp":{}}}}`},
		"tdx":                     {spec: `{"architecture":"amd64","domain":{"launchSecurity":{"tdx":{}}}}`},
		"grace-gpus":              {spec: `{` + grace + `}`, configuration: permitted},
		"binding-slirp":           {spec: `{"domain":{"devices":{"interfaces":[{"name":"n","slirp":{}}]}}}`},
		"binding-macvtap":         {spec: `{"domain":{"devices":{"interfaces":[{"name":"n","macvtap":{}}]}}}`},
		"binding-passt":           {spec: `{"domain":{"devices":{"interfaces":[{"name":"n","passt":{}}]}}}`},
		"memory-hotplug":          {vm: `{"spec":{"template":{"spec":{"architecture":"arm64","domain":{"memory":{"guest":"1Gi","maxGuest":"4Gi"}}}}}}`},
	}
	base, err := Base()
	if err != nil {
		t.Fatal(err)
	}
	unseen := maps.Clone(uses)
	for _, line := range BaseSupport() {
		if line.Title != "" {
			continue
		}
		tc, known := uses[line.Capability.Name]
		delete(unseen, line.Capability.Name)
		if !known {
			t.Errorf("no case uses %s", line.Capability.Name)
			continue
		}
		findings := func(switched string) []Finding {
			configured := tc
			configured.configuration = gates(switched, line.Gate, tc.configuration)
			return slices.DeleteFunc(base.Check(configured.subject(t), OnSpec|OnVM), func(f Finding) bool { return f.Rule != line.Rule })
		}
		off := findings("disabledFeatureGates")
		if len(off) == 0 {
			t.Errorf("%s: %s says nothing of it", line.Capability.Name, line.Rule)
		}
		if line.Level != Experimental {
			continue
		}
		for _, f := range off {
			if !strings.Contains(f.Error.Detail, line.Gate) {
				t.Errorf("%s: %s does not name the gate %s: %s", line.Capability.Name, line.Rule, line.Gate, f.Error)
			}
		}
		if on := findings("featureGates"); len(on) != 0 {
			t.Errorf("%s: with the gate %s on, %s says %v", line.Capability.Name, line.Gate, line.Rule, messages(on))
		}
	}
	for name := range unseen {
		t.Errorf("a case uses %s, which no line lists", name)
	}
}

// gates is a configuration that switches one.
func gates(switched, gate, more string) string {
	if gate == "" {
		return ""
	}
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"developerConfiguration":{%q:[%q]}%s}`, switched, gate, more)
}
