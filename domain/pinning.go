package domain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
)

// place pins the threads of instances with dedicated CPUs, and gives PCI devices their places.
func (b *Build) place() error {
	if b.VMI.Spec.Domain.CPU != nil && b.VMI.IsCPUDedicated() {
		if err := b.pin(); err != nil {
			return err
		}
		if b.Facts.GateEnabled("PCINUMAAwareTopology") && b.Architecture.PCIe {
			if err := b.placeByNUMA(); err != nil {
				return err
			}
		}
	}
	if b.VMI.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true" && b.Architecture.PCIe {
		return b.placeOnRoot()
	}
	return nil
}

// isPassthrough reports whether the guest sees the NUMA cells of the node.
func (b *Build) isPassthrough() bool {
	numa := b.VMI.Spec.Domain.CPU.NUMA
	return numa != nil && numa.GuestMappingPassthrough != nil
}

// pin pins vCPUs, I/O threads and the emulator to the CPUs of the pod.
func (b *Build) pin() error {
	_, cores, threads := topology(b.VMI)
	sockets := b.Domain.CPU.Topology.Sockets
	if b.Domain.VCPUs != nil {
		sockets = b.VCPUs / (cores * threads)
	}
	cpus := newCPUPool(b.Host, threads, b.isPassthrough())
	tune, err := cpus.fitCores(sockets*cores, uint(len(b.Host.CPUSet)))
	if err != nil {
		return failf(fieldCPU+"dedicatedCpuPlacement", "%w", err)
	}
	b.Domain.CPUTune = tune
	b.fromHost("cputune", "cpuSet")
	if b.VMI.Spec.Architecture == architectures.AMD64 {
		if b.Domain.Features.KVM == nil {
			b.Domain.Features.KVM = &DomainFeatureKVM{}
		}
		b.Domain.Features.KVM.HintDedicated = &DomainFeatureState{"on"}
		b.from("features/kvm/hint-dedicated", fieldCPU+"dedicatedCpuPlacement")
	}
	if err := b.pinOthers(cpus, tune); err != nil {
		return err
	}
	if b.VMI.IsRealtimeEnabled() {
		b.Domain.Features.PMU = &DomainFeatureState{"off"}
		b.from("features/pmu", fieldCPU+"realtime")
	}
	if b.isPassthrough() && len(b.Host.NUMA) > 0 {
		return b.mapCells(tune)
	}
	return nil
}

// guestCPUs is the number of vCPUs that the CPU of the spec names; 0 if it names none.
func guestCPUs(cpu *v1.CPU) uint {
	count := uint(cpu.Cores)
	for _, n := range []uint32{cpu.Sockets, cpu.Threads} {
		switch {
		case n > 0 && count > 0:
			count *= uint(n)
		case n > 0:
			count = uint(n)
		}
	}
	return count
}

// pinOthers pins I/O threads and the emulator.
func (b *Build) pinOthers(cpus *cpuPool, tune *DomainCPUTune) error {
	pool := b.ioThreads.pool
	for thread := range pool {
		cpu, ok := cpus.fitThread()
		if !ok {
			return failf(fieldDomain+"ioThreads", "the pod has no CPU for the I/O thread %d", thread+1)
		}
		tune.IOThreadPin = append(tune.IOThreadPin, DomainCPUTuneIOThreadPin{IOThread: thread + 1, CPUSet: cpuText(cpu)})
	}
	emulator := ""
	if b.VMI.Spec.Domain.CPU.IsolateEmulatorThread {
		var err error
		if emulator, err = b.emulatorCPUs(cpus, guestCPUs(b.VMI.Spec.Domain.CPU)+pool); err != nil {
			return failf(fieldCPU+"isolateEmulatorThread", "%w", err)
		}
		tune.EmulatorPin = &DomainCPUTuneEmulatorPin{CPUSet: emulator}
		b.from("cputune/emulatorpin", fieldCPU+"isolateEmulatorThread")
	}
	if !b.ioThreads.used || pool > 0 {
		return nil
	}
	return b.pinIOThreads(tune, emulator)
}

