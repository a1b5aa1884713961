package appliances_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/appliances"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
)

// TestBeside holds that each file beside a descriptor is opened once, that their number is bounded, and where parts are.
func TestBeside(t *testing.T) {
	folder := t.TempDir()
	for n := range ovf.MaxFiles + 2 {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(n)), []byte(fmt.Sprint("file ", n)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := appliances.Open(filepath.Join(folder, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for n := 1; n <= ovf.MaxFiles; n++ {
		for range 2 {
			if data, err := file.Beside(fmt.Sprint(n)); err != nil || data == nil || data.Size() == 0 {
				t.Fatalf("%d: %v, %v", n, data, err)
			}
		}
	}
	if _, err := file.Beside(fmt.Sprint(ovf.MaxFiles + 1)); err == nil || !strings.Contains(err.Error(), "more than 1000 files") {
		t.Errorf("one more file: %v", err)
	}
	for name, want := range map[string]string{"7": "ile 7", "of an archive": "ile 0"} {
		section := file.Part(&appliance.Part{Name: name, Offset: 1, Size: 5})
		if got, err := io.ReadAll(io.NewSectionReader(section.File, section.Offset, section.Size)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
