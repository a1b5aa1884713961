// Command release builds the files of a release, and publishes them.
//
//	release build -version v0.1.0 -repository registry.example.com/virtward -url https://example.com/v0.1.0 -out dist
//	release push dist
//	release serve -listen 127.0.0.1:5000 dist
//
// What enters: the source at a commit. What leaves: a folder with archives of the CLI, images, charts, manifests, bills of
// materials, checksums and the statements to sign. From one commit, the folder is equal byte by byte on each machine with the same
// version of Go. Only the statement of the provenance has the time and the place of the build. It never signs: tools/signing does.
package main
