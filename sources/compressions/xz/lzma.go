package xz

// The shape of the probabilities of LZMA.
const (
	states, positions = 12, 16
	initial           = 1 << 10
	literalSize       = 0x300
	maxLiteralBits    = 4
	minMatch          = 2
	slotStates        = 4
	firstDirect       = 14
	alignBits         = 4
	shortSymbols      = 1 << 3
	longSymbols       = 1 << 8
	literalStates     = 7
	maxProperties     = (4*5+4)*9 + 8
	specialDistances  = 128 - firstDirect
	probabilityBits   = 11
	adaption          = 5
	top               = 1 << 24
	rangeHeader       = 5
	controlProperties = 0xc0
	controlDictionary = 0xe0
	controlState      = 0xa0
	controlCompressed = 0x80
	controlPlain      = 1
)

// probabilities are those of a state of a decoder, without those of literals.
type probabilities struct {
	match, longRepeat                 [states][positions]uint16
	repeat, repeat0, repeat1, repeat2 [states]uint16
	slots                             [slotStates][64]uint16
	special                           [specialDistances]uint16
	align                             [1 << alignBits]uint16
	matches, repeats                  lengths
}

// lengths are the probabilities of the lengths of matches.
type lengths struct {
	choice, choice2 uint16
	low, middle     [positions][shortSymbols]uint16
	high            [longSymbols]uint16
}

// decoder decompresses chunks into a dictionary, which is a ring.
type decoder struct {
	// dictionary is the memory, ring the part of it that a block uses. taken is the first byte of the ring that was not taken yet, at the one behind
	// the last one, and valid how many of the ring are content since the dictionary began.
	dictionary, ring []byte
	taken, at, valid int
	// The dictionary and the properties must be set before they are used.
	needsDictionary, needsProperties bool

	// chunk is what is compressed; plain tells that it is not. left is how much content of it follows.
	chunk []byte
	plain bool
	left  int
	// length is that of the rest of a match.
	length int

	lc, lpMask, pbMask int
	state              int
	distances          [4]uint32
	p                  probabilities
	literals           [literalSize << maxLiteralBits]uint16
	// used tells which parts of literals were set since the state was reset: a file can have a reset for each byte, and only few parts are used.
	used [1 << maxLiteralBits]bool

	// The decoder of ranges: input is the next byte of the chunk.
	input   int
	width   uint32
	code    uint32
	overrun bool
}

// begin begins a block with a size of the dictionary, of at most most.
func (d *decoder) begin(size, most int) {
	if d.dictionary == nil { // one for all blocks: that of an earlier one would be garbage, which is memory too
		d.dictionary = make([]byte, most)
	}
	d.ring = d.dictionary[:size]
	d.taken, d.at, d.valid = 0, 0, 0
	d.needsDictionary, d.needsProperties = true, true
}

// take moves content that was decompressed.
func (d *decoder) take(into []byte) int {
	n := copy(into, d.ring[d.taken:d.at])
	d.taken += n
	return n
}

// start begins a chunk of a size.
func (d *decoder) start(control, properties byte, chunk []byte, size int) error {
	if control >= controlDictionary || control == controlPlain {
		d.needsDictionary, d.needsProperties = false, true
		d.taken, d.at, d.valid = 0, 0, 0
	}
	if d.needsDictionary {
		return errChunk
	}
	d.chunk, d.left, d.length, d.input = chunk, size, 0, 0
	if d.plain = control < controlCompressed; d.plain {
		return nil
	}
	switch {
	case control >= controlProperties:
		if !d.setProperties(int(properties)) {
			return errChunk
		}
		d.needsProperties = false
		d.reset()
	case d.needsProperties:
		return errChunk
	case control >= controlState:
		d.reset()
	}
	if len(chunk) < rangeHeader || chunk[0] != 0 {
		return errChunk
	}
	d.width, d.code, d.overrun = 1<<32-1, 0, false
	for _, b := range chunk[1:rangeHeader] {
		d.code = d.code<<8 | uint32(b)
	}
	d.input = rangeHeader
	return nil
}

func (d *decoder) setProperties(value int) bool {
	if value > maxProperties {
		return false
	}
	pb, lp, lc := value/45, value/9%5, value%9
	if lc+lp > maxLiteralBits {
		return false
	}
	d.lc, d.lpMask, d.pbMask = lc, 1<<lp-1, 1<<pb-1
	return true
}

