package platform

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/limits/decode"
)

// Instance reads the VirtualMachineInstance of a VM. It is not cached. The error is NotFound if it does not exist, and
// ErrTooLarge if it is not small.
func (o *Objects) Instance(ctx context.Context, namespace, name string) (*v1.VirtualMachineInstance, error) {
	done, err := reserve(ctx, o.shares, reserveTyped)
	if err != nil {
		return nil, err
	}
	defer done()
	var instance *v1.VirtualMachineInstance
	_, err = o.reader.small(ctx, apikinds.VirtualMachineInstances.GroupVersionResource(), namespace, name, reflect.TypeFor[v1.VirtualMachineInstance](), func(evaluated []byte) (err error) {
		instance, err = o.running(evaluated)
		return err
	})
	return instance, err
}

// running decodes an instance. Decoded specs are cached by the digest of their bytes. So the second request about a VM, such
// as the update after its dry run, does not decode it again, and an outdated spec is never used. The spec is shared: do not
// change it.
func (o *Objects) running(evaluated []byte) (*v1.VirtualMachineInstance, error) {
	found := &runningInstance{}
	from, to := specOf(evaluated)
	if from == to || evaluated[from] != '{' {
		err := decoded(evaluated, found)
		return found.instance(&v1.VirtualMachineInstanceSpec{}), err
	}
	digest := sha256.Sum256(evaluated[from:to])
	key := "running/" + string(digest[:])
	cached, _ := o.cache.get(key)
	if spec, ok := cached.(*v1.VirtualMachineInstanceSpec); ok {
		if err := decoded(slices.Concat(evaluated[:from], []byte("null"), evaluated[to:]), found); err != nil {
			return nil, err
		}
		return found.instance(spec), nil
	}
	if err := decoded(evaluated, found); err != nil {
		return nil, err
	}
	spec := (*v1.VirtualMachineInstanceSpec)(found.Spec)
	if spec.DNSConfig != nil {
		spec = &v1.VirtualMachineInstanceSpec{}
		if err := decoded(evaluated[from:to], spec); err != nil {
			return nil, err
		}
	}
	o.cache.add(key, spec, typedSize(evaluated[from:to]), immutableTTL)
	return found.instance(spec), nil
}

// specOf returns where the spec of an object is; nothing if it has none.
func specOf(object []byte) (from, to int) {
	decode.Members(object, 0, func(name []byte, at int) int {
		end := decode.Skip(object, at)
		if string(name) == "spec" {
			from, to = at, end
		}
		return end
	})
	return from, to
}

// plainSpec is decoded in one pass. The decoder of its original needs two: it only changes the addresses of name servers.
type plainSpec v1.VirtualMachineInstanceSpec

// runningInstance is the part of a VirtualMachineInstance that plans need: without times, nodes, and the status of the guest.
type runningInstance struct {
	Metadata struct {
		Name              string                  `json:"name"`
		Namespace         string                  `json:"namespace"`
		UID               types.UID               `json:"uid"`
		CreationTimestamp metav1.Time             `json:"creationTimestamp"`
		DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
		Labels            map[string]string       `json:"labels"`
		Annotations       map[string]string       `json:"annotations"`
		OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec   *plainSpec `json:"spec"`
	Status struct {
		Phase                      v1.VirtualMachineInstancePhase              `json:"phase"`
		Conditions                 []v1.VirtualMachineInstanceCondition        `json:"conditions"`
		Interfaces                 []v1.VirtualMachineInstanceNetworkInterface `json:"interfaces"`
		Memory                     *v1.MemoryStatus                            `json:"memory"`
		CurrentCPUTopology         *v1.CPUTopology                             `json:"currentCPUTopology"`
		MigrationState             *v1.VirtualMachineInstanceMigrationState    `json:"migrationState"`
		MigratedVolumes            []v1.StorageMigratedVolumeInfo              `json:"migratedVolumes"`
		VolumeStatus               []v1.VolumeStatus                           `json:"volumeStatus"`
		VirtualMachineRevisionName string                                      `json:"virtualMachineRevisionName"`
	} `json:"status"`
}

func (r *runningInstance) instance(spec *v1.VirtualMachineInstanceSpec) *v1.VirtualMachineInstance {
	m, s := &r.Metadata, &r.Status
	return &v1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, Namespace: m.Namespace, UID: m.UID, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
			Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences,
		},
		Spec: *spec,
		Status: v1.VirtualMachineInstanceStatus{
			Phase: s.Phase, Conditions: s.Conditions, Interfaces: s.Interfaces, Memory: s.Memory, CurrentCPUTopology: s.CurrentCPUTopology, MigrationState: s.MigrationState,
			MigratedVolumes: s.MigratedVolumes, VolumeStatus: s.VolumeStatus, VirtualMachineRevisionName: s.VirtualMachineRevisionName,
		},
	}
}

