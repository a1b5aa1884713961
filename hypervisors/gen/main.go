package main

import (
	"fmt"
	"os"

	"github.com/virtward/virtward/hypervisors"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generating the page of the hypervisors:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(page(registry)), 0o644)
}
