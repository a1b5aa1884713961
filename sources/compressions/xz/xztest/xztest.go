// Package xztest makes files of xz for tests.
package xztest

import (
	"encoding/binary"
	"hash/crc32"
)

// chunk is the size of a part of a file.
const chunk = 64 << 10

// Stored is a file with a content that is not compressed. Its dictionary has a code: 0 is 4 KiB, 22 is 8 MiB, and 28 is 64 MiB.
func Stored(content []byte, code byte) []byte {
	flags := []byte{0, 1}
	file := append([]byte("\xfd7zXZ\x00"), summed(flags)...)
	header := summed([]byte{2, 0, 0x21, 1, code, 0, 0, 0})
	file = append(file, header...)
	begun := len(file)
	control := byte(1)
	for rest := content; len(rest) > 0; control = 2 {
		n := min(len(rest), chunk)
		file = binary.BigEndian.AppendUint16(append(file, control), uint16(n-1))
		file = append(file, rest[:n]...)
		rest = rest[n:]
	}
	file = append(file, 0)
	stored := len(file) - begun
	for len(file)%4 != 0 {
		file = append(file, 0)
	}
	file = binary.LittleEndian.AppendUint32(file, crc32.ChecksumIEEE(content))
	index := binary.AppendUvarint([]byte{0, 1}, uint64(len(header)+stored+4)) //nolint:gosec // it is not negative
	index = binary.AppendUvarint(index, uint64(len(content)))
	for len(index)%4 != 0 {
		index = append(index, 0)
	}
	index = summed(index)
	file = append(file, index...)
	footer := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1)), flags...) //nolint:gosec // it is small
	file = binary.LittleEndian.AppendUint32(file, crc32.ChecksumIEEE(footer))
	return append(append(file, footer...), "YZ"...)
}

// summed is a part with its checksum behind it.
func summed(part []byte) []byte {
	return binary.LittleEndian.AppendUint32(part, crc32.ChecksumIEEE(part))
}
