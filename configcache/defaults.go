package configcache

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/mutators"
)

// siteDefaults is the resource that holds the admin's defaults.
var siteDefaults = policyv1alpha1.GroupVersion.WithResource("virtualmachinedefaults")

// Defaults keeps the site's defaults up to date by watching the VirtualMachineDefaults. One that cannot be
// used has no effect, and affects no other; without the kind, there are none.
type Defaults struct {
	*watched[policyv1alpha1.VirtualMachineDefaults, mutators.Site]
}

// NewDefaults prepares a watcher. onChange, if not nil, is called with each change of what is active, the
// first included, and with each error.
func NewDefaults(client dynamic.Interface, onChange func(Change)) (*Defaults, error) {
	w, err := newWatched(client, compiler[policyv1alpha1.VirtualMachineDefaults, mutators.Site]{
		kind:     apikinds.VirtualMachineDefaults,
		resource: siteDefaults,
		strip: func(o policyv1alpha1.VirtualMachineDefaults) policyv1alpha1.VirtualMachineDefaults {
			return policyv1alpha1.VirtualMachineDefaults{ObjectMeta: metav1.ObjectMeta{Name: o.Name}, Spec: o.Spec}
		},
		compile: func(objects []policyv1alpha1.VirtualMachineDefaults) (*mutators.Site, []string) {
			return mutators.NewSite(objects...)
		},
	}, onChange)
	return &Defaults{w}, err
}