// reset sets the state to the one at the beginning.
func (d *decoder) reset() {
	d.state, d.distances = 0, [4]uint32{}
	p := &d.p
	for i := range states {
		fill(p.match[i][:])
		fill(p.longRepeat[i][:])
	}
	for _, all := range [][]uint16{p.repeat[:], p.repeat0[:], p.repeat1[:], p.repeat2[:], p.special[:], p.align[:]} {
		fill(all)
	}
	for i := range slotStates {
		fill(p.slots[i][:])
	}
	for _, l := range []*lengths{&p.matches, &p.repeats} {
		l.choice, l.choice2 = initial, initial
		for i := range positions {
			fill(l.low[i][:])
			fill(l.middle[i][:])
		}
		fill(l.high[:])
	}
	d.used = [1 << maxLiteralBits]bool{}
}

func fill(all []uint16) {
	for i := range all {
		all[i] = initial
	}
}

// decode decompresses content of the chunk up to the end of the ring, and returns it.
func (d *decoder) decode() ([]byte, error) {
	if d.at == len(d.ring) { // all of it was taken
		d.at, d.taken = 0, 0
	}
	begun, end := d.at, d.at+min(d.left, len(d.ring)-d.at)
	if d.plain {
		copy(d.ring[d.at:end], d.chunk[d.input:])
		d.input += end - d.at
		d.at = end
	} else if !d.symbols(end) {
		return nil, errChunk
	}
	d.left -= end - begun
	d.valid = min(d.valid+end-begun, len(d.ring))
	return d.ring[begun:end], nil
}

// finish ends a chunk: all of it was used, and its last match ends with it.
func (d *decoder) finish() error {
	if d.plain {
		return nil
	}
	d.normalize()
	if d.length > 0 || d.overrun || d.input != len(d.chunk) || d.code != 0 {
		return errChunk
	}
	return nil
}

// symbols decompresses up to a place in the ring, and reports whether the chunk has that much.
func (d *decoder) symbols(end int) bool {
	begun := d.at
	known := func() int { return d.valid + d.at - begun }
	for d.at < end {
		if d.length > 0 {
			if !d.repeat(end, known()) {
				return false
			}
			continue
		}
		position := d.at & d.pbMask
		if d.bit(&d.p.match[d.state][position]) == 0 {
			d.literal(known())
		} else if d.bit(&d.p.repeat[d.state]) == 0 {
			d.distances[3], d.distances[2], d.distances[1] = d.distances[2], d.distances[1], d.distances[0]
			d.length = d.lengthOf(&d.p.matches, position)
			d.distances[0] = d.distance(d.length)
			d.after(7, 10)
		} else {
			d.repeated(position)
		}
		if d.overrun {
			return false
		}
	}
	return true
}

// after sets the state after a match: one of two, by whether a literal was before it.
func (d *decoder) after(literal, other int) {
	if d.state < literalStates {
		d.state = literal
	} else {
		d.state = other
	}
}

// back is the byte at a distance before the next one.
func (d *decoder) back(distance uint32) byte {
	i := d.at - int(distance) - 1 // it was compared when the match was copied
	if i < 0 {
		i += len(d.ring)
	}
	return d.ring[i]
}

// literal decompresses one byte, of a number of bytes that are known.
func (d *decoder) literal(known int) {
	before := 0
	if known > 0 {
		before = int(d.back(0))
	}
	part := (d.at&d.lpMask)<<d.lc + before>>(8-d.lc)
	probabilities := d.literals[part*literalSize : (part+1)*literalSize]
	if !d.used[part] {
		fill(probabilities)
		d.used[part] = true
	}
	symbol := uint32(1)
	if d.state >= literalStates {
		matched, offset := uint32(d.back(d.distances[0]))<<1, uint32(0x100)
		for symbol < 0x100 {
			one := matched & offset
			matched <<= 1
			if d.bit(&probabilities[offset+one+symbol]) == 1 {
				symbol = symbol<<1 | 1
				offset &= one
			} else {
				symbol <<= 1
				offset &^= one
			}
		}
	} else {
		for symbol < 0x100 {
			symbol = symbol<<1 | d.bit(&probabilities[symbol])
		}
	}
	d.ring[d.at] = byte(symbol & 0xff)
	d.at++
	switch {
	case d.state < 4:
		d.state = 0
	case d.state < 10:
		d.state -= 3
	default:
		d.state -= 6
	}
}

