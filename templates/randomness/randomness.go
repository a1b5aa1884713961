// Package randomness draws numbers that cannot be guessed, for values that may be passwords.
//
// It has no input but the operating system, and no state.
package randomness

import (
	"crypto/rand"
	"math/big"
)

// Source draws numbers. It is safe for concurrent use.
type Source struct{}

// Bytes returns bytes, each with the same probability.
func (Source) Bytes(count int) []byte {
	drawn := make([]byte, count)
	_, _ = rand.Read(drawn) // it ends the program rather than to fail
	return drawn
}

// IntN returns a number in [0, n), each with the same probability. It panics if n is not positive.
func (Source) IntN(n int) int {
	drawn, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil { // crypto/rand ends the program rather than to fail
		panic(err)
	}
	return int(drawn.Int64())
}
