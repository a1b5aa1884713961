package files

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SHA256 returns the digest of a file in hexadecimal digits.
func SHA256(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// Checksums returns the list that `sha256sum --check` reads, for files of a folder.
func Checksums(folder string, names []string) ([]byte, error) {
	var list bytes.Buffer
	for _, name := range slices.Sorted(slices.Values(names)) {
		digest, err := SHA256(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&list, "%s  %s\n", digest, name)
	}
	return list.Bytes(), nil
}

// Check compares the files of a folder with a list, and returns their names. A file that differs or is missing is an error.
func Check(folder string, list []byte) ([]string, error) {
	var names []string
	lines := bufio.NewScanner(bytes.NewReader(list))
	for lines.Scan() {
		want, name, found := strings.Cut(lines.Text(), "  ")
		if !found || name != filepath.Base(name) {
			return nil, fmt.Errorf("the list of checksums has the line %q", lines.Text())
		}
		got, err := SHA256(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if got != want {
			return nil, fmt.Errorf("%s has the SHA-256 digest %s, but %s in the list of checksums", name, got, want)
		}
		names = append(names, name)
	}
	return names, lines.Err()
}