// Machine reads a VirtualMachine, with memory for its instance and the spec of its start. It is not cached. The error is
// NotFound if it does not exist, and ErrTooLarge if it is not small.
func (o *Objects) Machine(ctx context.Context, namespace, name string) (*v1.VirtualMachine, error) {
	done, err := reserve(ctx, o.shares, ReserveMachine)
	if err != nil {
		return nil, err
	}
	defer done()
	vm := &v1.VirtualMachine{}
	_, err = o.reader.typed(ctx, apikinds.VirtualMachines.GroupVersionResource(), namespace, name, reflect.TypeFor[v1.VirtualMachine](), vm)
	return vm, err
}

// StartedSpec reads the spec that an instance was started with from the ControllerRevision that it names. The spec is
// cached, as revisions never change, and shared: do not change it. It has no template if the revision has no spec of a VM.
func (o *Objects) StartedSpec(ctx context.Context, namespace, revision string) (*v1.VirtualMachineSpec, error) {
	key := strings.Join([]string{"started", namespace, revision}, "/")
	switch found, _ := o.cache.get(key); found := found.(type) {
	case *v1.VirtualMachineSpec:
		return found, nil
	case error:
		return nil, found
	}
	done, err := reserve(ctx, o.shares, reserveTyped)
	if err != nil {
		return nil, err
	}
	defer done()
	kind := resources[apikinds.ControllerRevisions.GroupKind()]
	found := &startRevision{}
	size, err := o.reader.typed(ctx, kind.GroupVersionResource, namespace, revision, reflect.TypeFor[startRevision](), found)
	if err != nil {
		return nil, o.failed(kind, key, err)
	}
	o.cache.add(key, &found.Data.Spec, size, immutableTTL)
	return &found.Data.Spec, nil
}

// startRevision is the part of a ControllerRevision in which KubeVirt stores the spec of a VM.
type startRevision struct {
	Data struct {
		Spec v1.VirtualMachineSpec `json:"spec"`
	} `json:"data"`
}

// answer holds an answer, and what is evaluated of it, while it is decoded. Decoded objects do not refer to it.
type answer struct {
	raw       bytes.Buffer
	evaluated []byte
}

// answers are used again, but for those above maxBuffer.
var answers = sync.Pool{New: func() any { return &answer{} }}

const maxBuffer = 32 << 10

func (a *answer) free() {
	if a.raw.Cap() <= maxBuffer && cap(a.evaluated) <= maxBuffer {
		answers.Put(a)
	}
}

// typed decodes a small object of a Go type, or a part of it.
func (r *reader) typed(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, of reflect.Type, into any) (size int64, err error) {
	return r.small(ctx, resource, namespace, name, of, func(evaluated []byte) error { return decoded(evaluated, into) })
}

// small reads a small object that will be decoded into a Go type. Its bytes are only valid during the call of use. The error
// is ErrTooLarge if it exceeds a limit; two objects fit into reserveTyped.
func (r *reader) small(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, of reflect.Type, use func(evaluated []byte) error) (size int64, err error) {
	a := answers.Get().(*answer)
	defer a.free()
	a.raw.Reset()
	raw, err := r.rawInto(ctx, r.request(resource, namespace).Name(name), maxSmall, &a.raw)
	if err != nil {
		return 0, err
	}
	evaluated, limit := decode.EvaluatedIn(&a.evaluated, raw, of)
	brackets := decode.Brackets(raw)
	if limit != nil || brackets > maxTypedValues && decode.Brackets(evaluated) > maxTypedValues {
		return 0, ErrTooLarge
	}
	return sizeOf(raw, brackets), use(evaluated)
}

// typedSize is the size of the JSON of an object for the cache. In their Go types, empty objects and lists need more memory
// than their JSON.
func typedSize(raw []byte) int64 { return sizeOf(raw, decode.Brackets(raw)) }

func sizeOf(raw []byte, brackets int) int64 { return int64(len(raw)) + bytesPerBracket*int64(brackets) }

// bytesPerBracket is the bytes of JSON that an object or a list counts for.
const bytesPerBracket = 24

// decoded decodes a bounded part of a response.
func decoded(evaluated []byte, into any) (err error) {
	defer func() {
		if cause := recover(); cause != nil { // the types of some fields have decoders of their own
			err = fmt.Errorf("decoding a response of the API server failed: %.200v", cause)
		}
	}()
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(evaluated, into); err != nil {
		return fmt.Errorf("decoding a response of the API server: %w", err)
	}
	return nil
}
