// Package bench holds the benchmarks that the figures in docs/performance.md come from. `make bench` runs them.
package bench
