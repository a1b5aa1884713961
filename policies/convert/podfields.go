package convert

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/texts"
)

// podType is the type of the pods that rules about pods of virtual machines read.
var podType = reflect.TypeFor[corev1.Pod]()

// podField is a field of the pod of a virtual machine.
type podField struct {
	// path has names without indexes. * is any key of a map, ** is everything below a field, and # is the length of a list.
	path string
	// reading is the expression of the field; empty for the field of the variable pod.
	reading string
	// byDefault is the value that the API server sets where KubeVirt sets none; empty if it sets none.
	byDefault string
	// vm is the field of a VirtualMachine that decides it, with the key of a map as *; empty if there is no such one. The field of
	// the pod is larger by more.
	vm   string
	more int64
	// unknown says why a field is not known before the pod exists; empty if it is known.
	unknown string
}

// Reasons why fields of pods are not known before they exist.
const (
	byLimits      = "ResourceQuotas and LimitRanges of the namespace can set it"
	byAPIServer   = "the API server sets it when the pod is created"
	byRelease     = "it depends on the release of KubeVirt and on its registry"
	byUID         = "it has the UID of the instance"
	byScheduler   = "it is set when the pod is scheduled"
	byKubeVirt    = "KubeVirt sets keys below kubevirt.io/ that have the UID of the instance or its node"
	byMultus      = "components of networks write keys below k8s.v1.cni.cncf.io/"
	byTolerations = "the API server adds tolerations for nodes that are not ready"
	byPriority    = "a PriorityClass with globalDefault sets it where the virtual machine has none"
	byAccount     = "the ServiceAccount of the pod can add secrets"
	byStateClaim  = "the claim with the state of a virtual machine has a random name"
	byPodStatus   = "the pod does not exist yet"
	byName        = "it has a random suffix: generateName has the rest"
	byVolume      = "the API server can add a volume with the token of the ServiceAccount"
	byKind        = "it is not known before the pod exists"
	byProbe       = "KubeVirt sets it from the field of this name of the virtual machine"
)

