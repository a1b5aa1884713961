package templates

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
)

// Uncovered is a part of a template that can change without a change of the digest.
type Uncovered struct {
	// Path is the field, such as spec.virtualMachine.spec.instancetype.
	Path string
	// Reason says why an approval does not cover it.
	Reason string
}

// maxUncovered bounds what a review lists.
const maxUncovered = 200

// dependency is a field that refers to something outside the template.
type dependency struct {
	// path is from the VirtualMachine on; [] is each element of a list.
	path string
	// reason says why an approval does not cover a value; empty if it does.
	reason func(value any) string
}

// The sources of a volume's content in a DataVolume.
const (
	dataVolumeSource = "spec.dataVolumeTemplates[].spec.source"
	volume           = "spec.template.spec.volumes[]"
	domain           = "spec.template.spec.domain"
	access           = "spec.template.spec.accessCredentials[]"
)

// dependencies are the fields of a VirtualMachine that refer to something outside the template.
func dependencies() []dependency {
	return []dependency{
		{"spec.instancetype", unversioned("instancetype")},
		{"spec.preference", unversioned("preference")},
		{volume + ".containerDisk.image", byTag},
		{domain + ".firmware.kernelBoot.container.image", byTag},
		{dataVolumeSource + ".registry.url", byTag},
		{dataVolumeSource + ".registry.imageStream", can("the tag of an image stream can move to another image")},
		{dataVolumeSource + ".http.url", can("the content at a URL can change")},
		{dataVolumeSource + ".s3.url", can("the content at a URL can change")},
		{dataVolumeSource + ".gcs.url", can("the content at a URL can change")},
		{dataVolumeSource + ".imageio", can("the content of the disk can change")},
		{dataVolumeSource + ".vddk", can("the content of the disk can change")},
		{dataVolumeSource + ".pvc", can("the content of a PersistentVolumeClaim can change")},
		{dataVolumeSource + ".snapshot", can("a VolumeSnapshot of the name can be replaced")},
		{"spec.dataVolumeTemplates[].spec.sourceRef", can("a DataSource can refer to another image")},
		{dataVolumeSource + ".http.secretRef", secret},
		{dataVolumeSource + ".s3.secretRef", secret},
		{dataVolumeSource + ".gcs.secretRef", secret},
		{dataVolumeSource + ".registry.secretRef", secret},
		{dataVolumeSource + ".imageio.secretRef", secret},
		{dataVolumeSource + ".vddk.secretRef", secret},
		{dataVolumeSource + ".http.secretExtraHeaders[]", secret},
		{dataVolumeSource + ".http.certConfigMap", configMap},
		{dataVolumeSource + ".s3.certConfigMap", configMap},
		{dataVolumeSource + ".registry.certConfigMap", configMap},
		{dataVolumeSource + ".imageio.certConfigMap", configMap},
		{volume + ".dataVolume.name", can("the content of a DataVolume can change")},
		{volume + ".persistentVolumeClaim.claimName", can("the content of a PersistentVolumeClaim can change")},
		{volume + ".ephemeral.persistentVolumeClaim.claimName", can("the content of a PersistentVolumeClaim can change")},
		{volume + ".hostDisk.path", can("the file of a node can change")},
		{volume + ".secret.secretName", secret},
		{volume + ".configMap.name", configMap},
		{volume + ".sysprep.secret.name", secret},
		{volume + ".sysprep.configMap.name", configMap},
		{volume + ".serviceAccount.serviceAccountName", can("the permissions of a service account can change")},
		{volume + ".cloudInitNoCloud.secretRef.name", secret},
		{volume + ".cloudInitNoCloud.networkDataSecretRef.name", secret},
		{volume + ".cloudInitConfigDrive.secretRef.name", secret},
		{volume + ".cloudInitConfigDrive.networkDataSecretRef.name", secret},
		{access + ".sshPublicKey.source.secret.secretName", secret},
		{access + ".userPassword.source.secret.secretName", secret},
		{"spec.template.spec.networks[].multus.networkName", can("a NetworkAttachmentDefinition can change")},
		{"spec.template.spec.priorityClassName", can("the priority of a class can change")},
	}
}

// can is the reason for every value.
func can(reason string) func(any) string { return func(any) string { return reason } }

func secret(any) string { return "the content of a Secret can change" }

func configMap(any) string { return "the content of a ConfigMap can change" }

// byTag is the reason for an image without a digest.
func byTag(value any) string {
	image, ok := value.(string)
	if _, digest, found := strings.Cut(image, "@sha256:"); ok && found && len(digest) == 64 && !hasReference(image) {
		return ""
	}
	return "the tag of an image can move to another image; use a digest: IMAGE@sha256:…"
}

// unversioned is the reason for an instancetype or a preference without a revision.
func unversioned(kind string) func(any) string {
	return func(value any) string {
		matcher, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		if name, ok := matcher["revisionName"].(string); ok && name != "" && !hasReference(name) {
			return ""
		}
		return "the " + kind + " can change; use a revisionName"
	}
}

