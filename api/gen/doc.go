// Program gen writes the reference of the fields of an API group: of its kinds, from their definitions, and of types that no definition
// has, from their source.
package main
