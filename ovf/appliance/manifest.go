package appliance

import (
	"crypto/sha1" //nolint:gosec // manifests of old producers have it; it is compared, and not trusted
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"regexp"
	"strings"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/texts"
)

// digest is a line of a manifest.
type digest struct {
	algorithm, file, value string
}

// algorithms are those of manifests by their names without hyphens.
var algorithms = map[string]func() hash.Hash{
	"SHA1": sha1.New, "SHA256": sha256.New, "SHA2256": sha256.New, "SHA384": sha512.New384, "SHA512": sha512.New, "SHA2512": sha512.New,
}

var manifestLine = regexp.MustCompile(`^(\S+?)\s*\((.+)\)\s*=\s*([0-9a-fA-F]+)$`)

func newHash(algorithm string) func() hash.Hash {
	return algorithms[strings.ReplaceAll(strings.ToUpper(algorithm), "-", "")]
}

// text is the digest with its algorithm, such as sha256: and hexadecimal digits.
func (d *digest) text() string {
	name := map[int]string{sha1.Size: "sha1", sha256.Size: "sha256", sha512.Size384: "sha384", sha512.Size: "sha512"}[len(d.value)/2]
	return name + ":" + d.value
}

// parseManifest reads a manifest. The name is that of its file.
func parseManifest(name string, data []byte) ([]digest, *ovf.Rejection) {
	var found []digest
	seen := map[string]bool{}
	for i, line := range strings.FieldsFunc(strings.TrimPrefix(string(data), "\xef\xbb\xbf"), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		broken := func(message string) *ovf.Rejection {
			return rejection(ovf.ManifestInvalid, name, fmt.Sprintf("entry %d: %s", i+1, message), "write ALGORITHM(FILE)= DIGEST with SHA1, SHA256 or SHA512")
		}
		match := manifestLine.FindStringSubmatch(line)
		if match == nil {
			return nil, broken("it is not of the form ALGORITHM(FILE)= DIGEST")
		}
		create, file := newHash(match[1]), strings.TrimPrefix(match[2], here)
		switch {
		case create == nil:
			return nil, broken("the algorithm " + texts.Shorten(match[1], 40) + " is not known")
		case len(match[3]) != 2*create().Size():
			return nil, broken("the digest has the wrong length")
		case seen[file]:
			return nil, broken("the file " + texts.Shorten(file, 120) + " is listed twice")
		case len(found) == ovf.MaxFiles:
			return nil, broken("the manifest lists more than 1000 files")
		}
		seen[file] = true
		found = append(found, digest{strings.ToUpper(match[1]), file, strings.ToLower(match[3])})
	}
	if len(found) == 0 {
		return nil, rejection(ovf.ManifestInvalid, name, "the manifest is empty", "remove it, or list the files")
	}
	return found, nil
}

// matches calculates the digest of a file.
func (d *digest) matches(data Data) (bool, error) {
	sum := newHash(d.algorithm)()
	if _, err := io.Copy(sum, io.NewSectionReader(data, 0, data.Size())); err != nil {
		return false, fmt.Errorf("reading %s: %w", texts.Shorten(d.file, 256), err)
	}
	return hex.EncodeToString(sum.Sum(nil)) == d.value, nil
}
