package lsp_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/catalogue/examples"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
)

// at are the parameters of a request about the bar in a text, and the text without it.
func at(t testing.TB, uri, content string) (params map[string]any, without string) {
	t.Helper()
	before, behind, ok := strings.Cut(content, "|")
	if !ok {
		t.Fatalf("no bar in %q", content)
	}
	params = about(uri)
	params["position"] = text.New(before).Position(len(before), text.UTF16)
	return params, before + behind
}

func TestHover(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "m1.yaml"), instancetype)
	s := start(t, folder)
	uri := "file://" + folder + "/f.yaml"
	for i, c := range []struct {
		name, content string
		want          []string
	}{
		{"documentation of KubeVirt", strings.Replace(vm, "runStrategy", "run|Strategy", 1), []string{"spec.runStrategy\nType: string", "Running state indicates the requested running state of the VirtualMachineInstance"}},
		{"field of an inline struct", strings.Replace(vm, "disk: {", "d|isk: {", 1), []string{"spec.template.spec.domain.devices.disks[0].disk\nType: object", "Attach a volume as a disk to the vmi."}},
		{"what layers fill in", strings.Replace(vm, "domain:", "doma|in:", 1), []string{"Type: object", "cpu.sockets: 2 (from instancetype/m1.large)", "memory.guest: 16Gi (from instancetype/m1.large)"}},
		{"metadata", strings.Replace(vm, "namespace:", "name|space:", 1), []string{"metadata.namespace\nType: string", "Namespace defines the space within which each name must be unique"}},
		{"values of Virtward's kind", strings.Replace(policy, "enforcement", "enforce|ment", 1), []string{"spec.enforcement\nType: string", `Values: "Deny", "Warn", "Audit"`}},
		{"instancetype", strings.Replace(instancetype, "cpu", "cp|u", 1), []string{"spec.cpu\nType: object\nRequired fields: guest", "Required CPU related attributes"}},
		{"template", "apiVersion: template.kubevirt.io/v1alpha1\nkind: VirtualMachineTemplate\nspec:\n  virtualMachine:\n    spec:\n      run|Strategy: Always\n", []string{"Type: string", "Running state indicates"}},
		{"broken document", strings.Replace(vm, "runStrategy", "x: [\n  run|Strategy", 1), []string{"spec.runStrategy\nType: string"}},
	} {
		params, content := at(t, uri, c.content)
		s.open(uri, i+1, content)
		var got *protocol.Hover
		if failed := s.request("textDocument/hover", params, &got); failed != nil || got == nil {
			t.Errorf("%s: %v, %v", c.name, got, failed)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(got.Contents.Value, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, got.Contents.Value)
			}
		}
	}
	s.end()
}

