package main

import (
	"slices"
	"strings"
)

// around is how many unchanged lines a diff shows on each side of a change.
const around = 2

// diff compares two texts line by line. Each line of the result begins with '+', '-' or ' '; "..." replaces unchanged
// lines. It is empty for equal texts.
func diff(from, to string) []string {
	lines := align(strings.Split(strings.TrimRight(from, "\n"), "\n"), strings.Split(strings.TrimRight(to, "\n"), "\n"))
	shown := make([]bool, len(lines))
	for i, l := range lines {
		if l[0] == ' ' {
			continue
		}
		for j := max(0, i-around); j <= min(len(lines)-1, i+around); j++ {
			shown[j] = true
		}
	}
	if !slices.Contains(shown, true) {
		return nil
	}
	var result []string
	for i, l := range lines {
		switch {
		case shown[i]:
			result = append(result, l)
		case len(result) == 0 || result[len(result)-1] != " ...":
			result = append(result, " ...")
		}
	}
	return result
}

// align marks the lines of both texts by their longest common subsequence, removed lines before added ones.
func align(from, to []string) []string {
	common := make([][]int, len(from)+1) // common[i][j] is its length for from[i:] and to[j:]
	for i := range common {
		common[i] = make([]int, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []string
	i, j := 0, 0
	for i < len(from) && j < len(to) {
		switch {
		case from[i] == to[j]:
			lines = append(lines, " "+from[i])
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "-"+from[i])
			i++
		default:
			lines = append(lines, "+"+to[j])
			j++
		}
	}
	for ; i < len(from); i++ {
		lines = append(lines, "-"+from[i])
	}
	for ; j < len(to); j++ {
		lines = append(lines, "+"+to[j])
	}
	return lines
}
