package templates

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/isolated"
	"github.com/virtward/virtward/validators"
)

// userData is a template with user data in a VirtualMachine.
func userData(text string, parameters ...v1beta1.Parameter) *v1beta1.VirtualMachineTemplateSpec {
	return inVolume("userData", text, parameters...)
}

// inVolume is a template with a text of cloud-init.
func inVolume(field, text string, parameters ...v1beta1.Parameter) *v1beta1.VirtualMachineTemplateSpec {
	volume := map[string]any{"name": "cloud-init", "cloudInitNoCloud": map[string]any{field: text}}
	return inPod(map[string]any{"domain": map[string]any{}, "volumes": []any{volume}}, parameters...)
}

// annotated is a template with an annotation of the instance.
func annotated(key, text string, parameters ...v1beta1.Parameter) *v1beta1.VirtualMachineTemplateSpec {
	return inVM(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: text}}, "spec": map[string]any{"domain": map[string]any{}}}}}, parameters...)
}

func inPod(pod map[string]any, parameters ...v1beta1.Parameter) *v1beta1.VirtualMachineTemplateSpec {
	return inVM(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": pod}}}, parameters...)
}

func inVM(vm map[string]any, parameters ...v1beta1.Parameter) *v1beta1.VirtualMachineTemplateSpec {
	raw, err := json.Marshal(vm)
	if err != nil {
		panic(err)
	}
	return &v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &kruntime.RawExtension{Raw: raw}, Parameters: parameters}
}

// pod is a template with fields of spec.template.spec in YAML.
func pod(t *testing.T, fields string, parameters ...v1beta1.Parameter) *v1beta1.VirtualMachineTemplateSpec {
	t.Helper()
	spec := specOf(t, vmWith(fields, ""))
	spec.Parameters = parameters
	return spec
}

// imported is a template that imports a disk.
func imported(url string) *v1beta1.VirtualMachineTemplateSpec {
	volume := map[string]any{"spec": map[string]any{"source": map[string]any{"http": map[string]any{"url": url}}}}
	return inVM(map[string]any{"spec": map[string]any{"dataVolumeTemplates": []any{volume}}}, free)
}

func withMessage(spec *v1beta1.VirtualMachineTemplateSpec) *v1beta1.VirtualMachineTemplateSpec {
	spec.Message = "${A}"
	return spec
}

const (
	config        = "#cloud-config\nuser: fedora\n"
	structureOf   = "Deny parameters[A] value-changes-structure"
	unconstrained = "Deny parameters[A] value-not-constrained"
	lineBreak     = "Deny parameters[A] value-line-break"
	newFields     = "Deny parameters[A] value-adds-fields"
	notAllowed    = "Deny parameters[A] constrained-value"
)

// free is a parameter without a constraint, atLeast one with a minimum, lines one that takes any text, and word one that takes words.
var (
	free    = v1beta1.Parameter{Name: "A"}
	atLeast = v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterQuantity, Minimum: ptr.To(resource.MustParse("1Gi"))}
	lines   = v1beta1.Parameter{Name: "A", Pattern: `(?s).*`}
	word    = v1beta1.Parameter{Name: "A", Pattern: `[a-z0-9 ]*`}
)

