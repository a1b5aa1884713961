// Program gen writes a page for each command of the CLI. Its argument is the folder of the pages.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtward/virtward/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the pages, and removes those of commands that there are no more.
func write(folder string) error {
	err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755))
	for name, page := range cli.Reference() {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), []byte(page), 0o644))
	}
	return err
}