func TestCompletion(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "m1.yaml"), instancetype+"---\n"+policy+"---\napiVersion: template.kubevirt.io/v1beta1\nkind: VirtualMachineTemplate\nmetadata: {name: web-template}\nspec: {}\n")
	s := start(t, folder)
	uri := "file://" + folder + "/f.yaml"
	head := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\n"
	policyHead := "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nspec:\n"
	for i, c := range []struct{ name, content, want, not string }{
		{"fields", head + "spec:\n  run|", "runStrategy: ", "template: "},
		{"fields that are not written yet", head + "spec:\n  runStrategy: Always\n  |", "template: ", "runStrategy: "},
		{"fields behind a broken line", head + "a: [\nspec:\n  template: {spec: {domain: {dev|", "devices: ", ""},
		{"fields of an element", head + "spec:\n  template:\n    spec:\n      domain:\n        devices:\n          disks:\n          - |", "name: ", ""},
		{"a list without a dash", head + "spec:\n  template:\n    spec:\n      volumes:\n        |", "- containerDisk: ", ""},
		{"the name of a field with a colon", head + "spec:\n  run|: Always", "runStrategy", ""},
		{"names of instancetypes", head + "spec:\n  instancetype:\n    name: |", "m1.large", ""},
		{"names of another kind", head + "spec:\n  instancetype:\n    kind: VirtualMachineInstancetype\n    name: |\n", "", "m1.large"},
		{"values", policyHead + "  enforcement: |", "Audit", ""},
		{"booleans", head + "spec:\n  template:\n    spec:\n      domain:\n        features:\n          smm:\n            enabled: t|", "true", "false"},
		{"ids of rules", "apiVersion: policy.virtward.io/v1alpha1\nkind: RuleSettings\nspec:\n  rules:\n  - rule: disk-bus|", "disk-bus-known", "memory-guest-limit"},
		{"names of policies", "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicyException\nspec:\n  policies:\n  - |", "memory-limit", "m1.large"},
		{"fields of a suite", "apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\ntests:\n- name: a\n  |", "cases: ", ""},
		{"variables of CEL", policyHead + "  validations:\n  - expression: v|", "vm", "object"},
		{"fields in CEL", policyHead + "  validations:\n  - expression: size(vm.spec.domain.|)", "devices", ""},
		{"fields in a block", policyHead + "  validations:\n  - expression: |-\n      true && vm.spec.domain.devices.disks[0].di\u007f", "disk", "cdrom"},
		{"fields of a reference", policyHead + "  validations:\n  - expression: references.persistentVolumeClaims[0].|", "accessModes", "unknown"},
		{"fields of an instancetype", policyHead + "  validations:\n  - expression: instancetype.memory.|", "guest", ""},
		{"fields of the platform", policyHead + "  validations:\n  - expression: platform.hyp|", "hypervisor", "architecture"},
		{"fields behind a key", policyHead + "  validations:\n  - expression: request.userInfo.extra['a.b'].|", "", "username"},
		{"fields of an element of a loop", policyHead + "  validations:\n  - expression: vm.spec.domain.devices.disks.all(d, d.|)", "bootOrder", ""},
		{"fields of an element of an inner loop", policyHead + "  validations:\n  - expression: pod.spec.containers.all(c, c.resources.claims.exists(r, r.|))", "name", "image"},
		{"names of templates", "apiVersion: template.kubevirt.io/v1beta1\nkind: VirtualMachineTemplateExport\nspec:\n  templateRef:\n    name: |", "web-template", ""},
		{"variables of the policy", policyHead + "  variables: [{name: cores, expression: '1'}]\n  validations:\n  - expression: variables.|", "cores", ""},
		{"parameters of the policy", policyHead + "  params: {values: {most: 4}}\n  validations:\n  - expression: params.|", "most", ""},
	} {
		if strings.Contains(c.content, "\u007f") { // a block has a bar of its own
			c.content = strings.Replace(strings.Replace(c.content, "|-", ">-", 1), "\u007f", "|", 1)
		}
		params, content := at(t, uri, c.content)
		s.open(uri, i+1, content)
		s.diagnostics(uri, i+1)
		var got protocol.CompletionList
		if failed := s.request("textDocument/completion", params, &got); failed != nil {
			t.Fatal(failed)
		}
		var inserted []string
		for _, item := range got.Items {
			inserted = append(inserted, item.TextEdit.NewText)
		}
		if c.want != "" && !slices.Contains(inserted, c.want) || c.not != "" && slices.Contains(inserted, c.not) {
			t.Errorf("%s: want %q, not %q: %q", c.name, c.want, c.not, inserted)
		}
	}
	s.end()
}

// The position of a name in an open file is in the encoding of the client, also if the file is not saved.
func TestDefinition(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "types", "m 1.yaml"), instancetype)
	s := start(t, folder)
	uri := "file://" + folder + "/vm.yaml"
	params, content := at(t, uri, strings.Replace(vm, "m1.large", "m1.|large", 1))
	s.open(uri, 1, content)
	var got protocol.Location
	if failed := s.request("textDocument/definition", params, &got); failed != nil {
		t.Fatal(failed)
	}
	if want := "file://" + folder + "/types/m%201.yaml"; got.URI != want || got.Range.Start.Line != 2 {
		t.Errorf("%+v, want line 2 of %s", got, want)
	}
	other := "file://" + folder + "/new.yaml"
	s.open(other, 1, strings.Replace(instancetype, "metadata: {", "metadata: {annotations: {a: 🇫🇷}, ", 1))
	s.diagnostics(other, 1)
	s.diagnostics(uri, 1)
	if failed := s.request("textDocument/definition", params, &got); failed != nil {
		t.Fatal(failed)
	}
	if want := (text.Range{Start: text.Position{Line: 2, Character: 35}, End: text.Position{Line: 2, Character: 39}}); got.URI != other || got.Range != want {
		t.Errorf("%+v, want %v of %s", got, want, other)
	}
	s.end()
}

func TestInlayHints(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "m1.yaml"), instancetype)
	s := start(t, folder)
	uri := "file://" + folder + "/vm.yaml"
	s.open(uri, 1, policy+"---\n"+vm)
	var got []protocol.InlayHint
	if failed := s.request("textDocument/inlayHint", about(uri), &got); failed != nil {
		t.Fatal(failed)
	}
	lines := strings.Split(policy+"---\n"+vm, "\n")
	i := slices.IndexFunc(got, func(h protocol.InlayHint) bool { return strings.TrimSpace(lines[h.Position.Line]) == "domain:" })
	if i < 0 || !strings.Contains(got[i].Tooltip, "memory.guest: 16Gi (instancetype/m1.large)") || got[i].Position.Character != len("      domain:") {
		t.Errorf("no hint about the memory: %+v", got)
	}
	s.end()
}