func cpuText(cpus ...uint) string {
	texts := make([]string, len(cpus))
	for i, cpu := range cpus {
		texts[i] = strconv.FormatUint(uint64(cpu), 10)
	}
	return strings.Join(texts, ",")
}

// emulatorCPUs takes a CPU for the emulator; a second one if an annotation asks for an even number of all.
func (b *Build) emulatorCPUs(cpus *cpuPool, pinned uint) (string, error) {
	first, ok := cpus.fitThread()
	if !ok {
		return "", errors.New("the pod has no CPU for the emulator")
	}
	if _, even := b.VMI.Annotations[v1.EmulatorThreadCompleteToEvenParity]; !even || pinned%2 != 0 {
		return cpuText(first), nil
	}
	second, ok := cpus.fitThread()
	if !ok {
		return "", errors.New("the pod has no second CPU for the emulator")
	}
	return cpuText(first, second), nil
}

// pinIOThreads pins I/O threads to CPUs of the vCPUs: with the emulator, one by one, or each to an equal part of the CPUs.
func (b *Build) pinIOThreads(tune *DomainCPUTune, emulator string) error {
	threads, vcpus := b.Domain.IOThreads, guestCPUs(b.VMI.Spec.Domain.CPU)
	pin := func(thread uint, set string) {
		tune.IOThreadPin = append(tune.IOThreadPin, DomainCPUTuneIOThreadPin{IOThread: thread, CPUSet: set})
	}
	host := make([]uint, len(b.Host.CPUSet))
	for i, cpu := range b.Host.CPUSet {
		host[i] = uint(max(cpu, 0))
	}
	switch {
	case threads == 0:
	case emulator != "":
		pin(1, emulator)
	case vcpus == 0 || uint(len(host)) < vcpus:
		return failf(fieldDomain+"ioThreadsPolicy", "there are no CPUs for I/O threads")
	case threads >= vcpus:
		for thread := uint(1); thread <= threads; thread++ {
			pin(thread, cpuText(host[thread%vcpus]))
		}
	default:
		start := uint(0)
		for thread := uint(1); thread <= threads; thread++ {
			length := vcpus / threads
			if thread <= vcpus%threads {
				length++
			}
			pin(thread, cpuText(host[start:start+length]...))
			start += length
		}
	}
	return nil
}

// mapCells gives the guest the NUMA cells of the node on which its vCPUs are pinned.
func (b *Build) mapCells(tune *DomainCPUTune) error {
	cellOf := map[string]uint{}
	for i := range b.Host.NUMA {
		for _, core := range b.Host.NUMA[i].Cores {
			for _, cpu := range core {
				cellOf[cpuText(cpu)] = b.Host.NUMA[i].ID
			}
		}
	}
	vcpus := map[uint][]uint{}
	for _, pin := range tune.VCPUPin {
		cell, known := cellOf[pin.CPUSet]
		if !known {
			return failf(fieldCPU+"numa", "the CPU %s is in no NUMA cell", pin.CPUSet)
		}
		vcpus[cell] = append(vcpus[cell], pin.VCPU)
	}
	guestOf := map[uint]uint{}
	var used []uint
	for i := range b.Host.NUMA {
		if id := b.Host.NUMA[i].ID; len(vcpus[id]) > 0 && !slices.Contains(used, id) {
			guestOf[id] = uint(len(used))
			used = append(used, id)
		}
	}
	page, err := b.pageSize()
	if err != nil {
		return err
	}
	total, remainder, err := b.pagesFor(page, uint64(len(used)))
	if err != nil {
		return err
	}
	b.Domain.NUMATune = &DomainNUMATune{Memory: &DomainNUMATuneMemory{Mode: "strict", Nodeset: cpuText(used...)}}
	b.Domain.MemoryBacking.MemoryAllocation = &DomainMemoryAllocation{Mode: "immediate"}
	b.Domain.CPU.Numa = &DomainNuma{}
	b.from("cpu/numa", fieldCPU+"numa")
	b.from("numatune", fieldCPU+"numa")
	for _, id := range used {
		guest := guestOf[id]
		size := total / uint64(len(used))
		if uint64(guest) < remainder {
			size += page
		}
		b.Domain.CPU.Numa.Cell = append(b.Domain.CPU.Numa.Cell, DomainCell{
			ID: guest, CPUs: cpuText(vcpus[id]...), Memory: size, Unit: "b", Distances: b.distances(id, guestOf),
		})
		b.Domain.NUMATune.MemNodes = append(b.Domain.NUMATune.MemNodes, DomainNUMATuneMemNode{CellID: guest, Mode: "strict", Nodeset: cpuText(id)})
		pages := b.Domain.MemoryBacking.MemoryHugePages
		pages.Hugepages = append(pages.Hugepages, DomainMemoryHugepage{Size: page, Unit: "b", Nodeset: cpuText(guest)})
	}
	if b.VMI.IsRealtimeEnabled() {
		b.Domain.MemoryBacking.MemoryNosharepages = &DomainEmpty{}
	}
	return nil
}

