// Program gen writes the tables of the mapping into a page. Its argument is the page.
package main

import (
	"fmt"
	"os"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/texts/blocks"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen PAGE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(file string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	written, err := blocks.Markdown(string(page), "mapping", ovf.Table())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(written), 0o644)
}
