package imports

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/conformance"
)

// TestRecorded replays what the real controllers did with the same objects. All cases are equal.
func TestRecorded(t *testing.T) {
	file, err := os.Open("../testdata/golden/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cases := map[string]int{}
	err = conformance.Lines(file, func(line []byte) error {
		var c struct {
			ID, Area string
			Input    struct {
				Webhook   bool
				Objects   []json.RawMessage
				Reconcile any
				Steps     []struct {
					Apply  []json.RawMessage
					Delete [][]string
				}
			}
			Expect json.RawMessage
		}
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		if c.Area != "cdi-pointer" && c.Area != "cdi-cron" || c.Input.Webhook {
			return nil
		}
		cases[c.Area]++
		objects := NewObjects()
		for _, object := range c.Input.Objects {
			if err := objects.Add(object); err != nil {
				return fmt.Errorf("%s: %w", c.ID, err)
			}
		}
		var got []any
		switch c.Area {
		case "cdi-cron":
			failures := []string{}
			for _, name := range c.Input.Reconcile.([]any) {
				parts := name.([]any)
				if err := objects.ReconcileCron(Name{parts[1].(string), parts[2].(string)}); err != nil {
					failures = append(failures, "error")
				}
			}
			got = append(got, crons(objects, failures))
		case "cdi-pointer":
			only, _ := c.Input.Reconcile.([]any)
			reconcile := func() {
				for _, name := range Names(objects.Sources) {
					if only == nil || fmt.Sprint(only) == "["+name.Name+"]" {
						objects.ReconcileSource(name)
					}
				}
				got = append(got, sources(objects))
			}
			reconcile()
			for _, step := range c.Input.Steps {
				for _, object := range step.Apply {
					if err := apply(objects, object); err != nil {
						return err
					}
				}
				for _, d := range step.Delete {
					objects.Delete(d[0], Name{d[1], d[2]})
				}
				reconcile()
			}
		}
		var want []any
		if c.Area == "cdi-pointer" {
			var expect struct {
				Steps []struct{ DataSources []map[string]any }
			}
			if err := json.Unmarshal(c.Expect, &expect); err != nil {
				return err
			}
			for _, step := range expect.Steps {
				want = append(want, recordedSources(step.DataSources))
			}
		} else {
			want = append(want, recordedCrons(t, c.Expect))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-recorded +simulated):\n%s", c.ID, diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if cases["cdi-pointer"] < 20 || cases["cdi-cron"] < 10 {
		t.Errorf("cases: %v", cases)
	}
	t.Log(cases)
}

// apply changes the spec of a DataSource and keeps its labels and status, as an update of a user does.
func apply(objects *Objects, object []byte) error {
	before := map[Name]map[string]string{}
	for name, source := range objects.Sources {
		before[name] = source.Labels
	}
	if err := objects.Add(object); err != nil {
		return err
	}
	for name, labels := range before {
		if source := objects.Sources[name]; source.Labels == nil {
			source.Labels = labels
		}
	}
	return nil
}

func tree(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		panic(err)
	}
	return pruned(decoded)
}

// pruned removes empty values, texts of messages and times.
func pruned(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, item := range v {
			if key == "message" || strings.HasSuffix(key, "Time") || strings.HasSuffix(key, "Timestamp") {
				continue
			}
			if item = pruned(item); item != nil {
				kept[key] = item
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case []any:
		kept := []any{}
		for _, item := range v {
			if item = pruned(item); item != nil {
				kept = append(kept, item)
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case string:
		if v == "" {
			return nil
		}
	}
	return value
}

func sources(o *Objects) map[string]any {
	all := map[string]any{}
	for _, name := range Names(o.Sources) {
		s := o.Sources[name]
		all[name.Namespace+"/"+name.Name] = tree(map[string]any{"labels": s.Labels, "spec": s.Spec.Source, "status": s.Status.Source, "conditions": s.Status.Conditions})
	}
	return all
}

func recordedSources(recorded []map[string]any) map[string]any {
	all := map[string]any{}
	for _, s := range recorded {
		all[fmt.Sprint(s["namespace"], "/", s["name"])] = tree(map[string]any{"labels": s["labels"], "spec": s["specSource"], "status": s["statusSource"], "conditions": s["conditions"]})
	}
	return all
}

func crons(o *Objects, failures []string) map[string]any {
	all := map[string]any{}
	for _, name := range Names(o.Crons) {
		all["cron "+name.Name] = tree(o.Crons[name].Status)
	}
	for _, name := range Names(o.Sources) {
		all["DataSource "+name.Name] = tree(map[string]any{"labels": o.Sources[name].Labels, "source": o.Sources[name].Spec.Source})
	}
	for _, name := range Names(o.Volumes) {
		v := o.Volumes[name]
		all["DataVolume "+name.Name] = tree(map[string]any{"labels": v.Labels, "annotations": v.Annotations, "source": v.Spec.Source, "phase": v.Status.Phase})
	}
	for _, name := range Names(o.Claims) {
		all["PersistentVolumeClaim "+name.Name] = tree(map[string]any{"labels": o.Claims[name].Labels, "phase": o.Claims[name].Status.Phase})
	}
	all["errors"] = len(failures)
	return all
}

func recordedCrons(t *testing.T, expect []byte) map[string]any {
	t.Helper()
	var e struct {
		Crons []struct {
			Name   string
			Status any
		}
		Objects []struct {
			Kind     string
			Metadata struct {
				Name                string
				Labels, Annotations map[string]string
			}
			Spec   struct{ Source any }
			Status struct{ Phase string }
		}
		Errors []string
	}
	if err := json.Unmarshal(expect, &e); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"errors": len(e.Errors)}
	for _, c := range e.Crons {
		all["cron "+c.Name] = tree(c.Status)
	}
	for _, o := range e.Objects {
		fields := map[string]any{"labels": o.Metadata.Labels}
		switch o.Kind {
		case "DataSource":
			fields["source"] = o.Spec.Source
		case "DataVolume":
			fields["annotations"], fields["source"], fields["phase"] = o.Metadata.Annotations, o.Spec.Source, o.Status.Phase
		default:
			fields["phase"] = o.Status.Phase
		}
		all[o.Kind+" "+o.Metadata.Name] = tree(fields)
	}
	return all
}