func TestQuickFixes(t *testing.T) {
	const expression = "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: a}\nspec:\n  enforcement: Deny\n  params: {values: {cores: 2}}\n  validations:\n  - message: m\n    expression: |-\n      true &&\n      $\n"
	s := start(t, "")
	for i, c := range []struct{ name, content, title, want string }{
		{"an unknown field", strings.Replace(vm, "runStrategy", "runStratgy", 1), "Rename the field to runStrategy", vm},
		{"a value that is not supported", strings.Replace(vm, "      domain:", "      dnsPolicy: 'Def'\n      domain:", 1), "Set the value to Default", strings.Replace(vm, "      domain:", "      dnsPolicy: Default\n      domain:", 1)},
		{"a value that is unknown", vm, "Set the value to sata", strings.Replace(vm, "bus: sat}", "bus: sata}", 1)},
		{"a misspelt field of a policy", strings.Replace(policy, "enforcement:", "enforcment:", 1), "Rename the field to enforcement", policy},
		{"a field that is not valid", strings.Replace(vm, "        devices:", "        launchSecurity: # both\n          sev: {}\n          # one of them\n\n          snp: {}\n        # devices\n        devices:", 1), "Remove the field", strings.Replace(vm, "        devices:", "        # devices\n        devices:", 1)},
		{"a list that is not valid", strings.Replace(vm, "        devices:", "        devices:\n          panicDevices:\n          - {}\n          - model: hyperv", 1) + "      architecture: s390x\n", "Remove the field", vm + "      architecture: s390x\n"},
		{"the only field of an object", strings.Replace(vm, "        devices:", "        firmware: # of the guest\n          bootloader:\n            bios: {}\n        devices:", 1) + "      architecture: arm64\n", "Remove the field", strings.Replace(vm, "        devices:", "        firmware: # of the guest\n          bootloader: {}\n        devices:", 1) + "      architecture: arm64\n"},
		{"a field in an expression", strings.Replace(expression, "$", "vm.spec.?evictionStrateg.orValue('') == '🇫🇷'", 1), "Replace evictionStrateg with evictionStrategy", strings.Replace(expression, "$", "vm.spec.?evictionStrategy.orValue('') == '🇫🇷'", 1)},
		{"a field in a line of an expression", strings.Replace(expression, "$", "'🇫🇷' != '' && vm.spec.domian.cpu.cores == 2", 1), "Replace domian with domain", strings.Replace(expression, "$", "'🇫🇷' != '' && vm.spec.domain.cpu.cores == 2", 1)},
		{"a variable of an expression", strings.Replace(expression, "$", "prams.cores == 2", 1), "Replace prams with params", strings.Replace(expression, "$", "params.cores == 2", 1)},
	} {
		uri := "untitled:fix"
		s.open(uri, i+1, c.content)
		params := about(uri)
		params["range"] = text.Range{End: text.Position{Line: 100}}
		params["context"] = map[string]any{"diagnostics": []any{}}
		var got []protocol.CodeAction
		if failed := s.request("textDocument/codeAction", params, &got); failed != nil {
			t.Fatal(failed)
		}
		j := slices.IndexFunc(got, func(a protocol.CodeAction) bool { return a.Title == c.title })
		if j < 0 || len(got[j].Diagnostics) != 1 {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		if fixed := edited(t, c.content, got[j].Edit.Changes[uri]); fixed != c.want {
			t.Errorf("%s: %s", c.name, fixed)
		}
	}
	s.end()
}

// TestRemedies applies the quick fixes of the examples of rules: each one satisfies the rule.
func TestRemedies(t *testing.T) {
	s := start(t, "")
	all, err := examples.All()
	if err != nil {
		t.Fatal(err)
	}
	removed, set, version := 0, 0, 0
	for _, rule := range slices.Sorted(maps.Keys(all)) {
		example := all[rule]
		if example.Old != nil || example.KubeVirt != nil || example.Objects != nil || example.User != "" {
			continue
		}
		content, err := example.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		const uri = "untitled:remedy"
		version++
		s.open(uri, version, content)
		problems := s.diagnostics(uri, version)
		params := about(uri)
		params["range"] = text.Range{End: text.Position{Line: 1000}}
		params["context"] = map[string]any{"diagnostics": []any{}}
		var got []protocol.CodeAction
		if failed := s.request("textDocument/codeAction", params, &got); failed != nil {
			t.Fatal(failed)
		}
		for _, action := range got {
			if len(action.Diagnostics) == 0 || action.Diagnostics[0].Code != rule || action.Title != "Remove the field" && action.Title != "Set the value to false" && action.Title != "Set the value to true" {
				continue
			}
			fixed := edited(t, content, action.Edit.Changes[uri])
			version++
			s.open(uri, version, fixed)
			if left := s.diagnostics(uri, version); len(left) >= len(problems) || slices.ContainsFunc(left, func(line string) bool { return strings.Contains(line, " "+rule+" ") }) {
				t.Errorf("%s: %s: %q\n%s", rule, action.Title, left, fixed)
			}
			if action.Title == "Remove the field" {
				removed++
			} else {
				set++
			}
			break
		}
	}
	t.Logf("%d fields removed, %d values set", removed, set)
	if removed < 15 || set < 1 {
		t.Errorf("%d fields removed, %d values set", removed, set)
	}
	s.end()
}

// edited returns a text after edits, the last ones first: they do not overlap.
func edited(t testing.TB, content string, edits []protocol.TextEdit) string {
	t.Helper()
	slices.SortFunc(edits, func(a, b protocol.TextEdit) int {
		return (b.Range.Start.Line-a.Range.Start.Line)*10_000 + b.Range.Start.Character - a.Range.Start.Character
	})
	of := text.New(content)
	for _, e := range edits {
		var err error
		if of, err = of.Apply([]text.Change{{Range: &e.Range, Text: e.NewText}}, text.UTF16, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	return of.String()
}

const template = `apiVersion: template.kubevirt.io/v1alpha1
kind: VirtualMachineTemplate
metadata: {name: t}
spec:
  parameters:
  - name: "NAME"
  - name: CORES
  virtualMachine:
    metadata: {name: "vm-${NAME}-${NAME}"}
    spec: {template: {spec: {domain: {cpu: {cores: "${{CORES}}"}}}}}
`

func TestRename(t *testing.T) {
	s := start(t, "")
	uri := "untitled:template"
	s.open(uri, 1, template)
	for _, c := range []struct{ at, name, want string }{
		{`"NA|ME"`, "HOST", strings.ReplaceAll(template, "NAME", "HOST")},
		{`{{COR|ES}}`, "C", strings.ReplaceAll(template, "CORES", "C")},
		{`"NA|ME"`, "CORES", template},
		{`"NA|ME"`, "a b", template},
		{`met|adata: {name: t}`, "HOST", template},
	} {
		params, _ := at(t, uri, strings.Replace(template, strings.Replace(c.at, "|", "", 1), c.at, 1))
		params["newName"] = c.name
		var got protocol.WorkspaceEdit
		if failed := s.request("textDocument/rename", params, &got); failed != nil {
			t.Fatal(failed)
		}
		if renamed := edited(t, template, got.Changes[uri]); renamed != c.want {
			t.Errorf("%s: %s", c.at, renamed)
		}
	}
	// Each place costs the time of its line, so a text has at most so many.
	many := template + "  message: \"" + strings.Repeat("${NAME}", 1000) + "\"\n"
	s.open("untitled:many", 1, many)
	params, _ := at(t, "untitled:many", strings.Replace(many, "\"NAME", "\"NA|ME", 1))
	params["newName"] = "HOST"
	var got *protocol.WorkspaceEdit
	if failed := s.request("textDocument/rename", params, &got); failed != nil || got != nil {
		t.Errorf("%v %v", got, failed)
	}
	s.end()
}

// Errors of expressions and of Rego are at their place in the text.
func TestErrorsInExpressions(t *testing.T) {
	s := start(t, "")
	head := "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: a}\nspec:\n  enforcement: Deny\n"
	for i, c := range []struct{ name, content, want string }{
		{"a field that vm does not have", head + "  validations:\n  - message: m\n    expression: |-\n      '🇫🇷' == '' ||\n      '🇫🇷' == vm.spec.nothing\n", "9:23-"},
		{"a syntax error of Rego", head + "  rego:\n    module: |\n      package virtward\n\n      deny contains \"🇫🇷\" if {\n        x := )\n      }\n", "10:13-"},
	} {
		s.open("untitled:policy", i+1, c.content)
		found := s.diagnostics("untitled:policy", i+1)
		if !strings.Contains(strings.Join(found, "\n"), "\n"+c.want) && !strings.HasPrefix(found[0], c.want) {
			t.Errorf("%s: not at %s:\n%s", c.name, c.want, strings.Join(found, "\n"))
		}
	}
	s.end()
}
