// Package conditions sets the conditions of statuses.
//
// Input: the conditions of a status, and the next one. Output: the conditions with it. The package is pure, and decides nothing about
// an object.
package conditions
