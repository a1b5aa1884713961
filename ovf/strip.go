package ovf

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// stripper removes what has no meaning, or must not be known, outside of the cluster of a template. It notes each removal.
type stripper struct {
	Problems
	// keepUserData keeps the texts for cloud-init, with their passwords.
	keepUserData bool
	// name is that of the virtual machine, which refers to a parameter.
	name string
}

// machineAt is the path of the virtual machine in a template.
func machineAt(names ...string) *field.Path {
	return field.NewPath("spec", "virtualMachine").Child("spec", names...)
}

func (s *stripper) removed(at *field.Path, why string) { s.Warn(FieldRemoved, at.String(), why) }

// remove removes a field. It warns only if the field has a value.
func (s *stripper) remove(o object, at *field.Path, key, why string) {
	value, exists := o[key]
	delete(o, key)
	if exists && !isEmpty(value) {
		s.removed(at.Child(key), why)
	}
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// child is an object in an object, or an empty one that belongs to nothing.
func child(o object, names ...string) object {
	for _, name := range names {
		o, _ = o[name].(object)
	}
	if o == nil {
		return object{}
	}
	return o
}

// list are the objects of a list with their indices.
func list(o object, name string) []object {
	items, _ := o[name].([]any)
	found := make([]object, len(items))
	for i := range items {
		if found[i], _ = items[i].(object); found[i] == nil {
			found[i] = object{}
		}
	}
	return found
}

func text0(o object, key string) string {
	value, _ := o[key].(string)
	return value
}

// refersToParameter reports whether a text depends on a parameter, so that it is no secret and no identity.
func refersToParameter(text string) bool { return strings.Contains(text, "${") }

const (
	notPortable = "the object is not part of the package"
	identity    = "it is an identity of one virtual machine"
	secret      = "the package must not have secrets"
)

// machine strips a VirtualMachine.
func (s *stripper) machine(vm object) {
	delete(vm, "status")
	s.name = text0(child(vm, "metadata"), "name")
	s.metadata(vm, field.NewPath("spec", "virtualMachine"))
	spec := child(vm, "spec")
	s.metadata(child(spec, "template"), machineAt("template"))
	s.matcher(spec, "instancetype")
	s.matcher(spec, "preference")
	guest := child(spec, "template", "spec")
	at := machineAt("template", "spec")
	for _, key := range []string{"priorityClassName", "schedulerName", "resourceClaims"} {
		s.remove(guest, at, key, notPortable)
	}
	s.remove(guest, at, "accessCredentials", secret)
	domain := child(guest, "domain")
	firmware, chassis := child(domain, "firmware"), child(domain, "chassis")
	s.remove(firmware, at.Child("domain", "firmware"), "uuid", identity)
	s.remove(firmware, at.Child("domain", "firmware"), "serial", identity)
	s.remove(chassis, at.Child("domain", "chassis"), "serial", identity)
	s.remove(child(firmware, "kernelBoot", "container"), at.Child("domain", "firmware", "kernelBoot", "container"), "imagePullSecret", secret)
	devices := at.Child("domain", "devices")
	for i, nic := range list(child(domain, "devices"), "interfaces") {
		if !refersToParameter(text0(nic, "macAddress")) {
			s.remove(nic, devices.Child("interfaces").Index(i), "macAddress", identity)
		}
	}
	for i, disk := range list(child(domain, "devices"), "disks") {
		if !refersToParameter(text0(disk, "serial")) {
			s.remove(disk, devices.Child("disks").Index(i), "serial", identity)
		}
	}
	s.volumes(spec, guest)
}

// metadata keeps the name, the labels and the annotations.
func (s *stripper) metadata(o object, at *field.Path) {
	m, _ := o["metadata"].(object)
	for key := range m {
		if !slices.Contains([]string{"name", "generateName", "labels", "annotations"}, key) {
			delete(m, key)
		}
	}
	if annotations := child(m, "annotations"); annotations[lastApplied] != nil {
		delete(annotations, lastApplied)
		if len(annotations) == 0 {
			delete(m, "annotations")
		}
		s.removed(at.Child("metadata", "annotations").Key(lastApplied), "it repeats fields that are removed")
	}
	if m != nil && len(m) == 0 {
		delete(o, "metadata")
	}
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// matcher strips an instancetype or a preference that only one namespace or one cluster has.
func (s *stripper) matcher(spec object, key string) {
	m, at := child(spec, key), machineAt(key)
	s.remove(m, at, "revisionName", notPortable)
	kind := strings.ToLower(text0(m, "kind"))
	switch {
	case len(m) == 0:
	case m["inferFromVolume"] != nil:
		delete(spec, key)
		s.removed(at, "it depends on the labels of a volume of the cluster")
	case kind != "" && !strings.Contains(kind, "cluster"):
		delete(spec, key)
		s.removed(at, "an object of a namespace is not part of the package")
	}
}

// notVolumes are types of volumes that are not part of a package, and why.
var notVolumes = map[string]string{
	"configMap": notPortable, "secret": secret, "serviceAccount": secret, "sysprep": secret, "hostDisk": "a file of a node is not part of the package",
	"memoryDump": notPortable, "ephemeral": notPortable,
}

// volumes strips the volumes, with the disks of those that are removed.
func (s *stripper) volumes(spec, guest object) {
	at := machineAt("template", "spec", "volumes")
	gone, used := map[string]bool{}, map[string]bool{}
	volumes, exists := guest["volumes"].([]any)
	devices, shared := child(guest, "domain", "devices"), map[string]bool{}
	for _, f := range list(devices, "filesystems") {
		shared[text0(f, "name")] = true
	}
	var kept []any
	for i, v := range list(guest, "volumes") {
		if shared[text0(v, "name")] && (v["dataVolume"] != nil || v["persistentVolumeClaim"] != nil) {
			s.removed(at.Index(i), "the volume "+text0(v, "name")+" is not exported: it is a file system, not a disk")
			gone[text0(v, "name")] = true
		} else if s.volume(spec, v, at.Index(i)) {
			kept = append(kept, volumes[i])
			used[text0(child(v, "dataVolume"), "name")] = true
		} else {
			gone[text0(v, "name")] = true
		}
	}
	if exists {
		guest["volumes"] = kept
	}
	if exists && len(kept) == 0 {
		delete(guest, "volumes")
	}
	withoutNames(devices, "disks", gone)
	withoutNames(devices, "filesystems", gone)
	s.dataVolumes(spec, used)
}

// volume strips a volume. It reports whether the volume is kept.
func (s *stripper) volume(spec, v object, at *field.Path) bool {
	for key, why := range notVolumes {
		if v[key] != nil {
			s.removed(at, "the volume "+text0(v, "name")+" is not exported: "+why)
			return false
		}
	}
	for _, key := range []string{"cloudInitNoCloud", "cloudInitConfigDrive"} {
		if data, has := v[key].(object); has && !s.cloudInit(data, at.Child(key)) {
			s.removed(at, "the volume "+text0(v, "name")+" is not exported: nothing is left in it")
			return false
		}
	}
	s.remove(child(v, "containerDisk"), at.Child("containerDisk"), "imagePullSecret", secret)
	claim := text0(child(v, "persistentVolumeClaim"), "claimName")
	if claim == "" {
		claim = text0(child(v, "dataVolume"), "name")
	}
	if claim != "" && dataVolume(spec, claim) == nil {
		s.own(spec, v, at, claim)
	}
	return true
}

// own replaces a volume of the cluster by one that each virtual machine of the template gets.
func (s *stripper) own(spec, v object, at *field.Path, claim string) {
	s.removed(at, "the volume "+text0(v, "name")+" refers to "+claim+", which is not part of the package: each virtual machine gets its own copy")
	name := s.name + "-" + text0(v, "name")
	entries, _ := spec["dataVolumeTemplates"].([]any)
	spec["dataVolumeTemplates"] = append(entries, object{"metadata": object{"name": name}, "spec": object{"source": object{"upload": object{}}, "storage": object{}}})
	delete(v, "persistentVolumeClaim")
	v["dataVolume"] = object{"name": name}
}

// dataVolume is the entry of dataVolumeTemplates of a name, or nil.
func dataVolume(spec object, name string) object {
	for _, t := range list(spec, "dataVolumeTemplates") {
		if text0(child(t, "metadata"), "name") == name {
			return t
		}
	}
	return nil
}

// dataVolumes strips the DataVolumes. Their content is in the package, unless they are blank.
func (s *stripper) dataVolumes(spec object, used map[string]bool) {
	at := machineAt("dataVolumeTemplates")
	entries, exists := spec["dataVolumeTemplates"].([]any)
	var kept []any
	for i, t := range list(spec, "dataVolumeTemplates") {
		name := text0(child(t, "metadata"), "name")
		if !used[name] {
			s.removed(at.Index(i), "no volume refers to the DataVolume "+name)
			continue
		}
		kept = append(kept, entries[i])
		s.metadata(t, at.Index(i))
		delete(t, "status")
		d, at := child(t, "spec"), at.Index(i).Child("spec")
		source, _ := d["source"].(object)
		if source["blank"] == nil && source["upload"] == nil {
			s.removed(at.Child("source"), "the content of the DataVolume "+name+" is a file of the package")
			delete(d, "sourceRef")
			d["source"] = object{"upload": object{}}
		}
		for _, key := range []string{"priorityClassName", "checkpoints"} {
			s.remove(d, at, key, notPortable)
		}
		for _, claim := range []string{"storage", "pvc"} {
			for _, key := range []string{"storageClassName", "volumeName", "selector", "dataSource", "dataSourceRef"} {
				s.remove(child(d, claim), at.Child(claim), key, notPortable)
			}
		}
	}
	if exists {
		spec["dataVolumeTemplates"] = kept
	}
	if exists && len(kept) == 0 {
		delete(spec, "dataVolumeTemplates")
	}
}

// cloudInit strips the data of cloud-init. It reports whether any is left.
func (s *stripper) cloudInit(data object, at *field.Path) bool {
	for _, key := range []string{"secretRef", "networkDataSecretRef"} {
		s.remove(data, at, key, secret)
	}
	if s.keepUserData {
		return len(data) > 0
	}
	for _, key := range []string{"userData", "networkData"} {
		if plain := text0(data, key); plain != "" {
			s.text(data, at.Child(key), key, plain, func(text string) string { return text })
		}
		key += "Base64"
		encoded := text0(data, key)
		if encoded == "" || refersToParameter(encoded) {
			continue
		}
		plain, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			s.remove(data, at, key, "it is not base64, so its secrets cannot be found")
			continue
		}
		s.text(data, at.Child(key), key, string(plain), func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) })
	}
	return len(data) > 0
}

