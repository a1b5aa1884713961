package domains

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/conformance/documented"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/hypervisors"
)

var update = flag.Bool("update", false, "write the measured figures into docs/internals/conformance.md")

const page documented.Page = "../../docs/internals/conformance.md"

func newRegistry(t testing.TB) *hypervisors.Registry {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

func replayAll(t testing.TB) *Report {
	t.Helper()
	file, err := os.Open("../testdata/domains/domain.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report := NewReport(newRegistry(t))
	if err := report.Replay(file); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestAgreement(t *testing.T) {
	report := replayAll(t)
	for _, d := range report.Differences {
		t.Logf("%s: %s", d.Case, d.Text)
	}
	if report.Total.Of < 600 || report.Total.Share() < 0.98 {
		t.Errorf("%s is below 98 %%", report.Summary())
	}
	if diff := cmp.Diff(page.Rows(t, "## Domains"), report.Differing()); diff != "" {
		t.Errorf("cases (-documented +seen):\n%s", diff)
	}
	page.Figures(t, "## Domains", report.Summary()+"\n", *update)
}

// TestPreviews holds that every recorded instance has a preview without a node, or an error with a stage, and that a document is
// equal to itself after it is written and read.
func TestPreviews(t *testing.T) {
	file, err := os.Open("../testdata/domains/domain.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	registry, previewed := newRegistry(t), 0
	err = conformance.Lines(file, func(line []byte) error {
		c, err := Read(line)
		if err != nil {
			return err
		}
		in := c.Input()
		in.Trace = true
		var failed *domain.Error
		if in.VMI, in.Host, err = domain.Preview(c.VMI, &domain.Assumptions{}); err != nil {
			return err
		}
		converter, err := registry.Converter(in.Facts.Hypervisor.Name, domain.ArchitectureOf(in))
		if err != nil {
			return err
		}
		result, err := converter.Convert(in)
		if err != nil {
			if !errors.As(err, &failed) || failed.Stage == "" {
				t.Errorf("%s: %v has no stage", c.ID, err)
			}
			return nil
		}
		previewed++
		document := result.Element()
		document.Clean()
		var text strings.Builder
		if err := document.XML(&text); err != nil {
			return err
		}
		read, err := domain.ParseElement(strings.NewReader(text.String()))
		if err != nil {
			return err
		}
		if differences := domain.Diff(document, read); len(differences) > 0 {
			t.Errorf("%s: the document is read otherwise: %+v", c.ID, differences[0])
		}
		return nil
	})
	if err != nil || previewed < 600 {
		t.Errorf("%d previews: %v", previewed, err)
	}
}