// pageSize returns the size of huge pages, without which the guest cannot see NUMA cells.
func (b *Build) pageSize() (uint64, error) {
	memory, backing := b.VMI.Spec.Domain.Memory, b.Domain.MemoryBacking
	if memory == nil || memory.Hugepages == nil || backing == nil || backing.MemoryHugePages == nil {
		return 0, failf(fieldCPU+"numa", "NUMA passthrough needs huge pages")
	}
	field := fieldDomain + "memory.hugepages.pageSize"
	quantity, err := resource.ParseQuantity(memory.Hugepages.PageSize)
	if err != nil {
		return 0, failf(field, "%w", err)
	}
	size, err := bytesOf(&quantity, field)
	if err == nil && size == 0 {
		err = failf(field, "a page has no size")
	}
	return size, err
}

// pagesFor returns the memory that is divided evenly among cells, and the number of pages that remain.
func (b *Build) pagesFor(page, cells uint64) (total, remainder uint64, err error) {
	field := fieldDomain + "memory.guest"
	size, err := bytesOf(virtualMemory(b.VMI), field)
	switch {
	case err != nil:
		return 0, 0, err
	case cells == 0 || size/page < cells:
		return 0, 0, failf(field, "%d bytes are less than one page of %d bytes for each of %d NUMA cells", size, page, cells)
	case size%page != 0:
		return 0, 0, failf(field, "%d bytes are not a multiple of the page size, %d bytes", size, page)
	}
	remainder = size / page % cells
	return size - remainder*page, remainder, nil
}

func (b *Build) distances(id uint, guestOf map[uint]uint) *DomainCellDistances {
	made := &DomainCellDistances{}
	for i := range b.Host.NUMA {
		if b.Host.NUMA[i].ID != id {
			continue
		}
		distances := b.Host.NUMA[i].Distances
		for _, other := range slices.Sorted(maps.Keys(distances)) {
			if guest, used := guestOf[other]; used {
				made.Siblings = append(made.Siblings, DomainCellSibling{ID: guest, Value: distances[other]})
			}
		}
	}
	if len(made.Siblings) == 0 {
		return nil
	}
	return made
}

// cpuPool has the free threads of the pod's CPUs, by cells and cores.
type cpuPool struct {
	cells []*cpuCell
	// threads is the number of threads of a core of the guest, and strict says that a core stays within a cell.
	threads uint
	strict  bool
}

// cpuCell has cores with enough threads for one of the guest, and the threads of others.
type cpuCell struct {
	cores      [][]uint
	fragmented []uint
}