// podFields are the fields of the pod of a virtual machine, the first that matches a path: those that the variable pod has as the
// API server stores them when KubeVirt creates the pod, and those that it does not know.
func podFields() []podField {
	const template = "spec.template."
	of := func(list string) []podField {
		return []podField{
			{path: list + ".name"},
			{path: list + ".securityContext.**"},
			{path: list + ".resources.requests.memory", vm: template + "spec.domain.resources.requests.memory"},
			{path: list + ".resources.requests.cpu", vm: template + "spec.domain.resources.requests.cpu"},
			{path: list + ".resources.limits.**", unknown: byLimits},
			{path: list + ".resources.requests.**", unknown: byLimits},
			{path: list + ".ports.name"},
			{path: list + ".ports.containerPort"},
			{path: list + ".ports.protocol"},
			{path: list + ".ports.hostPort"},
			{path: list + ".image", unknown: byRelease},
			{path: list + ".imagePullPolicy", unknown: byRelease},
			{path: list + ".args.**", unknown: byUID},
			{path: list + ".command.**", unknown: byRelease},
			{path: list + ".env.**", unknown: byUID},
			{path: list + ".volumeMounts.**", unknown: byUID},
			{path: list + ".livenessProbe.**", unknown: byProbe},
			{path: list + ".readinessProbe.**", unknown: byProbe},
			{path: list + ".**", unknown: byAPIServer},
		}
	}
	return slices.Concat(
		[]podField{
			{path: "apiVersion"},
			{path: "kind"},
			{path: "metadata.namespace", reading: "request.namespace", vm: "metadata.namespace"},
			{path: "metadata.name", unknown: byName},
			{path: "metadata.generateName"},
			{path: "metadata.labels.kubevirt.io/**", unknown: byKubeVirt},
			{path: "metadata.labels.*", vm: template + "metadata.labels.*"},
			{path: "metadata.annotations.kubevirt.io/**", unknown: byKubeVirt},
			{path: "metadata.annotations.k8s.v1.cni.cncf.io/**", unknown: byMultus},
			{path: "metadata.annotations.*", vm: template + "metadata.annotations.*"},
			{path: "metadata.**", unknown: byAPIServer},
			{path: "spec.affinity.**"},
			{path: "spec.automountServiceAccountToken"},
			{path: "spec.dnsConfig.**"},
			{path: "spec.dnsPolicy", byDefault: string(corev1.DNSClusterFirst), vm: template + "spec.dnsPolicy"},
			{path: "spec.enableServiceLinks"},
			{path: "spec.ephemeralContainers.**"}, // a new pod has none
			{path: "spec.hostIPC"},
			{path: "spec.hostNetwork"},
			{path: "spec.hostPID"},
			{path: "spec.hostname", vm: template + "spec.hostname"},
			{path: "spec.nodeSelector.scheduling.node.kubevirt.io/**", unknown: byScheduler},
			{path: "spec.nodeSelector.*", vm: template + "spec.nodeSelector.*"},
			{path: "spec.readinessGates.**"},
			{path: "spec.restartPolicy"},
			{path: "spec.runtimeClassName"},
			{path: "spec.schedulerName", byDefault: corev1.DefaultSchedulerName, vm: template + "spec.schedulerName"},
			{path: "spec.securityContext.**"},
			{path: "spec.serviceAccountName", byDefault: "default"},
			{path: "spec.subdomain", vm: template + "spec.subdomain"},
			{path: "spec.terminationGracePeriodSeconds", vm: template + "spec.terminationGracePeriodSeconds", more: 30},
			{path: "spec.topologySpreadConstraints.**"},
			{path: "spec.volumes.#", unknown: byVolume},
			{path: "spec.volumes.configMap.name"},
			{path: "spec.volumes.hostPath.path"},
			{path: "spec.volumes.secret.secretName"},
			{path: "spec.volumes.persistentVolumeClaim.**", unknown: byStateClaim},
			{path: "spec.imagePullSecrets.**", unknown: byAccount},
			{path: "spec.tolerations.**", unknown: byTolerations},
			{path: "spec.priorityClassName", unknown: byPriority},
			{path: "spec.nodeName", unknown: byScheduler},
			{path: "status.**", unknown: byPodStatus},
		},
		of("spec.containers"), of("spec.initContainers"),
	)
}

// rowsOfPods is podFields. It is not changed.
var rowsOfPods = podFields()

// podFieldOf returns the row for a path; nil for objects and lists around known fields. unknown is why a field is not known.
func podFieldOf(path []string) (row *podField, unknown string) {
	steps := slices.DeleteFunc(slices.Clone(path), func(step string) bool { return step == everyElement })
	around := strings.Join(steps, ".") + "."
	i := slices.IndexFunc(rowsOfPods, func(f podField) bool { return f.matches(steps) })
	switch {
	case i >= 0 && rowsOfPods[i].unknown == "":
		return &rowsOfPods[i], ""
	case slices.ContainsFunc(rowsOfPods, func(f podField) bool { return f.unknown == "" && strings.HasPrefix(f.path, around) }):
		return nil, ""
	case i >= 0:
		return &rowsOfPods[i], rowsOfPods[i].unknown
	}
	return nil, byKind
}

// known returns the value of a field that has another expression than the field of the variable. It is false for the others.
func (f *podField) known(steps []string) (ref, bool) {
	made := ref{typ: reflect.TypeFor[string](), steps: steps}
	switch {
	case f == nil:
		return ref{}, false
	case f.reading != "":
		made.path = f.reading
	case f.byDefault != "":
		before, last := strings.Join(steps[:len(steps)-1], "."), steps[len(steps)-1]
		made.path = "pod." + before + ".?" + last + ".orValue(" + quote(f.byDefault) + ")"
	default:
		return ref{}, false
	}
	return made, true
}

