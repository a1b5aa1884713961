package templateimport

import (
	"bytes"
	"testing"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/sources/compressions/xz/xztest"
)

// TestDictionary holds that one file with a large dictionary is compared at a time, and that another one is tried again. A small dictionary
// waits for nothing.
func TestDictionary(t *testing.T) {
	content := make([]byte, 1024) // an empty archive
	of := &v1beta1.VirtualMachineTemplateImport{}
	of.Status.Staging = &v1beta1.ImportStaged{Compression: "xz"}
	of.Status.Source = &v1beta1.ImportedSource{Size: int64(len(content))}
	for name, test := range map[string]struct {
		code   byte
		locked bool
		want   string
	}{
		"small":                  {22, false, ""},
		"small, beside a large":  {22, true, ""},
		"large":                  {28, false, ""},
		"large, beside another":  {28, true, errLater.Error()},
		"larger than any":        {29, false, changed(of).Error()},
		"larger, beside another": {29, true, errLater.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			s := &LiveSource{}
			if test.locked {
				s.dictionary.Lock()
			}
			_, err := s.decompressed(of, bytes.NewReader(xztest.Stored(content, test.code)), nil)
			if err = described(of, nil, err); err == nil && test.want != "" || err != nil && err.Error() != test.want {
				t.Errorf("got %v", err)
			}
			if !test.locked && !s.dictionary.TryLock() {
				t.Error("the place for a large dictionary is still taken")
			}
		})
	}
}
