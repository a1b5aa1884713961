package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/rollouts/fleet"
)

func specOf(t *testing.T, text string) *v1alpha1.VirtualMachineRolloutSpec {
	t.Helper()
	spec := &v1alpha1.VirtualMachineRolloutSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestValidate(t *testing.T) {
	const shared = "Forbidden: a rollout does not change this field: all virtual machines would get the same value"
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"smallest": {spec: `selector: {}`},
		"whole":    {spec: `{selector: {matchLabels: {app: db}, matchExpressions: [{key: tier, operator: In, values: [a]}]}, patch: {instancetype: {name: u1.large, revisionName: null}, template: {metadata: {labels: {a: b, c: null}}, spec: {domain: {cpu: {sockets: 4}, memory: {guest: 4Gi}}, tolerations: [{key: a}], nodeSelector: null}}}, strategy: {canary: {count: 1, pause: 1h30m}}, windows: [{schedule: "0 22 * * 6", duration: 4h, timeZone: Europe/Zurich}, {schedule: "*/5 0-6 1,15 * *", duration: 1m}], health: {timeout: 5m}}`},
		"selector": {spec: `selector: {matchLabels: {"-": x}, matchExpressions: [{key: a, operator: Equals, values: [b]}]}`, want: []string{
			`spec.selector.matchLabels: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`spec.selector.matchExpressions[0].operator: Invalid value: "Equals": not a valid selector operator`,
		}},
		"every forbidden field": {spec: `{selector: {}, patch: {dataVolumeTemplates: [], running: true, runStrategy: Always, template: {spec: {volumes: [], networks: [], hostname: a, domain: {firmware: {uuid: a}, devices: {disks: [], interfaces: []}}}}}}`, want: []string{
			"spec.patch.dataVolumeTemplates: " + shared, "spec.patch.running: " + shared, "spec.patch.runStrategy: " + shared, "spec.patch.template.spec.volumes: " + shared,
			"spec.patch.template.spec.networks: " + shared, "spec.patch.template.spec.hostname: " + shared, "spec.patch.template.spec.domain.firmware: " + shared,
			"spec.patch.template.spec.domain.devices.disks: " + shared, "spec.patch.template.spec.domain.devices.interfaces: " + shared,
		}},
		"forbidden fields are removed": {spec: `{selector: {}, patch: {running: null, template: {spec: {domain: {devices: null}}}}}`, want: []string{
			"spec.patch.running: " + shared, "spec.patch.template.spec.domain.devices: Forbidden: a rollout does not remove this object: it has disks",
		}},
		"the template is removed": {spec: `{selector: {}, patch: {template: null}}`, want: []string{"spec.patch.template: Forbidden: a rollout does not remove this object: it has spec.volumes"}},
		"unknown fields": {spec: `{selector: {}, patch: {instanceType: {name: a}, template: {spec: {domain: {cpu: {socket: 4}, memory: {guests: 4Gi}}}}}}`, want: []string{
			"spec.patch.instanceType: Invalid value: unknown field", "spec.patch.template.spec.domain.cpu.socket: Invalid value: unknown field", "spec.patch.template.spec.domain.memory.guests: Invalid value: unknown field",
		}},
		"wrong types": {spec: `{selector: {}, patch: {instancetype: small, template: {spec: {domain: {cpu: {sockets: many, dedicatedCpuPlacement: 1}, devices: [], memory: {guest: much}}, tolerations: {}, nodeSelector: {a: 1}}}}}`, want: []string{
			"spec.patch.instancetype: Invalid value: must be an object", "spec.patch.template.spec.domain.cpu.dedicatedCpuPlacement: Invalid value: must be true or false",
			"spec.patch.template.spec.domain.cpu.sockets: Invalid value: must be a number that fits into uint32", "spec.patch.template.spec.domain.devices: Invalid value: must be an object",
			"spec.patch.template.spec.domain.memory.guest: Invalid value: must be a valid quantity", "spec.patch.template.spec.nodeSelector[a]: Invalid value: must be a string",
			"spec.patch.template.spec.tolerations: Invalid value: must be a list",
		}},
		"negative sockets": {spec: `{selector: {}, patch: {template: {spec: {domain: {cpu: {sockets: -1}}}}}}`, want: []string{"spec.patch.template.spec.domain.cpu.sockets: Invalid value: must be a number that fits into uint32"}},
		"a long number":    {spec: `{selector: {}, patch: {template: {spec: {domain: {memory: {guest: "1e999999999"}}}}}}`, want: []string{`spec.patch: Invalid value: `}},
		"windows": {spec: `{selector: {}, windows: [{schedule: "0 25 * * *", duration: 1h}, {schedule: "@hourly", duration: 1h}, {schedule: "0 0 31 2 *", duration: 1h}, {schedule: "TZ=UTC 0 * * * *", duration: 1h}, {schedule: "0 0 * * *", duration: 0s, timeZone: Mars/Base}, {schedule: "0 0 * * *", duration: 1h, timeZone: Local}, {schedule: "0 0 * * *", duration: 1h, timeZone: ../UTC}]}`, want: []string{
			`spec.windows[0].schedule: Invalid value: "0 25 * * *": end of range (25) above maximum (23): 25`,
			`spec.windows[1].schedule: Invalid value: "@hourly": must have five fields: minute, hour, day of the month, month, day of the week`,
			`spec.windows[2].schedule: Invalid value: "0 0 31 2 *": no date matches`,
			`spec.windows[3].schedule: Invalid value: "TZ=UTC 0 * * * *": must have five fields: minute, hour, day of the month, month, day of the week`,
			`spec.windows[4].duration: Invalid value: "0s": must be longer than 0`,
			`spec.windows[4].timeZone: Invalid value: "Mars/Base": must be a name of the time zone database, such as Europe/Zurich`,
			`spec.windows[5].timeZone: Invalid value: "Local": must be a name of the time zone database, such as Europe/Zurich`,
			`spec.windows[6].timeZone: Invalid value: "../UTC": must be a name of the time zone database, such as Europe/Zurich`,
		}},
		"times": {spec: `{selector: {}, strategy: {canary: {count: 1, pause: 0s}}, health: {timeout: 0s}}`, want: []string{
			`spec.strategy.canary.pause: Invalid value: "0s": must be Manual, or a duration longer than 0, such as 30m`,
			`spec.health.timeout: Invalid value: "0s": must be longer than 0`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range fleet.Validate(specOf(t, c.spec)) {
				got = append(got, err.Error())
			}
			if name == "a long number" && len(got) == 1 && strings.HasPrefix(got[0], c.want[0]) {
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// The errors of a large patch are bounded.
func TestValidateIsBounded(t *testing.T) {
	var fields []string
	for i := range 500 {
		fields = append(fields, fmt.Sprintf("unknown%d: 1", i))
	}
	if errs := fleet.Validate(specOf(t, "{selector: {}, patch: {"+strings.Join(fields, ", ")+"}}")); len(errs) != 50 {
		t.Errorf("%d errors", len(errs))
	}
}

func TestIneffective(t *testing.T) {
	for spec, want := range map[string][]string{
		`{selector: {}, allow: [Restart], windows: [{schedule: "0 0 * * *", duration: 1h}]}`: nil,
		`{selector: {}, allow: [Live], windows: [{schedule: "0 0 * * *", duration: 1h}], strategy: {maxConcurrentMigrations: 3}, maxFailures: 2, failurePolicy: Continue, skipDenied: true}`: {
			"spec.windows has no effect: windows are for restarts and migrations, and spec.allow has neither Restart nor Migrate",
			"spec.strategy.maxConcurrentMigrations has no effect: spec.allow does not have Migrate",
			"spec.maxFailures has no effect with spec.failurePolicy Continue",
			"spec.skipDenied has no effect without spec.patch",
		},
	} {
		if diff := cmp.Diff(want, fleet.Ineffective(specOf(t, spec))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
}
