package templateapi

import (
	"os"
	"testing"

	"github.com/virtward/virtward/test/planes"
)

// pool has two control planes: each test installs the chart, with values of its own.
var pool = planes.Pool{Size: 2}

func TestMain(m *testing.M) { os.Exit(planes.Only(m, pool.Main)) }
