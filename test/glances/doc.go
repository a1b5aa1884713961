// Package glances has OpenStack for tests: a fake of Glance in memory, the glance-api of Debian where it is installed, and
// simulators of Keystone, and of the lists of Nova and Cinder.
package glances
