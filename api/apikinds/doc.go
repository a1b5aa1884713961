// Package apikinds names the kinds of objects that Virtward reads and evaluates.
package apikinds
