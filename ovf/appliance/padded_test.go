package appliance_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/virtward/virtward/ovf/appliance"
)

// TestPadded holds that zeros behind a file do not count, and that everything else does.
func TestPadded(t *testing.T) {
	block := func(text string) []byte { return append([]byte(text), make([]byte, 512-len(text))...) }
	zero := make([]byte, 512)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	// The file ends with zeros of its own, as each archive does.
	file := join(block("header"), zero, block("content"), zero, zero)
	for name, c := range map[string]struct {
		volume []byte
		equal  bool
	}{
		"as it is":                         {file, true},
		"with zeros":                       {join(file, make([]byte, 100*512)), true},
		"with a part of a block":           {join(file, make([]byte, 700)), true},
		"without its own zeros":            {file[:len(file)-512], false},
		"with something behind zeros":      {join(file, zero, block("x")), false},
		"with a byte at the very end":      {join(file, make([]byte, 699), []byte{1}), false},
		"with another byte":                {join(block("Header"), file[512:]), false},
		"without content":                  {nil, false},
		"with zeros only":                  {make([]byte, len(file)), false},
		"behind a block of zeros":          {join(zero, file), false},
		"the same twice":                   {join(file, file), false},
		"the same, zeros and a last block": {join(file, make([]byte, 5*512), file[len(file)-100:]), true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, digest := range []string{fmt.Sprintf("sha256:%x", sha256.Sum256(file)), fmt.Sprintf("sha512:%x", sha512.Sum512(file))} {
				for _, read := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
					p, err := appliance.NewPadded(read(bytes.NewReader(c.volume)), digest)
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(p)
					var other *appliance.ChecksumError
					if c.equal != (err == nil) || !c.equal && (!errors.As(err, &other) || other.Wanted != digest || other.Got == digest) {
						t.Errorf("got %v", err)
					}
					if c.equal && !bytes.Equal(got, c.volume) {
						t.Errorf("read %d of %d bytes", len(got), len(c.volume))
					}
				}
			}
		})
	}
	if _, err := appliance.NewPadded(nil, "crc32:00"); err == nil {
		t.Error("another algorithm is accepted")
	}
}
