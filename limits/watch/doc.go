// Package watch bounds the memory of watches.
//
// Input: a client of one kind, and the number of bytes for its objects. Output: a ListerWatcher that never decodes more
// than one page of a list at once, and a Budget that reports which objects fit into the memory.
//
// The package does not read objects that exceed the budget: the caller reads them when it needs them.
package watch
