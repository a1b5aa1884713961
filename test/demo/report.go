package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// reported: the same in a report for a pull request, which needs no cluster.
func (s *show) reported(ctx context.Context) error {
	s.prose(`A laptop or a CI job, without any cluster, knows it before anybody applies it. This report is for
		annotations of a pull request; for people, leave out -o sarif.`)
	report := filepath.Join(s.cluster.Dir(), "legacy.sarif")
	output, err := s.redirects(ctx, s.alice, "kubectl virtward explain -f "+legacyFile+" -o sarif", report, 1)
	if err != nil {
		return err
	}
	if err := says(output, legacyCauses...); err != nil {
		return err
	}
	content, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	var log sarif
	if err := json.Unmarshal(content, &log); err != nil {
		return fmt.Errorf("%s: %w", report, err)
	}
	places, err := s.places(log)
	if err != nil {
		return err
	}
	s.checked("the exit code is 1, and the report puts the findings at the lines that say %s.", strings.Join(places, " and "))
	return nil
}

// sarif is a report, as far as the demo looks at it.
type sarif struct {
	Runs []struct {
		Results []struct {
			RuleID    string
			Locations []struct {
				PhysicalLocation struct {
					ArtifactLocation struct{ URI string }
					Region           struct{ StartLine int }
				}
			}
		}
	}
}

// places are the lines of the first VM's file that a report is about. It fails unless they are those that are
// at fault.
func (s *show) places(log sarif) ([]string, error) {
	content, err := s.file(legacyFile)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(content), "\n")
	found := map[string]string{}
	for _, run := range log.Runs {
		for _, result := range run.Results {
			for _, l := range result.Locations {
				line := l.PhysicalLocation.Region.StartLine
				if l.PhysicalLocation.ArtifactLocation.URI != legacyFile || line < 1 || line > len(lines) {
					return nil, fmt.Errorf("the report is about line %d of %s", line, l.PhysicalLocation.ArtifactLocation.URI)
				}
				found[result.RuleID] = strconv.Quote(strings.TrimSpace(lines[line-1]))
			}
		}
	}
	if want := map[string]string{"arm64-disk-bus": `"bus: sata"`, "arm64-bios": `"bios: {}"`}; !maps.Equal(found, want) {
		return nil, fmt.Errorf("the report is about %v, want %v", found, want)
	}
	return slices.Sorted(maps.Values(found)), nil
}
