package startup

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// memoryLimit is the environment variable with the memory limit of the container, in bytes.
const memoryLimit = "MEMORY_LIMIT"

// MemoryPercent is the part of the container's limit above which the garbage collector works harder. The rest is for
// memory that the Go runtime does not count, and for allocations during a collection.
const MemoryPercent = 85

// LimitMemory sets the memory limit of the Go runtime from that of the container, if it is known. GOMEMLIMIT has precedence.
func LimitMemory() error {
	text := os.Getenv(memoryLimit)
	if text == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit < 1 {
		return fmt.Errorf("$%s is %q: it must be a number of bytes", memoryLimit, text)
	}
	debug.SetMemoryLimit(limit / 100 * MemoryPercent)
	return nil
}
