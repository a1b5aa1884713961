package startup

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// MaxFile bounds the files that ReadText reads in bytes.
const MaxFile = 1 << 20

// ReadText reads a file of one line.
func ReadText(name string) (string, error) {
	data, err := ReadFile(name, MaxFile)
	return strings.TrimRight(string(data), "\r\n"), err
}

// ReadFile reads a file of at most a number of bytes.
func ReadFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d KiB", name, most>>10)
	}
	return data, err
}
