package validators

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	k8sv1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/isolated"
)

// TestRulesStop holds that no list, however long, makes a rule slow or wordy. A request of 3 MB has room for 900,000
// empty strings, and for 200,000 labels; more than 5,000 objects are not decoded.
func TestRulesStop(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	const strings900k, labels200k, objects5k = 900_000, 200_000, 5_000
	many := make([]string, strings900k)
	labels := make(map[string]string, labels200k)
	for i := range labels200k {
		labels[fmt.Sprintf("!%d", i)] = "!"
	}
	expressions := func(key, operator string) *k8sv1.Affinity {
		required := &k8sv1.NodeSelector{NodeSelectorTerms: []k8sv1.NodeSelectorTerm{{}, {}}}
		for i := range required.NodeSelectorTerms {
			required.NodeSelectorTerms[i].MatchFields = []k8sv1.NodeSelectorRequirement{{Key: key, Operator: k8sv1.NodeSelectorOperator(operator), Values: many}}
			required.NodeSelectorTerms[i].MatchExpressions = required.NodeSelectorTerms[i].MatchFields
		}
		return &k8sv1.Affinity{NodeAffinity: &k8sv1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	podTerms := func(term k8sv1.PodAffinityTerm) *k8sv1.Affinity {
		required := []k8sv1.PodAffinityTerm{term, term}
		return &k8sv1.Affinity{PodAffinity: &k8sv1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}, PodAntiAffinity: &k8sv1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	oneInterface := func(n v1.Interface) v1.DomainSpec {
		n.Name, n.Masquerade = "a", &v1.InterfaceMasquerade{}
		return v1.DomainSpec{Devices: v1.Devices{Interfaces: []v1.Interface{n}}}
	}
	pod := []v1.Network{{Name: "a", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}}}
	for _, tc := range []struct {
		rule string
		spec v1.VirtualMachineInstanceSpec
		meta metav1.ObjectMeta
		// left is how many elements are left; 0 of a rule that speaks of the list as a whole.
		left int
	}{
		{rule: "dns-nameserver-address", spec: v1.VirtualMachineInstanceSpec{DNSConfig: &k8sv1.PodDNSConfig{Nameservers: many}}, left: strings900k - maxErrors},
		{rule: "dns-search-name", spec: v1.VirtualMachineInstanceSpec{DNSConfig: &k8sv1.PodDNSConfig{Searches: many}}, left: strings900k - maxErrors},
		{rule: "dns-option-name", spec: v1.VirtualMachineInstanceSpec{DNSConfig: &k8sv1.PodDNSConfig{Options: make([]k8sv1.PodDNSConfigOption, objects5k)}}, left: objects5k - maxErrors},
		{rule: "interface-ntp-servers", spec: v1.VirtualMachineInstanceSpec{Domain: oneInterface(v1.Interface{DHCPOptions: &v1.DHCPOptions{NTPServers: many}}), Networks: pod}, left: strings900k - maxErrors},
		{rule: "interface-port-number", spec: v1.VirtualMachineInstanceSpec{Domain: oneInterface(v1.Interface{Ports: make([]v1.Port, objects5k)}), Networks: pod}, left: objects5k - maxErrors},
		{rule: "metadata-template-valid", meta: metav1.ObjectMeta{Labels: labels}, left: labels200k - maxErrors/2},
		{rule: "metadata-template-valid", meta: metav1.ObjectMeta{Annotations: labels}, left: labels200k - (maxErrors - 1)},
		{rule: "metadata-template-valid", meta: metav1.ObjectMeta{Labels: labels, Annotations: labels}, left: labels200k - 50},
		{rule: "scheduling-node-selector", spec: v1.VirtualMachineInstanceSpec{NodeSelector: labels}, left: labels200k - maxErrors/2},
		{rule: "scheduling-node-fields", spec: v1.VirtualMachineInstanceSpec{Affinity: expressions("metadata.name", "In")}, left: strings900k - (maxErrors - 1)},
		{rule: "scheduling-node-expressions", spec: v1.VirtualMachineInstanceSpec{Affinity: expressions("a", "Exists")}},
		{rule: "scheduling-pod-namespaces", spec: v1.VirtualMachineInstanceSpec{Affinity: podTerms(k8sv1.PodAffinityTerm{Namespaces: many})}, left: strings900k - maxErrors},
		{rule: "scheduling-pod-selectors", spec: v1.VirtualMachineInstanceSpec{Affinity: podTerms(k8sv1.PodAffinityTerm{LabelSelector: selector, NamespaceSelector: selector})}, left: labels200k - maxErrors/2},
		{
			rule: "scheduling-pod-selectors", left: strings900k - maxErrors,
			spec: v1.VirtualMachineInstanceSpec{Affinity: podTerms(k8sv1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: slices.Repeat([]string{"!"}, strings900k)},
			}}})},
		},
		{rule: "scheduling-tolerations", spec: v1.VirtualMachineInstanceSpec{Tolerations: slices.Repeat([]k8sv1.Toleration{{Key: "!"}}, objects5k)}, left: objects5k - maxErrors},
		{rule: "scheduling-spread-unique", spec: v1.VirtualMachineInstanceSpec{TopologySpreadConstraints: make([]k8sv1.TopologySpreadConstraint, objects5k)}, left: objects5k - maxErrors - 1},
		{rule: "network-source", spec: v1.VirtualMachineInstanceSpec{Networks: make([]v1.Network, objects5k)}, left: objects5k - maxErrors},
		{rule: "network-names-unique", spec: v1.VirtualMachineInstanceSpec{Networks: make([]v1.Network, objects5k)}, left: objects5k - maxErrors - 1},
		{rule: "interface-mac", spec: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Devices: v1.Devices{Interfaces: slices.Repeat([]v1.Interface{{MacAddress: "x"}}, objects5k)}}}, left: objects5k - maxErrors},
		{rule: "dra-claim-named", spec: v1.VirtualMachineInstanceSpec{ResourceClaims: make([]v1.VirtualMachineInstanceResourceClaim, objects5k)}, left: objects5k - maxErrors},
		{rule: "dra-device-has-source", spec: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Devices: v1.Devices{GPUs: make([]v1.GPU, objects5k), HostDevices: make([]v1.HostDevice, objects5k)}}}, left: objects5k - maxErrors},
		{rule: "device-input-type", spec: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Devices: v1.Devices{Inputs: make([]v1.Input, objects5k)}}}, left: objects5k - maxErrors},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			base, err := Base()
			if err != nil {
				t.Fatal(err)
			}
			rule, err := base.Find(tc.rule)
			if err != nil {
				t.Fatal(err)
			}
			s := &Subject{Facts: platform.Defaults(platform.Settings{}), Spec: &tc.spec, Path: field.NewPath("spec"), Meta: &tc.meta, MetaPath: field.NewPath("metadata")}
			before := isolated.Allocated()
			start := time.Now()
			found := Errors{limit: maxErrors}
			rule.Check(s, &found)
			errs := found.result()
			took := time.Since(start)
			allocated := isolated.Allocated() - before
			if len(errs) == 0 || len(errs) > maxErrors {
				t.Fatalf("%d errors", len(errs))
			}
			if said, want := errs[len(errs)-1].Detail, fmt.Sprintf(" (%d more elements were not checked)", tc.left); tc.left > 0 && !strings.HasSuffix(said, want) {
				t.Errorf("the last error says %q, which should end in %q", said, want)
			}
			for _, err := range errs {
				if n := len(err.Error()); n > 1000 {
					t.Fatalf("%d bytes of text: %.200s", n, err.Error())
				}
			}
			if took > 30*time.Second { // milliseconds if nothing else runs
				t.Errorf("it takes %v", took)
			}
			if mb := allocated >> 20; mb > 16 { // what sorts or indexes a list takes as much again as the list
				t.Errorf("it allocates %d MB", mb)
			}
		})
	}
}
