// Program gen writes the reference of the fields of the group's kinds, from their definitions.
package main
