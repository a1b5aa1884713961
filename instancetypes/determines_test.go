package instancetypes_test

import (
	"testing"

	"github.com/virtward/virtward/instancetypes"
)

func TestDetermines(t *testing.T) {
	for path, want := range map[string]struct{ instancetype, preference bool }{
		"domain.cpu.sockets":               {true, true},
		"domain.cpu.model":                 {true, true},
		"domain.memory.guest":              {true, false},
		"domain.resources.requests[cpu]":   {true, false},
		"domain.resources.limits[memory]":  {true, false},
		"nodeSelector[pool]":               {true, false},
		"nodeSelector":                     {true, false},
		"domain.devices.gpus":              {true, true},
		"domain.devices.hostDevices":       {true, false},
		"domain.devices.disks":             {false, true},
		"domain.devices.disks[0].disk.bus": {false, true},
		"domain.machine.type":              {false, true},
		"terminationGracePeriodSeconds":    {false, true},
		"tolerations":                      {},
		"domain.resourcesBeside":           {},
		"networks":                         {},
	} {
		if got := instancetypes.InstancetypeDetermines(path); got != want.instancetype {
			t.Errorf("an instancetype determines %s: %v, want %v", path, got, want.instancetype)
		}
		if got := instancetypes.PreferenceDetermines(path); got != want.preference {
			t.Errorf("a preference determines %s: %v, want %v", path, got, want.preference)
		}
	}
}
