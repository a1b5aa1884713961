package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	var charts, versions string
	set := flag.NewFlagSet("gen", flag.ExitOnError)
	set.StringVar(&charts, "chart", "charts/virtward", "the folder of the chart")
	set.StringVar(&versions, "versions", "zz_generated.versions.go", "the Go file with the versions of kinds")
	_ = set.Parse(os.Args[1:]) // exits by itself
	if set.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: gen [-chart FOLDER] [-versions FILE] FILE")
		os.Exit(2)
	}
	if err := run(charts, set.Arg(0), versions); err != nil {
		fmt.Fprintln(os.Stderr, "generating the schemas:", err)
		os.Exit(1)
	}
}

func run(chart, file, versions string) error {
	entries := map[string][]byte{}
	for _, r := range releases {
		if err := r.add(entries); err != nil {
			return fmt.Errorf("KubeVirt %s: %w", r.version, err)
		}
	}
	for _, folder := range chartFolders {
		if err := addDefinitions(entries, filepath.Join(chart, folder)); err != nil {
			return err
		}
	}
	archive, err := archived(entries)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, archive, 0o644); err != nil {
		return err
	}
	table, err := versionsOf(entries)
	if err != nil {
		return fmt.Errorf("the versions of kinds: %w", err)
	}
	return os.WriteFile(versions, table, 0o644)
}

// archived writes the entries, sorted by name and without times.
func archived(entries map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry, err := archive.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(entries[name]); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
