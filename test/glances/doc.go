// Package glances has OpenStack for tests: a fake of Glance in memory, the glance-api of Debian where it is installed, and a
// simulator of Keystone.
package glances