// FindUncovered lists what an approval of a template does not cover, by the paths of the fields.
func FindUncovered(spec *v1beta1.VirtualMachineTemplateSpec) []Uncovered {
	if spec.VirtualMachine == nil {
		return nil
	}
	parsed, err := parseJSON(bytes.TrimSpace(spec.VirtualMachine.Raw))
	if err != nil {
		return nil // such a template makes no VirtualMachine
	}
	var found []Uncovered
	for _, d := range dependencies() {
		each(parsed, virtualMachineAt, strings.Split(d.path, "."), func(path string, value any) {
			if reason := d.reason(value); reason != "" && len(found) < maxUncovered {
				found = append(found, Uncovered{Path: path, Reason: reason + chosen(value)})
			}
		})
	}
	names := &keys{more: func() bool { return len(found) < maxUncovered }, do: func(path string) {
		found = append(found, Uncovered{Path: path, Reason: "a parameter chooses the name of the field"})
	}}
	names.find(parsed)
	inTexts := &written{unlimited: unlimitedOf(spec.Parameters), more: names.more, do: func(path, reason string) {
		found = append(found, Uncovered{Path: path, Reason: reason})
	}}
	inTexts.find(parsed, virtualMachineShape())
	if !names.more() {
		found = append(found[:maxUncovered-1], Uncovered{Path: virtualMachineAt, Reason: fmt.Sprintf("the list is incomplete: the template has more than %d entries", maxUncovered-2)})
	}
	slices.SortStableFunc(found, func(a, b Uncovered) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// unlimitedOf are the names of the parameters that have no constraint.
func unlimitedOf(parameters []v1beta1.Parameter) map[string]bool {
	names := map[string]bool{}
	for i := range parameters {
		if p := &parameters[i]; !isConstrained(p) {
			names[p.Name] = true
		}
	}
	return names
}

// written finds the texts that a program reads and that parameters without a constraint are in.
type written struct {
	path      []step
	unlimited map[string]bool
	// more reports whether further texts are wanted.
	more func() bool
	do   func(at, reason string)
}

func (w *written) find(value any, s *shape) {
	if !w.more() || len(w.path) > maxDepth {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			kind, child := keyStep, s.element
			if s.kind == object {
				kind, child = fieldStep, s.fields[key]
			}
			w.below(v[key], child, step{name: key, kind: kind})
		}
	case []any:
		for i, element := range v {
			w.below(element, s.element, step{index: i, kind: indexStep})
		}
	case string:
		w.text(v)
	}
}

func (w *written) below(value any, s *shape, at step) {
	if s == nil {
		s = &shape{}
	}
	w.path = append(w.path, at)
	w.find(value, s)
	w.path = w.path[:len(w.path)-1]
}

func (w *written) text(text string) {
	if !hasReference(text) {
		return
	}
	form := formOf(w.path)
	if form == plainText {
		return
	}
	names := map[string]bool{}
	eachName(text, func(name string) {
		if w.unlimited[name] {
			names[name] = true
		}
	})
	if len(names) > 0 {
		w.do(pathOf(w.path), "no type, enum or pattern limits what users write in this text with "+texts.Shorten(strings.Join(slices.Sorted(maps.Keys(names)), ", "), maxShown))
	}
}

// each calls do for each value at a path.
func each(value any, at string, path []string, do func(at string, value any)) {
	if len(path) == 0 {
		if value != nil {
			do(at, value)
		}
		return
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return
	}
	name, isList := strings.CutSuffix(path[0], "[]")
	at += "." + name
	if !isList {
		each(fields[name], at, path[1:], do)
		return
	}
	elements, ok := fields[name].([]any)
	if !ok {
		return
	}
	for i, element := range elements {
		each(element, fmt.Sprintf("%s[%d]", at, i), path[1:], do)
	}
}

// keys finds the keys of maps that refer to a parameter. Paths are made only for these: users choose their length.
type keys struct {
	path []step
	// more reports whether further paths are wanted.
	more func() bool
	do   func(at string)
}

func (k *keys) find(value any) {
	if !k.more() {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			s := step{name: key}
			chosen := hasReference(key)
			if chosen {
				s = step{name: texts.Shorten(key, maxShown), kind: keyStep}
			}
			k.path = append(k.path, s)
			if chosen && k.more() {
				k.do(pathOf(k.path))
			}
			k.find(v[key])
			k.path = k.path[:len(k.path)-1]
		}
	case []any:
		for i, element := range v {
			k.path = append(k.path, step{index: i, kind: indexStep})
			k.find(element)
			k.path = k.path[:len(k.path)-1]
		}
	}
}

// chosen says which parameters choose a value.
func chosen(value any) string {
	var names []string
	note := func(text string) {
		if name, whole := wholeReference(text); whole {
			names = append(names, name)
			return
		}
		for _, s := range split(text) {
			if s.reference {
				names = append(names, s.text)
			}
		}
	}
	eachText(value, note)
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; the user chooses it with " + texts.Shorten(strings.Join(slices.Compact(names), ", "), maxShown)
}

// eachText calls do for each string in a value.
func eachText(value any, do func(string)) {
	switch v := value.(type) {
	case string:
		do(v)
	case map[string]any:
		for _, element := range v {
			eachText(element, do)
		}
	case []any:
		for _, element := range v {
			eachText(element, do)
		}
	}
}
