// Package boundedwatch bounds the memory of watches.
//
// What enters: a client of one kind of object, and the number of bytes that its objects may take. What leaves: a
// ListerWatcher that never decodes more than one page of a list at once, and a Budget that says which objects there is
// room for. The package decides nothing about objects beyond their budget: the caller reads them when it needs them.
package boundedwatch
