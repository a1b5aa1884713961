package vmdk

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"runtime"
	"sync"
)

// The shape of the pipeline.
const (
	batchGrains = 16 // divides entriesPerTable
	batchBytes  = batchGrains * grainBytes
	// maxWorkers bounds the goroutines that compress.
	maxWorkers = 4
	// maxBatches bounds the batches in memory: those that are compressed, one that is read, and one that is written.
	maxBatches = maxWorkers + 2

	// PipelineBytes bounds the memory of one reading or writing: the batches, compressed and not, and the compressors.
	PipelineBytes = maxBatches*(2*batchBytes+batchGrains*sector*2) + maxWorkers*compressorBytes
	// compressorBytes is what a compressor needs.
	compressorBytes = 1 << 20
)

// Sparse is content that knows its holes.
type Sparse interface {
	// NextData is the first offset from an offset on that may have other bytes than zeros; the size if there is none.
	NextData(offset int64) (int64, error)
}

// batch is a number of grains of one grain table, one behind the other.
type batch struct {
	// first is the number of the first grain, count that of the grains.
	first, count int64
	// wanted are the grains that are compressed. Those in holes of the content are zeros.
	wanted, holes [batchGrains]bool
	raw           []byte
	// out are the compressed grains; ends are their ends in it. A grain of zeros is empty.
	out  bytes.Buffer
	ends [batchGrains]int
	sums [batchGrains]uint16
	err  error
	done chan struct{}
}

// grain is a compressed grain; empty if it is zeros.
func (b *batch) grain(i int64) []byte {
	from := 0
	if i > 0 {
		from = b.ends[i-1]
	}
	return b.out.Bytes()[from:b.ends[i]]
}

// pipeline reads grains, compresses them with several goroutines, and returns them in their order.
type pipeline struct {
	content  io.ReaderAt
	capacity int64
	seed     maphash.Seed

	free, work, ready chan *batch
	quit              chan struct{}
	running           sync.WaitGroup
}

// start starts a pipeline. The function fill sets first, count and wanted of the next batch; it returns false at the end. Stop the pipeline
// in the end.
func start(content io.ReaderAt, capacity int64, seed maphash.Seed, fill func(*batch) bool) *pipeline {
	workers := min(maxWorkers, runtime.GOMAXPROCS(0))
	p := &pipeline{content: content, capacity: capacity, seed: seed, quit: make(chan struct{}), free: make(chan *batch, maxBatches), work: make(chan *batch, maxBatches), ready: make(chan *batch, maxBatches)}
	for range workers + 2 {
		p.free <- &batch{}
	}
	p.running.Add(workers + 1)
	go p.read(fill)
	for range workers {
		go p.compress()
	}
	return p
}

// stop ends the goroutines.
func (p *pipeline) stop() {
	close(p.quit)
	p.running.Wait()
}

// read reads the batches.
func (p *pipeline) read(fill func(*batch) bool) {
	defer p.running.Done()
	defer close(p.work)
	defer close(p.ready)
	for {
		var b *batch
		select {
		case b = <-p.free:
		case <-p.quit:
			return
		}
		*b = batch{raw: b.raw, out: b.out, done: make(chan struct{})}
		b.out.Reset()
		if !fill(b) {
			return
		}
		if b.err = p.load(b); b.err != nil {
			close(b.done)
			p.ready <- b
			return
		}
		p.work <- b // both have room for all batches
		p.ready <- b
	}
}

// load reads the wanted grains of a batch, in runs as long as possible.
func (p *pipeline) load(b *batch) error {
	if sparse, knows := p.content.(Sparse); knows {
		next, err := sparse.NextData(b.first * grainBytes)
		if err != nil {
			return fmt.Errorf("reading the disk: %w", err)
		}
		for i := range b.count {
			b.holes[i] = (b.first+i+1)*grainBytes <= next
		}
	}
	if b.raw == nil {
		b.raw = make([]byte, batchBytes)
	}
	for i := int64(0); i < b.count; {
		end := i
		for end < b.count && b.wanted[end] && !b.holes[end] {
			end++
		}
		if end == i {
			i++
			continue
		}
		into := b.raw[i*grainBytes : end*grainBytes]
		n := min(int64(len(into)), p.capacity-(b.first+i)*grainBytes)
		clear(into[n:])
		if read, err := p.content.ReadAt(into[:n], (b.first+i)*grainBytes); int64(read) < n {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("reading the disk at byte %d: %w", (b.first+i)*grainBytes+int64(read), err)
		}
		i = end
	}
	return nil
}

// compress compresses batches until there are no more.
func (p *pipeline) compress() {
	defer p.running.Done()
	var c compressor
	for b := range p.work {
		for i := range b.count {
			content := b.raw[i*grainBytes : (i+1)*grainBytes]
			if b.err == nil && b.wanted[i] && !b.holes[i] && !zero(content) {
				b.sums[i] = uint16(maphash.Bytes(p.seed, content))
				b.err = c.grain(&b.out, content, uint64(b.first+i)*grainSectors)
			}
			b.ends[i] = b.out.Len()
		}
		close(b.done)
	}
}

// each calls a function with each batch, in their order.
func (p *pipeline) each(visit func(*batch) error) error {
	for b := range p.ready {
		<-b.done
		if b.err != nil {
			return b.err
		}
		if err := visit(b); err != nil {
			return err
		}
		p.free <- b
	}
	return nil
}
