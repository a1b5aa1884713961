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
	"github.com/virtward/virtward/virtualimages"
	"github.com/virtward/virtward/virtualimages/glance"
)

// The backends of classes.
const (
	BackendCDI    = "CDI"
	BackendGlance = "Glance"
)

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
	Backend string `json:"backend"`
	// Cloud is the name of the cloud in clouds.yaml, and Visibility that of the images; of Glance only.
	Cloud      string `json:"cloud"`
	Visibility string `json:"visibility"`
	// ClusterCopy is that of images that do not set it, Never if it is empty; of Glance only.
	ClusterCopy v1alpha1.ClusterCopy `json:"clusterCopy"`
	// WebDownload makes Glance read sources itself.
	WebDownload bool `json:"webDownload"`
}

var visibilities = []string{"", string(glance.Public), string(glance.Community), string(glance.Shared), string(glance.Private)}

// invalid says what is wrong with a class.
func (c *Class) invalid() error {
	switch {
	case c.Backend != BackendCDI && c.Backend != BackendGlance:
		return fmt.Errorf("backend: %q is neither %s nor %s", c.Backend, BackendCDI, BackendGlance)
	case c.Backend == BackendGlance && c.Cloud == "":
		return errors.New("cloud: the name of a cloud in clouds.yaml is required")
	case c.Backend == BackendCDI && (c.Cloud != "" || c.Visibility != "" || c.WebDownload || c.ClusterCopy != ""):
		return errors.New("cloud, visibility, webDownload and clusterCopy are only for Glance")
	case c.ClusterCopy != "" && c.ClusterCopy != v1alpha1.ClusterCopyAlways && c.ClusterCopy != v1alpha1.ClusterCopyNever:
		return fmt.Errorf("clusterCopy: %q is neither %s nor %s", c.ClusterCopy, v1alpha1.ClusterCopyAlways, v1alpha1.ClusterCopyNever)
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
	if _, err := virtualimages.ParseNetworks(c.Sources.Networks); err != nil {
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
func (c *Config) Permitted() *virtualimages.Sources {
	networks, _ := virtualimages.ParseNetworks(c.Sources.Networks)
	return &virtualimages.Sources{Hosts: c.Sources.Hosts, Networks: networks}
}

// Bounds are the limits.
func (c *Config) Bounds() Limits {
	return Limits{Images: c.Limits.Images, Bytes: c.Limits.Bytes.Value(), Imports: c.Limits.Imports}
}