// everyKeyRead is the note of a policy that reads all labels or annotations.
const everyKeyRead = "it reads all labels or annotations: those with the UID of the instance have an empty one"

// unknownKeyOf says why a match has a label or an annotation that is not known; empty if it is known. of is labels or annotations. The key
// can have wildcards.
func unknownKeyOf(of, key string) string {
	steps := []string{"metadata", of}
	_, unknown := podFieldOf(append(slices.Clone(steps), key))
	if wild(key) {
		unknown = keyUnknown(steps, key)
	}
	if unknown == "" {
		return ""
	}
	return "its match has the " + strings.TrimSuffix(of, "s") + " " + texts.Shorten(key, maxQuoted) + ": " + unknown
}

// unknownLabel is unknownKeyOf for the first such label of a selector.
func unknownLabel(s *metav1.LabelSelector) string {
	for _, key := range selectedKeys(s) {
		if unknown := unknownKeyOf("labels", key); unknown != "" {
			return unknown
		}
	}
	return ""
}

// machineField returns the field of an instance that decides a field of its pod; nil if several do, or none of its spec.
func machineField(path []string) []string {
	row, _ := podFieldOf(path)
	if row == nil {
		return nil
	}
	below, ok := strings.CutPrefix(row.vm, "spec.template.spec.")
	if !ok {
		return nil
	}
	return strings.Split("spec."+strings.TrimSuffix(below, ".*"), ".")
}

// podSource returns the field of a VirtualMachine that decides a field of its pod, with the values that give the field of the pod its
// values. The path is nil if none decides it, or several do.
func podSource(path []string, values []any) (source []string, of []any) {
	row, _ := podFieldOf(path)
	if row == nil && anyKey(path) { // a map as a whole
		one, _ := podSource(append(slices.Clone(path), "*"), nil)
		return one[:len(one)-1], values
	}
	if row == nil || row.vm == "" {
		return nil, nil
	}
	source = strings.Split(row.vm, ".")
	if last := len(source) - 1; source[last] == "*" {
		source[last] = path[len(path)-1]
	}
	of = slices.DeleteFunc(slices.Clone(values), func(value any) bool { return value == "" && row.reading != "" }) // each request has a namespace
	for i := range of {
		if n, ok := of[i].(int64); ok {
			of[i] = max(n-row.more, 0)
		}
	}
	return source, of
}

// countUnknown says why the length of a list is not known; empty if it is.
func countUnknown(path []string) string {
	for i := range rowsOfPods {
		if rowsOfPods[i].path == strings.Join(path, ".")+".#" {
			return rowsOfPods[i].unknown
		}
	}
	return ""
}

// matches reports whether a row is about a path.
func (f *podField) matches(steps []string) bool {
	whole := strings.Join(steps, ".")
	if before, ok := strings.CutSuffix(f.path, "/**"); ok { // a part of a key
		return strings.HasPrefix(whole, before+"/")
	}
	if before, ok := strings.CutSuffix(f.path, ".**"); ok {
		return whole == before || strings.HasPrefix(whole, before+".")
	}
	if before, ok := strings.CutSuffix(f.path, ".*"); ok {
		return len(steps) == strings.Count(before, ".")+2 && strings.HasPrefix(whole, before+".")
	}
	return whole == f.path
}

// keyUnknown says why the keys of labels or annotations that match a key with wildcards are not all known; empty if they are.
func keyUnknown(steps []string, name string) string {
	literal, _, _ := strings.Cut(strings.ReplaceAll(name, "?", "*"), "*")
	of := strings.Join(steps, ".") + "."
	for i := range rowsOfPods {
		prefix, ok := strings.CutSuffix(rowsOfPods[i].path, "**")
		key, within := strings.CutPrefix(prefix, of)
		if ok && within && key != "" && (strings.HasPrefix(key, literal) || strings.HasPrefix(literal, key)) {
			return rowsOfPods[i].unknown
		}
	}
	return ""
}
