package advice_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies/advice"
)

// adviceOn returns the advice on a spec, one line each.
func adviceOn(t *testing.T, text string) []string {
	t.Helper()
	var spec policyv1alpha1.VirtualMachinePolicySpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var lines []string
	for _, a := range advice.Of(&spec, effective.AlwaysSet()) {
		lines = append(lines, fmt.Sprintf("%s %s:%d:%d: %s", a.Check, a.Field, a.Line, a.Column, a.Message))
	}
	return lines
}

// TestCEL has a mistake and correct forms for each check of expressions.
func TestCEL(t *testing.T) {
	const values = "params: {values: {limit: 8Gi, pattern: '(', names: {good: 'a+', bad: '['}}}\n"
	for _, c := range []struct {
		name, expression string
		spec             string
		want             []string
	}{
		{"a quantity that is ordered", "vm.spec.domain.memory.guest <= '8Gi'", "", []string{
			"quantity-string spec.validations[0].expression:1:29: a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b))",
		}},
		{"a request with a default", "params.limit > object.spec.template.spec.domain.?resources.?requests[?'memory'].orValue('0')", values, []string{
			"quantity-string spec.validations[0].expression:1:14: a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b))",
		}},
		{"a quantity behind a variable", "variables.guest < '8Gi'", "variables: [{name: guest, expression: vm.spec.domain.memory.guest}]", []string{
			"quantity-string spec.validations[0].expression:1:17: a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b))",
		}},
		{"a quantity in another form", "vm.spec.domain.memory.guest == '8192Mi'", "", []string{
			`quantity-string spec.validations[0].expression:1:29: "8192Mi" is never equal to a quantity, whose canonical form is "8Gi": use quantity()`,
		}},
		{"a quantity in canonical form", "vm.spec.domain.memory.guest == '8Gi' && vm.spec.domain.memory.guest != params.limit", values, nil},
		{"a quantity without its type", "dyn(vm).spec.domain.memory.guest != '8192Mi'", "", []string{"quantity-string spec.validations[0].expression:1:34: \"8192Mi\" is never equal to a quantity, whose canonical form is \"8Gi\": use quantity()"}},
		{"a quantity by its key", "vm.spec.domain.memory['guest'] != '8192Mi'", "", []string{"quantity-string spec.validations[0].expression:1:32: \"8192Mi\" is never equal to a quantity, whose canonical form is \"8Gi\": use quantity()"}},
		{"a quantity and the variable of a macro", "!['8192Mi'].exists(x, vm.spec.domain.memory.guest == x)", "", []string{"quantity-string spec.validations[0].expression:1:51: \"8192Mi\" is never equal to a quantity, whose canonical form is \"8Gi\": use quantity()"}},
		{"a quantity of an element", "object.spec.?dataVolumeTemplates.orValue([]).all(d, d.spec.storage.resources.requests['storage'] != '8192Mi')", "", []string{"quantity-string spec.validations[0].expression:1:98: \"8192Mi\" is never equal to a quantity, whose canonical form is \"8Gi\": use quantity()", "absent-field spec.validations[0].expression:1:59: object.spec.dataVolumeTemplates[].spec.storage can be absent, and reading it fails then: use object.spec.dataVolumeTemplates[].spec.?storage, or has()"}},
		{"keys of quantities", "vm.spec.domain.resources.?requests.orValue({}).all(r, r != '1024Mi' && r.startsWith('a'))", "", nil},
		{"a compared quantity", "quantity(vm.spec.domain.memory.guest).compareTo(quantity('8192Mi')) <= 0", "", nil},
		{"a request of a pod", "pod.spec.containers[0].resources.requests['memory'] <= '8Gi'", "", []string{
			"quantity-string spec.validations[0].expression:1:53: a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b))",
			"absent-field spec.validations[0].expression:1:42: pod.spec.containers[].resources.requests['memory'] can be absent, and reading it fails then: use pod.spec.containers[].resources.requests[?'memory'], or 'memory' in pod.spec.containers[].resources.requests",
		}},
		{"what pods and domains always have", "pod.spec.volumes.size() > 3 && domain.os.type.machine != '' && domain.?devices.?disk.orValue([]).all(d, d.driver.cache != 'unsafe')", "", nil},
		{"what domains can lack", "domain.devices.disk.all(d, d.serial != '')", "", []string{
			"absent-field spec.validations[0].expression:1:15: domain.devices.disk can be absent, and reading it fails then: use domain.devices.?disk, or has()",
		}},
		{"a field that is no quantity", "vm.spec.domain.cpu.cores <= 4 && instancetype != null && instancetype.cpu.guest > 1", "", nil},
		{"a pattern in a parameter", "vm.metadata.name.matches(params.pattern) || vm.metadata.name.matches(params.names['bad'])", values, []string{
			"pattern spec.validations[0].expression:1:25: the pattern in params.pattern does not compile: error parsing regexp: missing closing ): `(`",
			"pattern spec.validations[0].expression:1:69: the pattern in params.names.bad does not compile: error parsing regexp: missing closing ]: `[`",
		}},
		{"a correct pattern in a parameter", "vm.metadata.name.matches(params.names.good)", values, nil},
		{"a parameter that does not exist", "vm.metadata.name != params.limits", values, []string{
			"parameter spec.validations[0].expression:1:27: spec.params.values has no limits, so the policy cannot be evaluated; did you mean limit?",
		}},
		{"a parameter that may exist", "has(params.max) && vm.metadata.name != params.max || params.?most.orValue('') == ''", values, nil},
		{"parameters of a ConfigMap", "params.anything == 'x'", "params: {configMap: {namespace: a, name: b}}", nil},
		{"an optional that is compared with null", "vm.spec.?evictionStrategy == null", "", []string{
			"null-comparison spec.validations[0].expression:1:27: an optional is never null: use hasValue() or orValue()",
		}},
		{"a field that is compared with null", "null != object.spec.running", "", []string{
			"null-comparison spec.validations[0].expression:1:6: a field that is not set is absent, not null, and reading it fails: use has()",
		}},
		{"documents that can be null", "instancetype == null || oldObject == null || params.none == null", "params: {values: {none: null}}", nil},
		{"an old object on create", "object.metadata.name == oldObject.metadata.name", "", []string{
			"old-object spec.validations[0].expression:1:43: oldObject is null on CREATE, so the policy cannot be evaluated: write oldObject == null || …, or match only UPDATE",
		}},
		{"an old object on update", "object.metadata.name == oldObject.metadata.name", "match: {operations: [UPDATE]}", nil},
		{"an old object behind a comparison", "oldObject == null || object.metadata.name == oldObject.metadata.name", "", nil},
		{"an old object behind the object", "object != null || oldObject.metadata.name == ''", "match: {operations: [CREATE, DELETE]}", nil},
		{"an old object behind the operation", "request.operation == 'CREATE' || oldObject.metadata.name == ''", "", nil},
		{"an old object behind a condition", "oldObject.metadata.name == ''", "match: {matchConditions: [{name: update, expression: oldObject != null}]}", nil},
		{"a field that can be absent", "vm.spec.domain.cpu.dedicatedCpuPlacement && vm.spec.domain.cpu.dedicatedCpuPlacement == true", "", []string{
			"absent-field spec.validations[0].expression:1:19: vm.spec.domain.cpu.dedicatedCpuPlacement can be absent, and reading it fails then: use vm.spec.domain.cpu.?dedicatedCpuPlacement, or has()",
		}},
		{"a field of one that can be absent", "vm.spec.domain.memory.hugepages.pageSize == '2Mi'", "", []string{
			"absent-field spec.validations[0].expression:1:22: vm.spec.domain.memory.hugepages can be absent, and reading it fails then: use vm.spec.domain.memory.?hugepages, or has()",
		}},
		{"a field that is tested", "!has(vm.spec.domain.cpu.numa) || has(vm.spec.domain.cpu.numa.guestMappingPassthrough)", "", nil},
		{"an optional field", "vm.spec.?nodeSelector.orValue({}).size() == 0", "", nil},
		{"a field that is tested elsewhere", "vm.spec.tolerations.size() > 0", "match: {matchConditions: [{name: tolerant, expression: has(vm.spec.tolerations)}]}", nil},
		{"a list that can be empty", "vm.spec.volumes.all(v, has(v.containerDisk))", "", []string{
			"absent-field spec.validations[0].expression:1:8: vm.spec.volumes can be absent, and reading it fails then: use vm.spec.?volumes, or has()",
		}},
		{"fields that are never absent", "vm.spec.domain.cpu.cores * vm.spec.domain.cpu.sockets <= 4 && vm.spec.architecture == 'amd64' && vm.spec.domain.devices.autoattachVSOCK", "", nil},
		{"a field of the object as it was written", "object.spec.template.spec.nodeSelector.size() == 0", "", []string{
			"absent-field spec.validations[0].expression:1:26: object.spec.template.spec.nodeSelector can be absent, and reading it fails then: use object.spec.template.spec.?nodeSelector, or has()",
		}},
		{"a default that only the effective VM has", "object.spec.template.spec.domain.cpu.cores <= 4 || vm.spec.domain.cpu.cores <= 4", "", []string{
			"absent-field spec.validations[0].expression:1:33: object.spec.template.spec.domain.cpu can be absent, and reading it fails then: use object.spec.template.spec.domain.?cpu, or has()",
		}},
		{"a field below one that is tested", "has(object.spec.template.spec.domain.cpu) && object.spec.template.spec.domain.cpu.cores <= 4", "", []string{
			"absent-field spec.validations[0].expression:1:82: object.spec.template.spec.domain.cpu.cores can be absent, and reading it fails then: use object.spec.template.spec.domain.cpu.?cores, or has()",
		}},
		{"a field that the author of the object tests", "has(object.spec.template.spec.nodeSelector) && vm.spec.nodeSelector.size() > 0", "", nil},
		{"a label by its key", "object.metadata.labels['team'] == 'a'", "", []string{
			"absent-field spec.validations[0].expression:1:23: object.metadata.labels['team'] can be absent, and reading it fails then: use object.metadata.?labels[?'team'], or 'team' in object.metadata.labels",
		}},
		{"a label as a field", "vm.metadata.labels.team == 'a'", "", []string{
			"absent-field spec.validations[0].expression:1:19: vm.metadata.labels['team'] can be absent, and reading it fails then: use vm.metadata.?labels[?'team'], or 'team' in vm.metadata.labels",
		}},
		{"a label of labels that are tested", "has(object.metadata.labels) && object.metadata.labels['a/b'] == 'a'", "", []string{
			"absent-field spec.validations[0].expression:1:54: object.metadata.labels['a/b'] can be absent, and reading it fails then: use object.metadata.labels[?'a/b'], or 'a/b' in object.metadata.labels",
		}},
		{"a label behind a default and a variable", "variables.labels['team'] == 'a'", "variables: [{name: labels, expression: 'has(object.metadata.labels) ? object.metadata.labels : {}'}]", []string{
			"absent-field spec.validations[0].expression:1:17: object.metadata.labels['team'] can be absent, and reading it fails then: use object.metadata.labels[?'team'], or 'team' in object.metadata.labels",
		}},
		{"a label whose key is a parameter", "object.metadata.?labels.orValue({})[params.label] != ''", "", []string{
			"absent-field spec.validations[0].expression:1:36: object.metadata.labels[params.label] can be absent, and reading it fails then: use object.metadata.labels[?params.label], or params.label in object.metadata.labels",
		}},
		{"keys that are tested", "has(object.metadata.labels) && ('team' in object.metadata.labels && object.metadata.labels['team'] != '' || object.metadata.labels.all(k, object.metadata.labels[k] != ''))", "", nil},
		{"keys that are tested in a macro", "['a', 'b'].all(k, k in object.metadata.?annotations.orValue({}) && object.metadata.annotations[k] != '')", "", nil},
		{"optional keys", "object.metadata.?labels[?'team'].orValue('') == '' && object.metadata.?annotations['team'].orValue('') == ''", "", nil},
		{"a label that the policy selects", "object.metadata.?labels.orValue({})['team'] == 'a'", "match: {objectSelector: {matchLabels: {team: a}}}", nil},
		{"an annotation of the namespace", "namespaceObject.metadata.annotations['a/b'] == 'c' || namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'd'", "", []string{
			"absent-field spec.validations[0].expression:1:37: namespaceObject.metadata.annotations['a/b'] can be absent, and reading it fails then: use namespaceObject.metadata.?annotations[?'a/b'], or 'a/b' in namespaceObject.metadata.annotations",
		}},
		{"a label of the namespace", "namespaceObject.metadata.labels['tier'] == 'gold'", "", []string{
			"absent-field spec.validations[0].expression:1:32: namespaceObject.metadata.labels['tier'] can be absent, and reading it fails then: use namespaceObject.metadata.labels[?'tier'], or 'tier' in namespaceObject.metadata.labels",
		}},
		{"a label by which namespaces are selected", "namespaceObject.metadata.labels['tier'] == 'gold'", "match: {namespaceSelector: {matchExpressions: [{key: tier, operator: Exists}]}}", nil},
		{"an old label", "oldObject == null || oldObject.metadata.labels['team'] == object.metadata.?labels[?'team'].orValue('')", "", []string{
			"absent-field spec.validations[0].expression:1:47: oldObject.metadata.labels['team'] can be absent, and reading it fails then: use oldObject.metadata.?labels[?'team'], or 'team' in oldObject.metadata.labels",
		}},
		{"an old object behind a test", "!has(oldObject.metadata) || oldObject.metadata.name == ''", "", nil},
		{"a virtual machine without an instancetype", "instancetype.cpu.guest > 1 && preference.preferredTerminationGracePeriodSeconds > 1", "", []string{
			"absent-field spec.validations[0].expression:1:17: instancetype is null for a virtual machine without one, so the policy cannot be evaluated: use instancetype.?cpu, or write instancetype == null || …",
			"absent-field spec.validations[0].expression:1:41: preference is null for a virtual machine without one, so the policy cannot be evaluated: use preference.?preferredTerminationGracePeriodSeconds, or write preference == null || …",
		}},
		{"an instancetype that is tested", "instancetype == null || instancetype.cpu.guest > 1", "", nil},
		{"an instancetype that is optional", "instancetype.?cpu.?guest.orValue(1) > 1", "", nil},
		{"a virtual machine that names an instancetype", "!has(object.spec.instancetype) || instancetype.cpu.guest > 1", "", nil},
		{"a field of an instancetype", "instancetype != null && instancetype.gpus.size() == 0", "", []string{
			"absent-field spec.validations[0].expression:1:37: instancetype.gpus can be absent, and reading it fails then: use instancetype.?gpus, or has()",
		}},
		{"elements of a list", "vm.spec.?volumes.orValue([]).all(v, v.containerDisk.image != '')", "", []string{
			"absent-field spec.validations[0].expression:1:38: vm.spec.volumes[].containerDisk can be absent, and reading it fails then: use vm.spec.volumes[].?containerDisk, or has()",
		}},
		{"elements that are filtered", "vm.spec.?volumes.orValue([]).filter(v, has(v.containerDisk)).all(v, v.containerDisk.image != '')", "", nil},
		{"a value that is bound", "vm.spec.?nodeSelector.optMap(s, s['zone'] == 'a').orValue(true)", "", []string{
			"absent-field spec.validations[0].expression:1:34: vm.spec.nodeSelector['zone'] can be absent, and reading it fails then: use vm.spec.nodeSelector[?'zone'], or 'zone' in vm.spec.nodeSelector",
		}},
		{"a variable of a macro with the name of a document", "[{'spec': 1}].all(object, object.spec == 1)", "", nil},
		{"fields that all objects have", "object.kind == '' || object.metadata.name == object.metadata.namespace", "", nil},
		{"another kind", "object.spec.virtualMachineTemplate.spec.template.spec.nodeSelector == {}", "match: {kinds: [VirtualMachinePool]}", []string{
			"absent-field spec.validations[0].expression:1:54: object.spec.virtualMachineTemplate.spec.template.spec.nodeSelector can be absent, and reading it fails then: use object.spec.virtualMachineTemplate.spec.template.spec.?nodeSelector, or has()",
		}},
		{"what does not parse", "vm.", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := fmt.Sprintf("%s\nvalidations: [{expression: %q, message: m}]", strings.TrimSpace(c.spec), c.expression)
			if diff := cmp.Diff(c.want, adviceOn(t, spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuantities has quantities whose texts are read, and correct forms.
func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		name, expression string
		spec             string
		want             []string
	}{
		{"a quantity in a list of other forms", "vm.spec.domain.memory.guest in ['1Gi', '8192Mi']", "", []string{
			`quantity-string spec.validations[0].expression:1:29: "8192Mi" is never equal to a quantity, whose canonical form is "8Gi": use quantity()`,
		}},
		{"a parameter in another form", "vm.spec.domain.memory.guest in params.sizes && string(vm.spec.domain.memory.guest) == params.size", "params: {values: {sizes: [1Gi, 1024Ki], size: 2048Mi}}", []string{
			`quantity-string spec.validations[0].expression:1:29: "1024Ki" is never equal to a quantity, whose canonical form is "1Mi": use quantity()`,
			`quantity-string spec.validations[0].expression:1:84: "2048Mi" is never equal to a quantity, whose canonical form is "2Gi": use quantity()`,
		}},
		{"texts of unknown form", "vm.spec.domain.memory.guest == params.size || has(object.metadata.labels) && 'size' in object.metadata.labels && object.metadata.labels['size'] == vm.spec.domain.memory.guest", "params: {configMap: {namespace: a, name: b}}", []string{
			"quantity-string spec.validations[0].expression:1:29: params.size is equal to a quantity only in canonical form, such as '8Gi' for 8192Mi: use quantity()",
			"quantity-string spec.validations[0].expression:1:145: object.metadata.labels.size is equal to a quantity only in canonical form, such as '8Gi' for 8192Mi: use quantity()",
		}},
		{"functions of the text of a quantity", "vm.spec.domain.memory.guest.endsWith('Mi') || int(vm.spec.domain.memory.guest) > 1", "", []string{
			"quantity-string spec.validations[0].expression:1:37: the text of a quantity is its canonical form, such as '8Gi' for 8192Mi: use quantity() to read the amount",
			"quantity-string spec.validations[0].expression:1:50: the text of a quantity is its canonical form, such as '8Gi' for 8192Mi: use quantity() to read the amount",
		}},
		{"two quantities", "vm.spec.domain.memory.guest == object.spec.template.spec.domain.?memory.?guest.orValue('1Gi')", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := fmt.Sprintf("%s\nvalidations: [{expression: %q, message: m}]", strings.TrimSpace(c.spec), c.expression)
			if diff := cmp.Diff(c.want, adviceOn(t, spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestImagePrefixes has prefixes of images and URLs that admit too much, and those that do not. The image is that of a volume in
// a macro, except in some cases.
func TestImagePrefixes(t *testing.T) {
	const admits = "image-prefix the prefix %q admits %s: compare %s, or end the prefix with /"
	image, url, name := "virtward.image(image).registry", "virtward.url(url).host, or virtward.image(url).registry of an image", "the field registry"
	for _, c := range []struct {
		name, condition, spec string
		want                  []string
	}{
		{"a host", "v.containerDisk.image.startsWith('quay.io')", "", []string{fmt.Sprintf(admits, "quay.io", "quay.io.example.com", image)}},
		{"a host that ends", "v.containerDisk.image.startsWith('quay.io/')", "", nil},
		{"a directory", "v.containerDisk.image.startsWith('quay.io/disks')", "", []string{fmt.Sprintf(admits, "quay.io/disks", "quay.io/disks-other", image)}},
		{"a directory, a tag and a digest that end", "v.containerDisk.image.startsWith('quay.io/disks/') || v.containerDisk.image.startsWith('quay.io/a:') || v.containerDisk.image.startsWith('quay.io/a@')", "", nil},
		{"Docker Hub, rejected", "!v.containerDisk.image.startsWith('docker.io/')", "", []string{
			`image-prefix the prefix "docker.io/" does not find all images of Docker Hub, such as fedora: compare ` + image,
		}},
		{"another registry, rejected", "!v.containerDisk.image.startsWith('quay.io/')", "", nil},
		{"a default", "v.?containerDisk.?image.orValue('').lowerAscii().startsWith('quay.io')", "", []string{fmt.Sprintf(admits, "quay.io", "quay.io.example.com", image)}},
		{"a list", "['quay.io/', 'ghcr.io'].exists(p, v.containerDisk.image.startsWith(p))", "", []string{fmt.Sprintf(admits, "ghcr.io", "ghcr.io.example.com", image)}},
		{"parameters", "params.from.exists(p, v.containerDisk.image.startsWith(p))", "params: {values: {from: [quay.io]}}", []string{fmt.Sprintf(admits, "quay.io", "quay.io.example.com", image)}},
		{"parameters that end", "params.from.exists(p, v.containerDisk.image.startsWith(p))", "params: {values: {from: [quay.io/]}}", nil},
		{"a variable", "v.name != '' && variables.images.all(i, i.startsWith('quay.io'))", "variables: [{name: images, expression: \"vm.spec.?volumes.orValue([]).filter(v, has(v.containerDisk)).map(v, v.containerDisk.image)\"}]", []string{fmt.Sprintf(admits, "quay.io", "quay.io.example.com", image)}},
		{"the normal form", "virtward.image(v.containerDisk.image).name.startsWith('quay.io/disks')", "", []string{fmt.Sprintf(admits, "quay.io/disks", "quay.io/disks-other", name)}},
		{"the normal form that ends", "virtward.image(v.containerDisk.image).name.startsWith('quay.io/disks/')", "", nil},
		{"the registry", "virtward.image(v.containerDisk.image).registry.startsWith('quay.io')", "", []string{
			`image-prefix the prefix "quay.io" admits quay.io.example.com: compare the host with ==`,
		}},
		{"the registry, compared", "virtward.image(v.containerDisk.image).registry == 'quay.io'", "", nil},
		{"a part", "v.containerDisk.image.contains('quay.io/')", "", []string{
			`image-prefix "quay.io/" can be anywhere in the address, so example.com/quay.io/ has it too: compare ` + image,
		}},
		{"patterns", `v.containerDisk.image.matches('quay[.]io/') || v.containerDisk.image.matches('^quay.io/') || v.containerDisk.image.matches('^quay[.]io')`, "", []string{
			`image-prefix the pattern "quay[.]io/" does not begin with ^, so it can match anywhere in the address: compare ` + image,
			`image-prefix a dot in the host of the pattern "^quay.io/" matches any character: compare ` + image + `, or write \.`,
			`image-prefix the pattern "^quay[.]io" does not end the host, so it admits hosts that begin with it: compare ` + image,
		}},
		{"a pattern that ends", `v.containerDisk.image.matches('^quay[.]io/disks/')`, "", nil},
		{"a URL", "object.spec.dataVolumeTemplates.all(d, d.spec.source.http.url.startsWith('https://images.example'))", "", []string{fmt.Sprintf(admits, "https://images.example", "https://images.example.example.com", url)}},
		{"a URL that ends", "object.spec.dataVolumeTemplates.all(d, d.spec.source.registry.url.startsWith('docker://quay.io/'))", "", nil},
		{"another field", "v.name.startsWith('quay.io')", "", nil},
		{"a variable that reads itself", "variables.x.startsWith('quay.io')", "variables: [{name: x, expression: variables.x}]", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := fmt.Sprintf("%s\nmatch: {kinds: [VirtualMachine]}\nvalidations: [{expression: %q, message: m}]", c.spec, "vm.spec.?volumes.orValue([]).all(v, "+c.condition+")")
			var got []string
			for _, line := range adviceOn(t, spec) {
				if check, message, _ := strings.Cut(line, ": "); strings.HasPrefix(check, "image-prefix ") {
					got = append(got, "image-prefix "+message)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRego has a mistake and correct forms for each check of modules.
func TestRego(t *testing.T) {
	for _, c := range []struct {
		name, body string
		params     string
		want       []string
	}{
		{"a quantity that is ordered", `input.vm.spec.domain.memory.guest > "8Gi"`, "", []string{
			`quantity-string spec.rego.module:3:5: a quantity is compared as a string, so "16Gi" is less than "2Gi": use units.parse_bytes`,
		}},
		{"a quantity in another form", `input.vm.spec.domain.memory.guest == "8192Mi"`, "", []string{
			`quantity-string spec.rego.module:3:5: "8192Mi" is never equal to a quantity, whose canonical form is "8Gi"`,
		}},
		{"a compared quantity", `units.parse_bytes(input.vm.spec.domain.memory.guest) > units.parse_bytes("8Gi")`, "", nil},
		{"a negated comparison", `not input.vm.spec.domain.cpu.cores > 4`, "", []string{
			"negation spec.rego.module:3:5: the negation is true too if input.vm.spec.domain.cpu.cores is absent: compare without not, or use object.get",
		}},
		{"a negation of a rule", `not allowed`, "", nil},
		{"a comparison", `input.vm.spec.domain.cpu.cores <= 4`, "", nil},
		{"a default", `not object.get(input.vm.spec.domain, ["cpu", "cores"], 1) > 4`, "", nil},
		{"a label that must have a value", `input.vm.metadata.labels["team"] != "a"`, "", []string{
			`absent-field spec.rego.module:3:5: input.vm.metadata.labels.team can be absent, and the comparison is undefined then, so the rule does not apply: use object.get(input.vm.metadata.labels, "team", "")`,
		}},
		{"an instancetype that must have a value", `input.instancetype.cpu.guest != 2`, "", []string{
			`absent-field spec.rego.module:3:5: input.instancetype.cpu.guest can be absent, and the comparison is undefined then, so the rule does not apply: use object.get(input.instancetype.cpu, "guest", "")`,
		}},
		{"a label with a default", `object.get(input.vm.metadata, ["labels", "team"], "") != "a"; input.vm.metadata.labels.team != "b"`, "", nil},
		{"a label whose absence has a rule", "input.vm.metadata.labels.team != \"a\"\n}\ndeny contains \"n\" if {\n    not input.vm.metadata.labels.team", "", nil},
		{"a label that has a value", `input.vm.metadata.labels.team == "a"`, "", nil},
		{"a field that is never absent", `input.vm.spec.architecture != "amd64"; input.object.metadata.name != "a"; input.oldObject.spec.runStrategy != input.object.spec.runStrategy`, "", []string{
			`absent-field spec.rego.module:3:79: input.object.spec.runStrategy can be absent, and the comparison is undefined then, so the rule does not apply: use object.get(input.object.spec, "runStrategy", "")`,
		}},
		{"a pattern", `regex.match("(", input.vm.metadata.name)`, "", []string{
			"pattern spec.rego.module:3:17: the pattern does not compile: error parsing regexp: missing closing ): `(`",
		}},
		{"a pattern in a parameter", `x := regex.find_n(input.params.pattern, input.vm.metadata.name, 1)`, `{"pattern": "["}`, []string{
			"pattern spec.rego.module:3:23: the pattern in params.pattern does not compile: error parsing regexp: missing closing ]: `[`",
		}},
		{"a prefix of an image", `some volume in input.vm.spec.volumes; image := volume.containerDisk.image; startswith(image, "quay.io")`, "", []string{
			`image-prefix spec.rego.module:3:91: the prefix "quay.io" admits quay.io.example.com: compare virtward.image(image).registry, or end the prefix with /`,
		}},
		{"prefixes in a parameter", `some volume in input.vm.spec.volumes; some prefix in input.params.from; startswith(virtward.image(volume.containerDisk.image).name, prefix)`, `{"from": ["quay.io/disks/", "ghcr.io"]}`, []string{
			`image-prefix spec.rego.module:3:88: the prefix "ghcr.io" admits ghcr.io.example.com: compare the field registry, or end the prefix with /`,
		}},
		{"a prefix that ends", `some volume in input.vm.spec.volumes; startswith(volume.containerDisk.image, "quay.io/")`, "", nil},
		{"a correct pattern", `regex.match(input.params.pattern, input.vm.metadata.name)`, `{"pattern": "a+"}`, nil},
		{"a parameter that does not exist", `input.vm.metadata.name == input.params.names`, `{"name": "x"}`, []string{
			"parameter spec.rego.module:3:31: spec.params.values has no names, so the rule never applies; did you mean name?",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			module := "package x\ndeny contains \"m\" if {\n    " + c.body + "\n}\nallowed if input.vm.metadata.name == \"a\"\n"
			spec, err := yaml.Marshal(map[string]any{"enforcement": "Deny", "rego": map[string]any{"module": module}})
			if err != nil {
				t.Fatal(err)
			}
			text := string(spec)
			if c.params != "" {
				text += "params: {values: " + c.params + "}\n"
			}
			if diff := cmp.Diff(c.want, adviceOn(t, text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLibrary: the policies of the library and the examples get no advice.
func TestLibrary(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../library/*/policy.yaml", "../../examples/policy/*/policy.yaml", "../../examples/converted/*/policy.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 40 {
		t.Fatalf("only %d policies", len(files))
	}
	for _, file := range slices.Sorted(slices.Values(files)) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var policy policyv1alpha1.VirtualMachinePolicy
		if err := yaml.Unmarshal(data, &policy); err != nil {
			t.Fatal(err)
		}
		for _, a := range advice.Of(&policy.Spec, effective.AlwaysSet()) {
			t.Errorf("%s: %s: %s:%d: %s", file, a.Check, a.Field, a.Line, a.Message)
		}
	}
}