// text removes the secrets of a text in YAML.
func (s *stripper) text(data object, at *field.Path, key, plain string, encode func(string) string) {
	first, _, _ := strings.Cut(plain, "\n")
	var document yaml.Node
	if strings.HasPrefix(key, "userData") && strings.TrimSpace(first) != "#cloud-config" || yaml.Unmarshal([]byte(plain), &document) != nil || hasAlias(&document) {
		delete(data, key)
		s.removed(at, "it is not a #cloud-config in YAML without aliases, so its secrets cannot be found: keep it with the option for user data if it has none")
		return
	}
	var found []string
	stripNode(&document, "", &found)
	if len(found) == 0 {
		return
	}
	written, err := yaml.Marshal(&document)
	if err != nil {
		delete(data, key)
		s.removed(at, "it cannot be written without its secrets")
		return
	}
	if strings.HasPrefix(key, "userData") && !strings.HasPrefix(string(written), "#cloud-config") {
		written = append([]byte("#cloud-config\n"), written...)
	}
	data[key] = encode(string(written))
	s.removed(at, "secrets are removed: "+strings.Join(found, ", "))
}

var (
	// secretName matches names of keys and parameters with a secret as their value.
	secretName = regexp.MustCompile(`(?i)passw|passphrase|secret|token|private_?-?key|activation_?-?key|registration_?-?key|api_?-?key|validation_?-?(key|cert)|credential|^ssh_keys$|^chpasswd$`)
	// secretValue matches values that have a secret: a private key in PEM or of WireGuard, or a URL with a password.
	secretValue = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY|(?m:^\s*(?:PrivateKey|PresharedKey)\s*=)|[a-z]://[^/\s:@$]+:[^/\s@$]+@`)
)

