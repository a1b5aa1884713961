package validators

import "testing"

func TestInstancetypes(t *testing.T) {
	const staged = `{vmRolloutStrategy: Stage}`
	runCases(t, instancetypeRules(), OnInstancetype, []ruleCase{
		{name: "nothing"},
		{name: "small", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi}}`},
		{name: "no amounts", instancetype: `{cpu: {guest: 0}, memory: {guest: 0}}`},
		{name: "overcommitted not at all", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi, overcommitPercent: 0, hugepages: {pageSize: 2Mi}}}`},
		{name: "overcommitted", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi, overcommitPercent: 100}}`},
		{
			name: "overcommitted by too much", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi, overcommitPercent: 101}}`,
			want: []string{`instancetype-overcommit-range: spec.memory.overcommitPercent: Invalid value: 101: must be from 0 to 100`},
		},
		{
			name: "overcommitted by less than nothing, with hugepages", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi, overcommitPercent: -1, hugepages: {pageSize: 1Gi}}}`,
			want: []string{
				`instancetype-overcommit-hugepages: spec.memory.overcommitPercent: Invalid value: -1: memory.hugepages is set, and hugepages cannot be overcommitted`,
				`instancetype-overcommit-range: spec.memory.overcommitPercent: Invalid value: -1: must be from 0 to 100`,
			},
		},
		{
			name: "pages of no size", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi, hugepages: {pageSize: "0"}}}`,
			want: []string{`instancetype-hugepages-size: spec.memory.hugepages.pageSize: Invalid value: "0": is not an amount of memory above zero`},
		},
		{
			name: "pages that are no amount", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi, hugepages: {pageSize: large}}}`,
			want: []string{`instancetype-hugepages-size: spec.memory.hugepages.pageSize: Invalid value: "large": is not an amount of memory above zero`},
		},
		{
			name: "half a page", instancetype: `{cpu: {guest: 1}, memory: {guest: 512Mi, hugepages: {pageSize: 1Gi}}}`,
			want: []string{`instancetype-hugepages-multiple: spec.memory.guest: Invalid value: "512Mi": the memory is less than one hugepage of 1Gi`},
		},
		{
			name: "a page and a half", instancetype: `{cpu: {guest: 1}, memory: {guest: 1536Mi, hugepages: {pageSize: 1Gi}}}`,
			want: []string{`instancetype-hugepages-multiple: spec.memory.guest: Invalid value: "1536Mi": the memory is not a multiple of the hugepages' size of 1Gi`},
		},
		{name: "room to grow", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi, maxGuest: 8Gi}}`},
		{
			name: "room to shrink", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi, maxGuest: 1Gi}}`,
			want: []string{`instancetype-max-guest-reachable: spec.memory.maxGuest: Invalid value: "1Gi": no guest can grow to it: memory.guest is more than memory.maxGuest`},
		},
		{name: "room to shrink, where nothing grows", configuration: staged, instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi, maxGuest: 1Gi}}`},
		{
			name: "room to grow in realtime", instancetype: `{cpu: {guest: 1, realtime: {}}, memory: {guest: 2Gi, maxGuest: 8Gi}}`,
			want: []string{`instancetype-max-guest-reachable: spec.memory.maxGuest: Invalid value: "8Gi": no guest can grow to it: memory cannot be hot-plugged into a realtime VM`},
		},
		{name: "dedicated CPUs", instancetype: `{cpu: {guest: 1, dedicatedCPUPlacement: true, isolateEmulatorThread: true, realtime: {}, numa: {guestMappingPassthrough: {}}}, memory: {guest: 2Gi}}`},
		{name: "dedicated CPUs by the VM", instancetype: `{cpu: {guest: 1, isolateEmulatorThread: true, realtime: {}}, memory: {guest: 2Gi}}`},
		{name: "no dedicated CPUs", instancetype: `{cpu: {guest: 1, dedicatedCPUPlacement: false, isolateEmulatorThread: false, numa: {}}, memory: {guest: 2Gi}}`},
		{
			name: "dedicated CPUs that are needed", instancetype: `{cpu: {guest: 1, dedicatedCPUPlacement: false, isolateEmulatorThread: true, realtime: {}, numa: {guestMappingPassthrough: {}}}, memory: {guest: 2Gi}}`,
			want: []string{`instancetype-dedicated-cpus: spec.cpu.dedicatedCPUPlacement: Invalid value: false: dedicated CPUs are needed for isolateEmulatorThread, numa.guestMappingPassthrough, realtime`},
		},
		{name: "shared I/O threads", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi}, ioThreadsPolicy: shared}`},
		{
			name: "I/O threads of no kind", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi}, ioThreadsPolicy: many}`,
			want: []string{`instancetype-iothreads-policy: spec.ioThreadsPolicy: Invalid value: "many": the policy is unknown: supported values: "shared", "auto", "supplementalPool"`},
		},
		{
			name: "launch security", instancetype: `{cpu: {guest: 1}, memory: {guest: 2Gi}, launchSecurity: {}}`,
			want: []string{`instancetype-launch-security-deprecated: spec.launchSecurity: Invalid value: is deprecated`},
		},
	})
}

func TestPreferences(t *testing.T) {
	runCases(t, preferenceRules(), OnPreference, []ruleCase{
		{name: "nothing"},
		{name: "empty", preference: `{cpu: {}, requirements: {}}`},
		{name: "a topology", preference: `{cpu: {preferredCPUTopology: any}}`},
		{
			name: "no topology", preference: `{cpu: {preferredCPUTopology: ""}}`,
			want: []string{`preference-topology: spec.cpu.preferredCPUTopology: Invalid value: "": the CPU topology is unknown: supported values: "sockets", "cores", "threads", "spread", "any"`},
		},
		{
			name: "a topology that does not exist", preference: `{cpu: {preferredCPUTopology: Cores}}`,
			want: []string{`preference-topology: spec.cpu.preferredCPUTopology: Invalid value: "Cores": the CPU topology is unknown: supported values: "sockets", "cores", "threads", "spread", "any"`},
		},
		{
			name: "a topology by its old name", preference: `{cpu: {preferredCPUTopology: preferThreads}}`,
			want: []string{`preference-topology-deprecated: spec.cpu.preferredCPUTopology: Invalid value: "preferThreads": is deprecated: use threads`},
		},
		{name: "spread", preference: `{cpu: {preferredCPUTopology: spread}}`},
		{name: "spread by 1", preference: `{cpu: {preferredCPUTopology: spread, spreadOptions: {across: SocketsCoresThreads, ratio: 1}}}`},
		{name: "options without an effect", preference: `{cpu: {preferredCPUTopology: cores, spreadOptions: {across: Nodes, ratio: 0}}}`},
		{name: "options without a topology", preference: `{cpu: {spreadOptions: {across: Nodes, ratio: 0}}}`},
		{
			name: "spread by 0", preference: `{cpu: {preferredCPUTopology: spread, spreadOptions: {ratio: 0}}}`,
			want: []string{`preference-spread-ratio: spec.cpu.spreadOptions.ratio: Invalid value: 0: must be at least 1, because vCPUs are divided by it`},
		},
		{
			name: "by its old name, spread across what does not exist", preference: `{cpu: {preferredCPUTopology: preferSpread, spreadOptions: {across: Nodes, ratio: 0}}}`,
			want: []string{
				`preference-topology-deprecated: spec.cpu.preferredCPUTopology: Invalid value: "preferSpread": is deprecated: use spread`,
				`preference-spread-across: spec.cpu.spreadOptions.across: Invalid value: "Nodes": the spread is unknown: supported values: "SocketsCores", "CoresThreads", "SocketsCoresThreads"`,
			},
		},
		{name: "spread across threads", preference: `{cpu: {preferredCPUTopology: spread, spreadOptions: {across: CoresThreads, ratio: 2}}, preferSpreadSocketToCoreRatio: 3}`},
		{
			name: "spread across too many threads", preference: `{cpu: {preferredCPUTopology: spread, spreadOptions: {across: CoresThreads, ratio: 3}}}`,
			want: []string{`preference-spread-ratio: spec.cpu.spreadOptions.ratio: Invalid value: 3: must be 2 where vCPUs are spread across cores and threads`},
		},
		{
			name: "spread across too many threads by the old field", preference: `{cpu: {preferredCPUTopology: spread, spreadOptions: {across: CoresThreads}}, preferSpreadSocketToCoreRatio: 4}`,
			want: []string{`preference-spread-ratio: spec.cpu.spreadOptions.ratio: Invalid value: 4: must be 2 where vCPUs are spread across cores and threads; this ratio is that of preferSpreadSocketToCoreRatio`},
		},
		{name: "an architecture", preference: `{requirements: {architecture: s390x}}`},
		{
			name: "an architecture that does not exist", preference: `{requirements: {architecture: x86}}`,
			want: []string{`preference-required-architecture: spec.requirements.architecture: Unsupported value: "x86": supported values: "amd64", "arm64", "s390x"`},
		},
	})
}
