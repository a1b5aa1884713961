// Command signing signs the files of a release, and verifies them.
//
//	signing sign -key release.key dist      # with a key, which is made if the file does not exist
//	signing sign -keyless dist              # with an identity of GitHub Actions
//	signing verify -key dist/cosign.pub dist
//	signing verify -identity IDENTITY -issuer ISSUER dist
//
// What enters: a folder that tools/release wrote. What leaves: a bundle of Sigstore beside each artifact and each statement, which
// cosign verifies too. It has a module of its own, because Sigstore's libraries take almost a minute to compile. It never writes
// the private key into the folder of the release.
package main