// hasAlias reports whether a node has an alias: a secret can have another name where its anchor is.
func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

// stripNode removes the secrets of a node of YAML, and appends their paths.
func stripNode(n *yaml.Node, at string, found *[]string) {
	isSecret := func(name string, value *yaml.Node) bool {
		switch {
		case value.Kind == yaml.ScalarNode && (value.Tag == "!!bool" || value.Tag == "!!null"):
			return false
		case value.Kind == yaml.ScalarNode && secretValue.MatchString(value.Value):
			return true
		case value.Kind == yaml.ScalarNode && refersToParameter(value.Value):
			return false
		}
		return secretName.MatchString(name)
	}
	switch n.Kind {
	case yaml.MappingNode:
		var kept []*yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			below := strings.TrimPrefix(at+"."+name.Value, ".")
			if isSecret(name.Value, value) {
				*found = append(*found, below)
				continue
			}
			stripNode(value, below, found)
			kept = append(kept, name, value)
		}
		n.Content = kept
	case yaml.SequenceNode:
		var kept []*yaml.Node
		for i, value := range n.Content {
			below := fmt.Sprintf("%s[%d]", at, i)
			if isSecret("", value) {
				*found = append(*found, below)
				continue
			}
			stripNode(value, below, found)
			kept = append(kept, value)
		}
		n.Content = kept
	default:
		for _, c := range n.Content {
			stripNode(c, at, found)
		}
	}
}

// parameters removes the values of parameters that are secrets.
func (s *stripper) parameters(list []v1beta1.Parameter) {
	for i := range list {
		if p := &list[i]; p.Value != "" && secretName.MatchString(p.Name) {
			p.Value = ""
			s.removed(field.NewPath("spec", "parameters").Index(i).Child("value"), secret)
		}
	}
}