func newCPUPool(host *Assumptions, threads uint, strict bool) *cpuPool {
	given := map[uint]bool{}
	for _, cpu := range host.CPUSet {
		if cpu >= 0 {
			given[uint(cpu)] = true
		}
	}
	pool := &cpuPool{threads: threads, strict: strict}
	for i := range host.NUMA {
		cell := &cpuCell{}
		for _, siblings := range host.NUMA[i].Cores {
			var core []uint
			for _, cpu := range siblings {
				if given[cpu] {
					core = append(core, cpu)
					delete(given, cpu)
				}
			}
			cell.add(core, threads)
		}
		pool.cells = append(pool.cells, cell)
	}
	return pool
}

func (c *cpuCell) add(core []uint, threads uint) {
	if uint(len(core)) >= threads {
		c.cores = append(c.cores, core)
	} else {
		c.fragmented = append(c.fragmented, core...)
	}
}

// takeCore takes the threads of a core of the guest from one of the node.
func (c *cpuCell) takeCore(threads uint) []uint {
	if len(c.cores) == 0 {
		return nil
	}
	taken, rest := c.cores[0][:threads], c.cores[0][threads:]
	if uint(len(rest)) >= threads {
		c.cores[0] = rest
	} else {
		c.cores = c.cores[1:]
		c.fragmented = append(c.fragmented, rest...)
	}
	return taken
}

// takeFragments takes threads of several cores.
func (c *cpuCell) takeFragments(count uint) []uint {
	taken := c.fragmented[:count]
	c.fragmented = c.fragmented[count:]
	return taken
}

// fitCores pins the threads of cores: within a core of the node, then within a cell, then anywhere unless the pool is strict.
func (p *cpuPool) fitCores(cores, available uint) (*DomainCPUTune, error) {
	var cpus []uint
	missing := cores
	for _, cell := range p.cells {
		for missing > 0 && len(cell.cores) > 0 {
			cpus = append(cpus, cell.takeCore(p.threads)...)
			missing--
		}
	}
	for _, cell := range p.cells {
		for missing > 0 && uint(len(cell.fragmented)) >= p.threads {
			cpus = append(cpus, cell.takeFragments(p.threads)...)
			missing--
		}
	}
	if missing > 0 && !p.strict {
		threads := missing * p.threads
		for _, cell := range p.cells {
			taken := cell.takeFragments(min(threads, uint(len(cell.fragmented))))
			cpus = append(cpus, taken...)
			threads -= uint(len(taken))
		}
		missing = (threads + p.threads - 1) / p.threads
	}
	switch {
	case missing > 0 && (!p.strict || available < cores*p.threads):
		return nil, fmt.Errorf("the pod has too few CPUs: %d cores do not fit", missing)
	case missing > 0:
		return nil, fmt.Errorf("%d cores do not fit into a NUMA cell each", missing)
	}
	tune := &DomainCPUTune{VCPUPin: make([]DomainCPUTuneVCPUPin, len(cpus))}
	for i, cpu := range cpus {
		tune.VCPUPin[i] = DomainCPUTuneVCPUPin{VCPU: uint(i), CPUSet: cpuText(cpu)}
	}
	return tune, nil
}

// fitThread takes a thread, from cores that are in part taken first.
func (p *cpuPool) fitThread() (uint, bool) {
	for _, cell := range p.cells {
		if len(cell.fragmented) == 0 && len(cell.cores) > 0 {
			core := cell.cores[0]
			cell.cores = cell.cores[1:]
			rest := core[1:]
			if uint(len(rest)) >= p.threads {
				cell.cores = append([][]uint{rest}, cell.cores...)
			} else {
				cell.fragmented = append(cell.fragmented, rest...)
			}
			return core[0], true
		}
		if len(cell.fragmented) > 0 {
			return cell.takeFragments(1)[0], true
		}
	}
	return 0, false
}
