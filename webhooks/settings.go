package webhooks

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/validators"
)

// ruleSettings is the resource that holds the admin's severities of rules.
var ruleSettings = policyv1alpha1.GroupVersion.WithResource("rulesettings")

// SettingsWatcher keeps the settings of the rules up to date by watching the RuleSettings. An object that cannot be
// read leaves the last good settings in place, and so does a kind that vanishes; where there has been none since the
// start, nothing is set.
type SettingsWatcher struct {
	*watched[policyv1alpha1.RuleSettings, validators.Settings]
}

// NewSettingsWatcher prepares a watcher, given all rules there are. onChange, if not nil, is called with each
// change of what is in force, the first included, and with each error.
func NewSettingsWatcher(client dynamic.Interface, known validators.Table, onChange func(Change)) (*SettingsWatcher, error) {
	w, err := newWatched(client, compiler[policyv1alpha1.RuleSettings, validators.Settings]{
		kind:     "RuleSettings",
		resource: ruleSettings,
		strip: func(o policyv1alpha1.RuleSettings) policyv1alpha1.RuleSettings {
			return policyv1alpha1.RuleSettings{ObjectMeta: metav1.ObjectMeta{Name: o.Name}, Spec: o.Spec}
		},
		compile: func(objects []policyv1alpha1.RuleSettings) (*validators.Settings, []string) {
			return validators.NewSettings(known, objects...)
		},
	}, onChange)
	return &SettingsWatcher{w}, err
}

// Settings are those in force; nil, which sets nothing, until the cluster has been asked for the first time.
func (w *SettingsWatcher) Settings() *validators.Settings { return w.compiled() }
