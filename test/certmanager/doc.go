// Package certmanager has cert-manager for tests, in a module of its own: its controllers and its cainjector, built from its
// sources. Nothing of it is part of Virtward's programs.
package certmanager