// repeated begins a match with one of the last distances.
func (d *decoder) repeated(position int) {
	s, last := d.state, &d.distances
	if d.bit(&d.p.repeat0[s]) == 0 {
		if d.bit(&d.p.longRepeat[s][position]) == 0 {
			d.length = 1
			d.after(9, 11)
			return
		}
	} else {
		distance := last[1]
		if d.bit(&d.p.repeat1[s]) == 1 {
			distance = last[2]
			if d.bit(&d.p.repeat2[s]) == 1 {
				distance, last[3] = last[3], last[2]
			}
			last[2] = last[1]
		}
		last[1], last[0] = last[0], distance
	}
	d.length = d.lengthOf(&d.p.repeats, position)
	d.after(8, 11)
}

// lengthOf decompresses the length of a match.
func (d *decoder) lengthOf(l *lengths, position int) int {
	switch {
	case d.bit(&l.choice) == 0:
		return minMatch + d.tree(l.low[position][:])
	case d.bit(&l.choice2) == 0:
		return minMatch + shortSymbols + d.tree(l.middle[position][:])
	}
	return minMatch + 2*shortSymbols + d.tree(l.high[:])
}

// distance decompresses that of a match with a length.
func (d *decoder) distance(length int) uint32 {
	slot := d.tree(d.p.slots[min(length-minMatch, slotStates-1)][:])
	if slot < 4 {
		return uint32(slot) //nolint:gosec // it is less than 64
	}
	bits := slot>>1 - 1
	distance := (2 | uint32(slot)&1) << bits //nolint:gosec // as above
	if slot < firstDirect {
		return distance + d.reverse(d.p.special[:], int(distance)-slot-1, bits)
	}
	direct := uint32(0)
	for range bits - alignBits {
		d.normalize()
		d.width >>= 1
		d.code -= d.width
		mask := -(d.code >> 31)
		d.code += d.width & mask
		direct = direct<<1 + mask + 1
	}
	return distance + direct<<alignBits + d.reverse(d.p.align[:], 0, alignBits)
}

// repeat copies what is known of a match, up to a place in the ring.
func (d *decoder) repeat(end, known int) bool {
	if uint64(d.distances[0]) >= uint64(min(known, len(d.ring))) { //nolint:gosec // they are not negative
		return false
	}
	from := d.at - int(d.distances[0]) - 1
	if from < 0 {
		from += len(d.ring)
	}
	n := min(d.length, end-d.at)
	d.length -= n
	for n > 0 {
		part := min(n, len(d.ring)-from)
		if from < d.at {
			part = min(part, d.at-from) // the rest is not written yet
		}
		copied := copy(d.ring[d.at:d.at+part], d.ring[from:from+part])
		d.at += copied
		n -= copied
		if from += copied; from == len(d.ring) {
			from = 0
		}
	}
	return true
}

// normalize reads a byte of the chunk if the range is too narrow.
func (d *decoder) normalize() {
	if d.width >= top {
		return
	}
	d.width <<= 8
	d.code <<= 8
	if d.input >= len(d.chunk) {
		d.overrun = true
		return
	}
	d.code |= uint32(d.chunk[d.input])
	d.input++
}

// bit decompresses one bit.
func (d *decoder) bit(probability *uint16) uint32 {
	d.normalize()
	p := uint32(*probability)
	bound := d.width >> probabilityBits * p
	if d.code < bound {
		d.width = bound
		*probability += (1<<probabilityBits - *probability) >> adaption
		return 0
	}
	d.width -= bound
	d.code -= bound
	*probability -= *probability >> adaption
	return 1
}

// tree decompresses a symbol, its highest bit first.
func (d *decoder) tree(probabilities []uint16) int {
	symbol := uint32(1)
	for symbol < uint32(len(probabilities)) { //nolint:gosec // at most 256
		symbol = symbol<<1 | d.bit(&probabilities[symbol])
	}
	return int(symbol) - len(probabilities)
}

// reverse decompresses a number of bits, the lowest first, with the probabilities behind a place.
func (d *decoder) reverse(probabilities []uint16, behind, bits int) (value uint32) {
	symbol := 1
	for i := range bits {
		one := d.bit(&probabilities[behind+symbol])
		symbol = symbol<<1 | int(one)
		value |= one << i
	}
	return value
}
