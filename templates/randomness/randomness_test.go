package randomness

import "testing"

func TestIntN(t *testing.T) {
	var counts [4]int
	for range 4000 {
		counts[Source{}.IntN(len(counts))]++
	}
	for n, count := range counts {
		if count < 800 { // 1,000 are expected, with a deviation of 27
			t.Errorf("%d was drawn %d times", n, count)
		}
	}
}
