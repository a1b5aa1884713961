package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// memoryLimit is the variable with the memory limit of the container, in bytes.
const memoryLimit = "MEMORY_LIMIT"

// memoryPercent of the container's limit is where the garbage collector begins to work harder. The rest is for what the
// Go runtime does not count, and for what is allocated while it works.
const memoryPercent = 85

// limitMemory keeps the process below the limit of its container, if that is known. GOMEMLIMIT wins.
func limitMemory() error {
	text := os.Getenv(memoryLimit)
	if text == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit < 1 {
		return fmt.Errorf("$%s is %q: it must be a number of bytes", memoryLimit, text)
	}
	debug.SetMemoryLimit(limit / 100 * memoryPercent)
	return nil
}
