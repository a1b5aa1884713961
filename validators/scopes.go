package validators

import (
	"strings"

	"github.com/virtward/virtward/api/apikinds"
)

// ScopeName is the name for users of what a rule checks.
type ScopeName struct {
	// Name is for tables and documents, Word for the command line.
	Name, Word string
	// Scopes are the scopes behind it.
	Scopes Scope
}

// ScopeNames are all names, in the order in which they are listed. A spec runs in a VMI and is looked at in the
// VM already, so a scope may have several names.
func ScopeNames() []ScopeName {
	return []ScopeName{
		{Name: "VM", Word: "vm", Scopes: OnSpec | OnVM},
		{Name: "VM update", Word: "vm-update", Scopes: OnVMUpdate},
		{Name: "VMI", Word: "vmi", Scopes: OnSpec | OnVMI},
		{Name: "VMI update (hotplug)", Word: "vmi-update", Scopes: OnVMIUpdate},
		{Name: "instancetype", Word: "instancetype", Scopes: OnInstancetype},
		{Name: "preference", Word: "preference", Scopes: OnPreference},
		{Name: "replica set or pool", Word: "set", Scopes: OnSet},
		{Name: apikinds.RuleSettings, Word: "rulesettings", Scopes: OnSettings},
		{Name: apikinds.VirtualMachineDefaults, Word: "defaults", Scopes: OnDefaults},
		{Name: apikinds.VirtualMachinePolicy, Word: "policy", Scopes: OnPolicies},
		{Name: apikinds.VirtualMachinePolicyException, Word: "exception", Scopes: OnExceptions},
		{Name: "restore or clone", Word: "copy", Scopes: OnCopy},
		{Name: "VirtualMachineRollout", Word: "rollout", Scopes: OnRollouts},
		{Name: "GoldenImageCatalog", Word: "catalog", Scopes: OnCatalogs},
		{Name: "Plugin", Word: "plugin", Scopes: OnPlugins},
	}
}

// Names are those of what a rule with this scope looks at.
func (s Scope) Names() []string {
	var names []string
	for _, n := range ScopeNames() {
		if s&n.Scopes != 0 {
			names = append(names, n.Name)
		}
	}
	return names
}

// String lists the names.
func (s Scope) String() string { return strings.Join(s.Names(), ", ") }
