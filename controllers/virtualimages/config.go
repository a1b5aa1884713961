package virtualimages

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/glance"
	"github.com/virtward/virtward/sources"
)

// Backend is a kind of place that stores images.
type Backend string

// The backends of classes. The schema of the chart has the same.
const (
	BackendCDI    Backend = "CDI"
	BackendGlance Backend = "Glance"
)

// Backends returns all backends.
func Backends() []Backend { return []Backend{BackendCDI, BackendGlance} }

// Choose returns the value for a backend; false if there is no such backend. It is the only choice between backends. A new
// backend is a new parameter, so that every caller must have a value for it.
func Choose[T any](b Backend, cdi, glance T) (chosen T, known bool) {
	switch b {
	case BackendCDI:
		return cdi, true
	case BackendGlance:
		return glance, true
	}
	return chosen, false
}

// Config is the configuration file of the process: the classes, the permitted sources and the limits.
type Config struct {
	// DefaultClass is the class of images that name none.
	DefaultClass string `json:"defaultClass"`
	// Classes are the classes by their names.
	Classes map[string]Class `json:"classes"`
	// Sources are the permitted sources.
	Sources struct {
		Hosts    []string `json:"hosts"`
		Networks []string `json:"networks"`
	} `json:"sources"`
	// Limits are those of a namespace and of the cluster.
	Limits struct {
		Images  int               `json:"imagesPerNamespace"`
		Bytes   resource.Quantity `json:"bytesPerNamespace"`
		Imports int               `json:"imports"`
		// Timeout bounds an import.
		Timeout metav1.Duration `json:"importTimeout"`
	} `json:"limits"`
}

// Class is a place that stores images.
type Class struct {
	// Backend is CDI or Glance.
	Backend Backend `json:"backend"`
	// Cloud is the name of the cloud in clouds.yaml, and Visibility that of the images; of Glance only.
	Cloud      string `json:"cloud"`
	Visibility string `json:"visibility"`
	// ClusterCopy is that of images that do not set it, Never if it is empty; of Glance only.
	ClusterCopy v1alpha1.ClusterCopy `json:"clusterCopy"`
	// WebDownload makes Glance read sources itself.
	WebDownload bool `json:"webDownload"`
	// CloudUsers says whether the servers that were booted from an image count as its users, Count if it is empty; of Glance only.
	CloudUsers string `json:"cloudUsers"`
}

// The choices of CloudUsers.
const (
	CountCloudUsers  = "Count"
	IgnoreCloudUsers = "Ignore"
)

var visibilities = []string{"", string(glance.Public), string(glance.Community), string(glance.Shared), string(glance.Private)}

// invalid says what is wrong with a class.
func (c *Class) invalid() error {
	check, known := Choose(c.Backend, c.invalidForCDI, c.invalidForGlance)
	if !known {
		return fmt.Errorf("backend: %q is neither %s nor %s", c.Backend, BackendCDI, BackendGlance)
	}
	return check()
}

// invalidForCDI says which fields are not for CDI.
func (c *Class) invalidForCDI() error {
	if c.Cloud != "" || c.Visibility != "" || c.WebDownload || c.ClusterCopy != "" || c.CloudUsers != "" {
		return errors.New("cloud, visibility, webDownload, clusterCopy and cloudUsers are only for Glance")
	}
	return nil
}

// invalidForGlance says what is wrong with the fields for Glance.
func (c *Class) invalidForGlance() error {
	switch {
	case c.Cloud == "":
		return errors.New("cloud: the name of a cloud in clouds.yaml is required")
	case c.ClusterCopy != "" && c.ClusterCopy != v1alpha1.ClusterCopyAlways && c.ClusterCopy != v1alpha1.ClusterCopyNever:
		return fmt.Errorf("clusterCopy: %q is neither %s nor %s", c.ClusterCopy, v1alpha1.ClusterCopyAlways, v1alpha1.ClusterCopyNever)
	case c.CloudUsers != "" && c.CloudUsers != CountCloudUsers && c.CloudUsers != IgnoreCloudUsers:
		return fmt.Errorf("cloudUsers: %q is neither %s nor %s", c.CloudUsers, CountCloudUsers, IgnoreCloudUsers)
	case !slices.Contains(visibilities, c.Visibility):
		return fmt.Errorf("visibility: %q is not public, community, shared or private", c.Visibility)
	}
	return nil
}

// Timeout and Stall bound the connections to sources.
const (
	Timeout = 15 * time.Second
	Stall   = time.Minute
)

// ParseConfig reads a configuration. It returns all faults.
func ParseConfig(data []byte) (*Config, error) {
	c := &Config{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	var errs []error
	if len(c.Classes) == 0 {
		errs = append(errs, errors.New("classes: at least one is required"))
	}
	for name, class := range c.Classes {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("classes.%s: %s", name, strings.Join(problems, "; ")))
		}
		if err := class.invalid(); err != nil {
			errs = append(errs, fmt.Errorf("classes.%s.%w", name, err))
		}
	}
	if _, known := c.Classes[c.DefaultClass]; !known {
		errs = append(errs, fmt.Errorf("defaultClass: %q is none of classes", c.DefaultClass))
	}
	if _, err := sources.ParseNetworks(c.Sources.Networks); err != nil {
		errs = append(errs, fmt.Errorf("sources.%w", err))
	}
	if c.Limits.Timeout.Duration <= 0 {
		errs = append(errs, errors.New("limits.importTimeout: must be a duration such as 6h"))
	}
	if c.Limits.Imports < 1 || c.Limits.Images < 0 || c.Limits.Bytes.Sign() < 0 {
		errs = append(errs, errors.New("limits: imports must be at least 1, the others at least 0"))
	}
	return c, errors.Join(errs...)
}

// Permitted are the sources. The configuration is one that ParseConfig returned without an error.
func (c *Config) Permitted() *sources.Sources {
	networks, _ := sources.ParseNetworks(c.Sources.Networks)
	return &sources.Sources{Hosts: c.Sources.Hosts, Networks: networks}
}

// Bounds are the limits.
func (c *Config) Bounds() Limits {
	return Limits{Images: c.Limits.Images, Bytes: c.Limits.Bytes.Value(), Imports: c.Limits.Imports}
}
