package configcache

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/validators"
)

// ruleSettings is the resource that holds the admin's severities of rules.
var ruleSettings = policyv1alpha1.GroupVersion.WithResource("rulesettings")

// Settings keeps the settings of the rules up to date by watching the RuleSettings. An object that cannot be
// read leaves the last good settings in place, and so does a kind that vanishes; where there has been none since the
// start, nothing is set.
type Settings struct {
	*watched[policyv1alpha1.RuleSettings, validators.Settings]
}

// NewSettings prepares a watcher, given all rules there are. onChange, if not nil, is called with each
// change of what is active, the first included, and with each error.
func NewSettings(client dynamic.Interface, known validators.Table, onChange func(Change)) (*Settings, error) {
	w, err := newWatched(client, compiler[policyv1alpha1.RuleSettings, validators.Settings]{
		kind:     apikinds.RuleSettings,
		resource: ruleSettings,
		strip: func(o policyv1alpha1.RuleSettings) policyv1alpha1.RuleSettings {
			return policyv1alpha1.RuleSettings{ObjectMeta: metav1.ObjectMeta{Name: o.Name}, Spec: o.Spec}
		},
		compile: func(objects []policyv1alpha1.RuleSettings) (*validators.Settings, []string) {
			return validators.NewSettings(known, objects...)
		},
	}, onChange)
	return &Settings{w}, err
}
