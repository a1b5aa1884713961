package rollout

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
)

// maxActive bounds the rollouts of a namespace that are carried out. The others wait.
const maxActive = 20

// other is another rollout of the namespace.
type other struct {
	name     string
	older    bool
	active   bool
	selector labels.Selector
	// changing are the virtual machines that it is changing.
	changing map[string]types.UID
}

type rolloutFields struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Selector metav1.LabelSelector `json:"selector"`
		DryRun   bool                 `json:"dryRun"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64          `json:"observedGeneration"`
		Phase              v1alpha1.Phase `json:"phase"`
		Finished           *metav1.Time   `json:"finished"`
		VirtualMachines    []struct {
			Name  string         `json:"name"`
			UID   types.UID      `json:"uid"`
			State v1alpha1.State `json:"state"`
		} `json:"virtualMachines"`
	} `json:"status"`
}

// others reads the other rollouts of the namespace that are active or change virtual machines.
func (r *Reconciler) others(ctx context.Context, rollout *v1alpha1.VirtualMachineRollout) (found []other, err error) {
	list := pages.List{Resource: apikinds.Rollouts.GroupVersionResource(), Form: pages.JSON, Namespace: rollout.Namespace}
	_, err = r.Pages.Each(ctx, list, func(object pages.Object) error {
		f := rolloutFields{}
		if object.JSON == nil {
			return nil
		}
		if err := json.Unmarshal(object.JSON, &f); err != nil {
			return fmt.Errorf("reading VirtualMachineRollout %s: %w", object.Name, err)
		}
		if f.Metadata.UID == rollout.UID {
			return nil
		}
		o := other{name: f.Metadata.Name, older: isOlder(&f.Metadata, &rollout.ObjectMeta), changing: map[string]types.UID{}}
		for _, s := range f.Status.VirtualMachines {
			switch s.State {
			case v1alpha1.StateUpdating, v1alpha1.StateMigrating, v1alpha1.StateRestarting, v1alpha1.StateVerifying:
				o.changing[s.Name] = s.UID
			}
		}
		finished := f.Status.Finished != nil && f.Status.ObservedGeneration == f.Metadata.Generation
		if o.selector, err = metav1.LabelSelectorAsSelector(&f.Spec.Selector); err == nil {
			o.active = !finished && !f.Spec.DryRun && f.Metadata.DeletionTimestamp == nil && f.Status.Phase != v1alpha1.PhaseInvalid
		}
		if o.active || len(o.changing) > 0 {
			found = append(found, o)
		}
		return nil
	})
	return found, err
}

// isOlder orders rollouts by their creation, and those of the same second by their UIDs.
func isOlder(a, b *metav1.ObjectMeta) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// waitsFor is the name of another rollout that has priority for a virtual machine: one that is changing it, or an older
// one that selects it.
func waitsFor(others []other, vm *vmRecord) string {
	for i := range others {
		if uid, ok := others[i].changing[vm.name]; ok && uid == vm.uid {
			return others[i].name
		}
	}
	for i := range others {
		if o := &others[i]; o.active && o.older && o.selector.Matches(vm.labels) {
			return o.name
		}
	}
	return ""
}

// tooMany reports whether a rollout waits because its namespace has too many older ones.
func tooMany(others []other) bool {
	older := 0
	for i := range others {
		if others[i].active && others[i].older {
			older++
		}
	}
	return older >= maxActive
}