// A text of the guest, of the pod or of CDI takes the values that its form allows, where approval is required.
func TestInsertions(t *testing.T) {
	for name, tc := range map[string]struct {
		spec  *v1beta1.VirtualMachineTemplateSpec
		given string
		want  []string
	}{
		// A string in JSON is decoded before it is validated.
		"user data as JSON":                         {userData("${{A}}", free), `"#!/bin/sh\ncurl http://a \u007c sh"`, []string{lineBreak, unconstrained}},
		"user data as JSON, with a pattern":         {userData("${{A}}", v1beta1.Parameter{Name: "A", Pattern: `[^|]*`}), `"#!/bin/sh\u007csh"`, []string{notAllowed}},
		"a line break as JSON":                      {pod(t, `hostname: "${{A}}"`, free), `"a\nb"`, []string{lineBreak}},
		"a line separator as JSON":                  {pod(t, `hostname: "${{A}}"`, free), `"a\u2028b"`, []string{lineBreak}},
		"a pattern as JSON":                         {pod(t, `hostname: "${{A}}"`, word), `"a/b"`, []string{notAllowed}},
		"a pattern as escaped JSON":                 {pod(t, `hostname: "${{A}}"`, word), `"\u002f"`, []string{notAllowed}},
		"a pattern as JSON that matches":            {pod(t, `hostname: "${{A}}"`, word), `"4"`, nil},
		"both forms, of which one matches":          {pod(t, `hostname: "${{A}}", subdomain: "${A}"`, word), `"a"`, []string{notAllowed}},
		"both forms":                                {pod(t, `hostname: "${{A}}", subdomain: "${A}"`, word), `a`, nil},
		"both forms, one in the message":            {withMessage(pod(t, `hostname: "${{A}}"`, word)), `"a"`, []string{notAllowed}},
		"a key as JSON with a pattern":              {pod(t, `nodeSelector: {"${{A}}": x}`, word), `"a/b"`, []string{notAllowed, newFields}},
		"a key as JSON":                             {pod(t, `nodeSelector: {"${{A}}": x}`, free), `"\u0061"`, []string{newFields}},
		"escapes in an object with a pattern":       {pod(t, `nodeSelector: "${{A}}"`, v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterObject, Pattern: `[^|]*`}), `{"a":"\u007c"}`, []string{notAllowed}},
		"an object with a pattern, without escapes": {pod(t, `nodeSelector: "${{A}}"`, v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterObject, Pattern: `[^|]*`}), `{"a":"b"}`, nil},

		// cloud-config keeps its structure.
		"a password":                       {userData(config+"password: ${A}\n", free), "correct horse!", nil},
		"a password in quotes":             {userData(config+`password: "${A}"`+"\n", free), "it's: {fine} #1", nil},
		"a number":                         {userData(config+"password: ${A}\n", free), "1234", nil},
		"a key of SSH":                     {userData(config+"ssh_authorized_keys: [\"${A}\"]\n", free), "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 joe@example", nil},
		"a user as a mapping":              {userData("#cloud-config\nusers:\n- ${A}\n", free), "{name: root2, sudo: 'ALL=(ALL) NOPASSWD:ALL'}", []string{structureOf}},
		"a user as a mapping, as JSON":     {userData("#cloud-config\nusers:\n- ${A}\n", free), `{"name": "root2", "sudo": "ALL"}`, []string{structureOf}},
		"a user as a mapping, limited":     {userData("#cloud-config\nusers:\n- ${A}\n", lines), "{name: root2}", []string{structureOf}},
		"a user as a mapping, an object":   {userData("#cloud-config\nusers:\n- ${A}\n", v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterObject}), `{"name": "root2"}`, []string{structureOf}},
		"a list":                           {userData("#cloud-config\nusers:\n- ${A}\n", free), "[a, b]", []string{structureOf}},
		"another element":                  {userData("#cloud-config\nusers: [${A}]\n", free), "a, {name: b}", []string{structureOf}},
		"another member":                   {userData("#cloud-config\nusers: [{name: ${A}}]\n", free), "a, sudo: ALL", []string{structureOf}},
		"the end of quotes":                {userData("#cloud-config\nusers: [{name: \"${A}\"}]\n", free), `a", sudo: "ALL`, []string{structureOf}},
		"the end of single quotes":         {userData("#cloud-config\nusers: [{name: '${A}'}]\n", free), `a', sudo: 'ALL`, []string{structureOf}},
		"an escape in quotes":              {userData(config+`password: "${A}"`+"\n", free), `a\nb`, []string{structureOf}},
		"quotes without quotes":            {userData(config+"password: ${A}\n", free), `"a\x0ab"`, []string{structureOf}},
		"a comment":                        {userData(config+"password: ${A}\n", free), "a #b", []string{structureOf}},
		"null":                             {userData(config+"password: ${A}\n", free), "~", []string{structureOf}},
		"an alias":                         {userData("#cloud-config\na: &x {b: c}\npassword: ${A}\n", free), "*x", []string{structureOf}},
		"an anchor":                        {userData(config+"password: ${A}\n", free), "&x a", []string{structureOf}},
		"a type":                           {userData(config+"password: ${A}\n", free), "!!binary aGk=", []string{structureOf}},
		"a block":                          {userData(config+"password: ${A}\n", free), "|", []string{structureOf}},
		"a date that does not exist":       {userData(config+"password: ${A}\n", free), "2001-99-99", []string{structureOf}},
		"a value of YAML 1.1":              {userData(config+"password: ${A}\n", free), "=", []string{structureOf}},
		"a tab":                            {userData(config+"password: ${A}\n", free), "a\tb", []string{structureOf}},
		"a syntax error":                   {userData(config+"password: ${A}\n", free), "a: b: c", []string{structureOf}},
		"another document":                 {userData(config+"password: ${A}\n", lines), "a\n---\nb: c", []string{structureOf}},
		"another key":                      {userData(config+"password: ${A}\n", lines), "a\nruncmd: [reboot]", []string{structureOf}},
		"a line of a comment":              {userData(config+"# for ${A}\n", lines), "a\nruncmd: [reboot]", []string{structureOf}},
		"a comment that stays one":         {userData(config+"# for ${A}\n", free), "a: [b", nil},
		"the name of a field":              {userData(config+"${A}: true\n", word), "runcmd", []string{newFields}},
		"the name of a field from an enum": {userData(config+"${A}: true\n", v1beta1.Parameter{Name: "A", Enum: []string{"a", "b"}}), "b", nil},
		"an enum that changes it":          {userData(config+"${A}\n", v1beta1.Parameter{Name: "A", Value: "a: b", Enum: []string{"a: b", "runcmd: [reboot]"}}), "runcmd: [reboot]", nil},
		"a default that changes it":        {userData(config+"${A}\n", v1beta1.Parameter{Name: "A", Value: "a: b"}), "a: b", nil},
		"a MIME message":                   {userData(config+"password: '${A}'\n", free), "MIME-Version: 1.0", []string{structureOf}},

		// Parts of texts, and commands.
		"a part that is a word":        {userData(config+"fqdn: ${A}.example.com\n", free), "web-1", nil},
		"a part that is no word":       {userData(config+"fqdn: ${A}.example.com\n", free), "web 1", []string{unconstrained}},
		"a part that is an option":     {userData(config+"final_message: \"a ${A}\"\n", free), "-x", []string{unconstrained}},
		"a part that is constrained":   {userData(config+"final_message: \"a ${A}\"\n", word), "b c", nil},
		"a command":                    {userData(config+"runcmd: [\"${A}\"]\n", free), "reboot", []string{unconstrained}},
		"an argument of a command":     {userData(config+"runcmd:\n- [echo, \"${A}\"]\n", free), "a", []string{unconstrained}},
		"a constrained argument":       {userData(config+"runcmd:\n- [echo, \"${A}\"]\n", word), "a b", nil},
		"a file":                       {userData(config+"write_files: [{path: /a, content: \"${A}\"}]\n", free), "a", []string{unconstrained}},
		"a permission":                 {userData(config+"users: [{name: a, sudo: \"${A}\"}]\n", free), "ALL", []string{unconstrained}},
		"a script in a block":          {userData(config+"x: |\n  a\n  b ${A}\n", free), "c", []string{unconstrained}},
		"a file in base64":             {userData(config+"write_files: [{path: /a, encoding: b64, content: \"${A}\"}]\n", lines), "aGk", []string{unconstrained}},
		"a type in base64":             {userData(config+"x: !!binary \"${A}\"\n", lines), "aGk", []string{unconstrained}},
		"a generated value":            {userData(config+"password: ${B}\nx: ${A}\n", free, v1beta1.Parameter{Name: "B", Generate: "expression", From: "[a-z]{8}"}), "a", nil},
		"a generated type":             {userData(config+"password: ${B}\nx: ${A}\n", free, v1beta1.Parameter{Name: "B", Generate: "expression", From: "*[a-z]{8}"}), "a", []string{"Deny spec.parameters[1].from value-changes-structure"}},
		"a generated command":          {userData(config+"runcmd: [\"${B}\"]\nx: ${A}\n", free, v1beta1.Parameter{Name: "B", Generate: "expression", From: "[a-z]{8}"}), "a", nil},
		"two values with one at fault": {userData(config+"password: ${B}\nx: ${A}\n", free, v1beta1.Parameter{Name: "B", Value: "b"}), "{}", []string{structureOf}},

		"two values that are an object": {userData(config+"x: ${A}${B}\n", free, v1beta1.Parameter{Name: "B"}), "{a: b", []string{structureOf, "Deny parameters[B] value-changes-structure"}},

		// Quantities and numbers, which are stored in another form.
		"a quantity in another unit":        {pod(t, `domain: {memory: {guest: "${A}"}}`, atLeast), "1024Mi", nil},
		"less in another unit":              {pod(t, `domain: {memory: {guest: "${A}"}}`, atLeast), "1023Mi", []string{notAllowed}},
		"less in the units of ten":          {pod(t, `domain: {memory: {guest: "${A}"}}`, atLeast), "1G", []string{notAllowed}},
		"less as a string in JSON":          {pod(t, `domain: {memory: {guest: "${{A}}"}}`, atLeast), `"1Mi"`, []string{notAllowed}},
		"an integer with a fraction":        {pod(t, `domain: {cpu: {cores: "${{A}}"}}`, v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterInteger}), "4.0", []string{notAllowed}},
		"an integer as a string in JSON":    {pod(t, `hostname: "${{A}}"`, v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterInteger}), `"4"`, []string{notAllowed}},
		"a number that is stored as digits": {pod(t, `domain: {cpu: {cores: "${{A}}"}}`, free), "4.0", nil},

		// Texts of a form that is not known.
		"a script":                   {userData("#!/bin/sh\necho ${A}\n", free), "a", []string{unconstrained}},
		"a constrained script":       {userData("#!/bin/sh\necho ${A}\n", word), "a", nil},
		"an object in a script":      {userData("#!/bin/sh\necho '${A}'\n", v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterObject}), `{"a":"';reboot"}`, []string{unconstrained}},
		"an integer in a script":     {userData("#!/bin/sh\necho ${A}\n", v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterInteger}), "4", nil},
		"the default of a script":    {userData("#!/bin/sh\necho ${A}\n", v1beta1.Parameter{Name: "A", Value: "a"}), "a", nil},
		"a template of jinja":        {userData("## template: jinja\n#cloud-config\nfqdn: ${A}\n", free), "{{ ds }}", []string{unconstrained}},
		"MIME":                       {userData("Content-Type: multipart/mixed; boundary=\"a\"\nMIME-Version: 1.0\n\n--a\n${A}\n", free), "a", []string{unconstrained}},
		"MIME in a cloud-config":     {userData("#cloud-config\nx: 'MIME-Version: 1.0'\nfqdn: ${A}\n", free), "a", []string{unconstrained}},
		"all of the user data":       {userData("${A}", free), "#cloud-config", []string{unconstrained}},
		"the kind of user data":      {userData("#cloud-config${A}\nuser: a\n", free), "-archive", []string{unconstrained}},
		"an archive":                 {userData("#cloud-config-archive\n- type: text/x-shellscript\n  content: ${A}\n", free), "a", []string{unconstrained}},
		"an include":                 {userData("#include\nhttps://example.com/${A}\n", free), "a", []string{unconstrained}},
		"a value for a whole line":   {userData(config+"${A}\n", free), "runcmd: [reboot]", []string{unconstrained}},
		"user data in base64":        {inVolume("userDataBase64", "${A}", lines), base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\nreboot\n")), []string{unconstrained}},
		"a part of base64":           {inVolume("userDataBase64", "I2Nsb3VkLWNvbmZpZwpydW5jbWQ6IFt${A}", lines), "yZWJvb3RdCg", []string{unconstrained}},
		"network data in base64":     {inVolume("networkDataBase64", "${A}", free), "dmVyc2lvbjogMgo=", []string{unconstrained}},
		"an enum in base64":          {inVolume("userDataBase64", "${A}", v1beta1.Parameter{Name: "A", Enum: []string{"YQ==", "Yg=="}}), "Yg==", nil},
		"network data":               {inVolume("networkData", "version: 2\nethernets: {a: {addresses: [\"${A}/24\"]}}\n", free), "192.0.2.1", nil},
		"network data with a member": {inVolume("networkData", "version: 2\nethernets: {a: {addresses: [${A}]}}\n", free), "a], gateway4: b, x: [c", []string{structureOf}},
		"all network data":           {inVolume("networkData", "${A}", free), "version: 2", []string{unconstrained}},
		"too long":                   {userData(config+"password: ${A}\n", free), strings.Repeat("a ", maxYAML), []string{structureOf}},

		// Ignition, and annotations.
		"Ignition":                       {annotated("kubevirt.io/ignitiondata", `{"passwd":{"users":[{"name":"${A}"}]}}`, free), "core 2", nil},
		"Ignition with a member":         {annotated("kubevirt.io/ignitiondata", `{"passwd":{"users":[{"name":"${A}"}]}}`, free), `core","groups":["sudo`, []string{structureOf}},
		"Ignition with an escape":        {annotated("kubevirt.io/ignitiondata", `{"passwd":{"users":[{"name":"${A}"}]}}`, free), `\u0063ore`, []string{structureOf}},
		"Ignition as user data":          {userData(`{"ignition":{"version":"3.4.0"},"passwd":{"users":[{"name":"${A}"}]}}`, free), `core","groups":["sudo`, []string{structureOf}},
		"a number of Ignition":           {userData(`{"ignition":{"timeouts":{"httpTotal":${A}}}}`, free), "30", nil},
		"a number that is an object":     {userData(`{"ignition":{"timeouts":{"httpTotal":${A}}}}`, free), `30},"config":{"merge":[]`, []string{structureOf}},
		"null in Ignition":               {userData(`{"ignition":{"timeouts":{"httpTotal":${A}}}}`, free), "null", []string{structureOf}},
		"a unit":                         {userData(`{"systemd":{"units":[{"name":"a","contents":"ExecStart=${A}"}]}}`, free), "a", []string{unconstrained}},
		"data with an encoded sign":      {userData(`{"storage":{"files":[{"contents":{"source":"data:,${A}"}}]}}`, v1beta1.Parameter{Name: "A", Pattern: "[^\n]*"}), "a%0Ab", []string{structureOf}},
		"data in base64":                 {userData(`{"storage":{"files":[{"contents":{"source":"data:;base64,${A}"}}]}}`, lines), "YQ==", []string{unconstrained}},
		"a network of a pod":             {annotated("k8s.v1.cni.cncf.io/networks", `[{"name":"${A}"}]`, free), `a","namespace":"b`, []string{structureOf}},
		"networks of a pod":              {annotated("k8s.v1.cni.cncf.io/networks", `${A}`, free), `default/a,kube-system/b`, []string{unconstrained}},
		"one network of a pod":           {annotated("k8s.v1.cni.cncf.io/networks", `${A}`, free), `a`, nil},
		"a sidecar":                      {annotated("hooks.kubevirt.io/hookSidecars", `[{"image":"${A}"}]`, free), "evil", []string{unconstrained}},
		"an annotation for people":       {annotated("description", `made for ${A}`, free), "Joe: {a} #1", nil},
		"lines for people":               {annotated("description", "made\nfor ${A}", free), "Joe", nil},
		"JSON for people":                {annotated("description", `${A}`, free), `{"a":1}`, []string{unconstrained}},
		"an annotation in YAML":          {annotated("config", "a: 1\nb: ${A}\n", free), "{c: d}", []string{structureOf}},
		"an annotation of a data volume": {inVM(map[string]any{"spec": map[string]any{"dataVolumeTemplates": []any{map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": `["${A}"]`}}}}}}, free), `a","b`, []string{structureOf}},

		// Commands and addresses in fields.
		"a probe":                  {pod(t, `livenessProbe: {exec: {command: [sh, -c, "ping ${A}"]}}`, free), "a", []string{unconstrained}},
		"an argument of a probe":   {pod(t, `readinessProbe: {exec: {command: [ping, "${A}"]}}`, free), "-f", []string{unconstrained}},
		"the arguments of Linux":   {pod(t, `domain: {firmware: {kernelBoot: {kernelArgs: "console=ttyS0 root=${A}"}}}`, free), "a init=/bin/sh", []string{unconstrained}},
		"the serial number":        {pod(t, `domain: {firmware: {serial: "${A}"}}`, free), "ds=nocloud;s=http://192.0.2.1/", []string{unconstrained}},
		"the asset tag":            {pod(t, `domain: {chassis: {asset: "${A}"}}`, free), "OpenTelekomCloud", []string{unconstrained}},
		"the label of a disk":      {pod(t, `volumes: [{name: a, configMap: {name: a, volumeLabel: "${A}"}}]`, free), "cidata", []string{unconstrained}},
		"a file to boot":           {pod(t, `domain: {devices: {interfaces: [{name: a, dhcpOptions: {bootFileName: "/boot/${A}"}}]}}`, free), "../a", []string{unconstrained}},
		"an image":                 {pod(t, `volumes: [{name: a, containerDisk: {image: "quay.io/a/${A}:1"}}]`, free), "fedora", nil},
		"an image and another tag": {pod(t, `volumes: [{name: a, containerDisk: {image: "quay.io/a/${A}:1"}}]`, free), "../b:2@", []string{unconstrained}},
		"all of an image":          {pod(t, `volumes: [{name: a, containerDisk: {image: "${A}"}}]`, free), "quay.io/a/b:1", nil},
		"a path":                   {pod(t, `volumes: [{name: a, hostDisk: {type: Disk, path: "/data/${A}.img"}}]`, free), "..", []string{unconstrained}},
		"a network":                {pod(t, `networks: [{name: a, multus: {networkName: "shop-${A}"}}]`, free), "a/b", []string{unconstrained}},
		"a URL":                    {imported("https://${A}.example.com/a.qcow2"), "evil.com/", []string{unconstrained}},
		"a URL with a query":       {imported("https://example.com/${A}"), "a?b=c", []string{unconstrained}},
		"an encoded URL":           {imported("https://example.com/a/${A}"), "%2e%2e", []string{unconstrained}},
		"a URL with a word":        {imported("https://example.com/${A}.qcow2"), "fedora-42", nil},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]string{"A": tc.given}
			if name == "two values that are an object" {
				given["B"] = ": c}"
			}
			rendered, findings := Render(tc.spec, given, Options{Random: source(), Approved: true})
			got := said(findings)
			if diff := cmp.Diff(append([]string{}, tc.want...), got); diff != "" {
				t.Fatalf("%v (-want +got):\n%s", findings, diff)
			}
			if (rendered == nil) != (len(tc.want) > 0) {
				t.Error("rendered, and denied")
			}
			sameElsewhere(t, tc.spec, given, got)
		})
	}
}

// sameElsewhere holds that a render that is restricted later denies the same, and that only constraints deny elsewhere.
func sameElsewhere(t *testing.T, spec *v1beta1.VirtualMachineTemplateSpec, given map[string]string, restricted []string) {
	t.Helper()
	rendered, findings := Render(spec, given, Options{Random: source()})
	if rendered == nil {
		if slices.ContainsFunc(findings, func(f validators.Finding) bool {
			return f.Severity == validators.Deny && f.Rule != RuleConstrainedValue
		}) {
			t.Errorf("where no approval is required: %v", findings)
		}
		return
	}
	if diff := cmp.Diff(restricted, said(rendered.Restrict(findings))); diff != "" {
		t.Errorf("restricted later (-want +got):\n%s", diff)
	}
}

// FuzzInsert holds that a value that is accepted does not change the structure of a text, as a decoder of YAML reads it.
func FuzzInsert(f *testing.F) {
	for _, seed := range [][2]string{
		{"user: ${A}\n", "a: b"},
		{"users: [${A}]\n", "a, b"},
		{"x: \"${A}\"\n", `a", b`},
		{"x: |\n  ${A}\n", "a\nb: c"},
		{"a: &a [x, x]\nb: &b [*a, *a]\nc: ${A}", "*b"},
		{"- ${A}\n", "- a"},
		{"? ${A}\n: b", "a"},
		{"# ${A}\na: b", "x\nb: c"},
		{"a: >-\n  b\n  ${A}\n", " c\n\n  d"},
		{"{a: ${A}}", "}"},
		{"%YAML 1.1\n---\na: ${A}\n", "--- b"},
	} {
		f.Add(seed[0], seed[1], true)
		f.Add(seed[0], seed[1], false)
	}
	f.Fuzz(func(t *testing.T, text, given string, constrained bool) {
		parameter := free
		if constrained {
			parameter = lines
		}
		if text = config + text; !strings.Contains(text, "${A}") || strings.Contains(text, "${{A}}") || given == "" || len(text)+len(given) > 4096 { // the default is empty
			return
		}
		rendered, _ := Render(userData(text, parameter), map[string]string{"A": given}, Options{Random: source(), Approved: true})
		if rendered == nil {
			return
		}
		marked := strings.ReplaceAll(text, "${A}", "900000000800")
		if parsed, err := parseYAMLText(marked); constrained && (err != nil || len(parsed) != 1) {
			return // a text of a form that is not known, which takes constrained values
		}
		var before, after any
		if err := yaml.Unmarshal([]byte(marked), &before); err != nil || !isComposite(before) {
			return
		}
		written := rendered.VirtualMachine.Spec.Template.Spec.Volumes[0].CloudInitNoCloud.UserData
		if err := yaml.Unmarshal([]byte(written), &after); err != nil || !sameShape(before, after) {
			t.Fatalf("%q with %q: %v, %v, %v", text, given, before, after, err)
		}
	})
}

// sameShape reports whether two decoded values have the same keys and lengths.
func sameShape(before, after any) bool {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key := range b {
			if value, ok := a[key]; !ok || !sameShape(b[key], value) {
				return false
			}
		}
		return true
	case []any:
		a, ok := after.([]any)
		return ok && slices.EqualFunc(b, a, sameShape)
	}
	return !isComposite(after)
}

