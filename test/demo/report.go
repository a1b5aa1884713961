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

// reported shows the same findings in a report for a pull request, without a cluster.
func (s *show) reported(ctx context.Context) error {
	s.prose(`The CLI reports the same findings without a cluster, on a laptop or in a CI job. This report is for annotations
		of a pull request. Without -o sarif, the output is for people.`)
	report := filepath.Join(s.cluster.Dir(), "legacy.sarif")
	output, err := s.redirects(ctx, alice, "kubectl virtward explain -f "+legacyFile+" -o sarif", report, 1)
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
	s.checked("the exit code is 1, and the findings are at the lines %s.", strings.Join(places, " and "))
	return nil
}

// sarif has the parts of a report that the demo reads.
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

// places returns the lines of the report's findings. It fails unless they are the invalid lines of the first VM's file.
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
