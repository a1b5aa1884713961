// Package release tests the files of a release as their users read them: with curl, tar, sha256sum, Helm and cosign's formats.
//
// It runs bin/tools/release on the programs in bin/, and serves the result with that program. The soak tests sign with
// bin/tools/signing, and install from the registry on a machine without Go.
package release