// What is compared takes a bounded time and memory, whatever the texts and the values are.
func TestComparisonsAreBounded(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	bomb := "a: &a [x, x]\n"
	for name := 'b'; name < 'z'; name++ {
		bomb += strings.ReplaceAll(strings.ReplaceAll("N: &N [*P, *P, *P, *P]\n", "N", string(name)), "P", string(name-1))
	}
	long := strings.Repeat("x", v1beta1.MaxParameterValue)
	annotations := map[string]any{}
	for i := range 3000 {
		annotations["a"+strconv.Itoa(i)] = `["${A}",` + strings.Repeat("0,", 100) + "0]"
	}
	for name, tc := range map[string]struct {
		spec  *v1beta1.VirtualMachineTemplateSpec
		given string
		want  string
	}{
		"aliases of aliases":  {userData(config+bomb+"password: ${A}\n", free), "a b", ""},
		"an alias of those":   {userData(config+bomb+"password: ${A}\n", free), "*y", structureOf},
		"lists in lists":      {userData(config+"password: ${A}\n", free), strings.Repeat("[", maxYAML/2), structureOf},
		"objects in objects":  {userData(config+"password: ${A}\n", free), strings.Repeat("{a: ", maxYAML/5), structureOf},
		"lists of the text":   {userData(config+"x: "+strings.Repeat("[", 2000)+"${A}"+strings.Repeat("]", 2000), free), "a b", unconstrained},
		"JSON in JSON":        {annotated("a", strings.Repeat("[", 5000)+"${A}"+strings.Repeat("]", 5000), free), "a b", ""},
		"keys of many lines":  {userData(config+"password: ${A}\n", lines), strings.Repeat("? a\n", maxYAML/5), structureOf},
		"comments":            {userData(config+"password: ${A}\n", lines), strings.Repeat("#\n", maxYAML/3), structureOf},
		"a long value":        {userData(config+"password: ${A}\n", free), long, structureOf},
		"a long annotation":   {annotated("a", `["${A}"]`, free), long, structureOf},
		"very many texts":     {inVM(map[string]any{"metadata": map[string]any{"annotations": annotations}}, free), "a b", structureOf},
		"digits of the value": {annotated("a", `["${A}"]`, free), strings.Repeat("900000000", 20_000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var findings []validators.Finding
			const most = 128 << 20
			if bytes := allocated(func() {
				_, findings = Render(tc.spec, map[string]string{"A": tc.given}, Options{Random: source(), Approved: true})
			}); bytes > most {
				t.Errorf("%d MiB are allocated", bytes>>20)
			}
			if took := time.Since(began); took > 30*time.Second { // milliseconds if nothing else runs
				t.Errorf("it took %v", took)
			}
			if got := strings.Join(said(findings), "\n"); got != tc.want {
				t.Errorf("findings %.300s, not %s", got, tc.want)
			}
		})
	}
}

// BenchmarkInsert renders a template with a given value in its user data.
func BenchmarkInsert(b *testing.B) {
	spec := userData(config+"password: ${A}\nssh_authorized_keys: [a, b, c]\nchpasswd: {expire: false}\n", free)
	for b.Loop() {
		if rendered, findings := Render(spec, map[string]string{"A": "correct horse"}, Options{Random: source(), Approved: true}); rendered == nil {
			b.Fatal(findings)
		}
	}
}
