package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/glances"
	"github.com/virtward/virtward/test/simulators"
)

// The files of the chapter about VirtualImages, and the Secret with the credentials for OpenStack.
const (
	importersFile = "examples/virtual-images/authors.yaml"
	shellFile     = "examples/virtual-images/vm.yaml"
	cloudsSecret  = "openstack"
	usageOfImages = "kubectl virtward image usage"
)

// imageClasses are the values of the chart for VirtualImages: a class in the cluster, and one in Glance.
func imageClasses() map[string]any {
	return map[string]any{
		"enabled": true, "cloudsSecret": cloudsSecret, "sources": map[string]any{"networks": []any{"127.0.0.0/8"}},
		"classes": map[string]any{"openstack": map[string]any{"backend": "Glance", "cloud": "demo"}},
	}
}

// namedImages follows a VirtualImage through its life, in the cluster and in Glance.
func namedImages() []step { return []step{{do: (*show).followsNamed}} }

func (s *show) followsNamed(ctx context.Context) error {
	web := simulators.ServeDisks()
	defer web.Close()
	folder, err := os.MkdirTemp(s.cluster.Dir(), "glance-")
	if err != nil {
		return err
	}
	cloud, err := startGlance(ctx, folder)
	if err != nil && !errors.Is(err, glances.ErrNotInstalled) {
		return err
	}
	defer cloud.stop()
	if err := s.allowClouds(ctx, cloud.endpoint); err != nil {
		return err
	}
	process, err := s.cluster.RunVirtward(ctx, controlplane.Workload{
		Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardVirtualImages, Args: []string{"--admission-wait=2s"},
	})
	if err != nil {
		return err
	}
	defer process.Kill()
	src := web.URL + "/tiny.qcow2"
	if err := s.follow(ctx, namedSteps(src)); err != nil {
		return err
	}
	if cloud.glance == nil {
		s.prose("Glance is not installed here, so the part about OpenStack is skipped: apt-get install glance-api.")
		return nil
	}
	return s.storesInGlance(ctx, src, cloud)
}

// cloud is Debian's glance-api, or nothing.
type cloud struct {
	glance   *glances.Glance
	front    *httptest.Server
	endpoint string
}

// startGlance starts Glance, if it is installed. Without it, the endpoint is one that does not answer.
func startGlance(ctx context.Context, folder string) (*cloud, error) {
	glance, err := glances.Run(ctx, folder)
	if err != nil {
		return &cloud{endpoint: "http://127.0.0.1:1/"}, err
	}
	identified, err := glance.Identified()
	if err != nil {
		return &cloud{}, err
	}
	front := httptest.NewServer(identified)
	return &cloud{glance: glance, front: front, endpoint: front.URL + "/"}, nil
}

func (c *cloud) stop() {
	if c.glance != nil {
		c.front.Close()
		c.glance.Stop()
	}
}

// allowClouds writes the Secret with clouds.yaml.
func (s *show) allowClouds(ctx context.Context, endpoint string) error {
	return s.cluster.Client().Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.VirtwardNamespace, Name: cloudsSecret},
		StringData: map[string]string{"clouds.yaml": "clouds: {demo: {auth_type: none, image_endpoint_override: '" + endpoint + "'}}"},
	})
}

func namedSteps(src string) []step {
	const create = "kubectl virtward image create "
	return []step{
		{
			prose: `A VirtualImage is an image with a name. It is imported from a URL, once. Alice may create images in her namespace. A web
				server on this machine has a disk; CDI's import is simulated.`,
			as: admin, runs: []string{"kubectl apply -n " + namespace + " -f " + importersFile},
		},
		{
			as: alice, await: "kubectl auth can-i create datavolumes", until: "yes",
			tour: "ready", runs: []string{create + "tiny --src " + src + " --wait"}, says: []string{"virtualimage.kupenstack.io/tiny ready (1.07gb)"},
		},
		{
			prose: "A page of a web server is not a disk. The image says so, and CDI never reads it:",
			as:    alice, rejects: create + "page --format qcow2 --wait --src " + strings.Replace(src, "tiny.qcow2", "login.html", 1),
			says: []string{"FormatMismatch: the file is HTML or XML"},
		},
		{
			prose: "A VM clones the image. From then on, the image is in use. Its deletion waits:",
			as:    alice, runs: []string{"kubectl apply -f " + shellFile},
		},
		{
			as: alice, await: usageOfImages, until: "tiny true true " + namespace + "/shell -",
			runs: []string{"kubectl get virtualimages", "kubectl delete virtualimage tiny --wait=false"},
		},
		{
			as: alice, await: usageOfImages, until: "tiny true true " + namespace + "/shell InUse", tour: top, runs: []string{usageOfImages}, says: []string{"InUse"},
			checked: "the image is still ready, since " + namespace + "/shell uses it.",
		},
		{
			prose: "The VM is deleted. Virtward waits for requests that were admitted before, reads all VMs once more, and deletes the image.",
			as:    alice, runs: []string{"kubectl delete -f " + shellFile, "kubectl wait virtualimage/tiny --for delete --timeout " + timeout.String()},
		},
		{
			as: admin, hidden: true, runs: []string{"kubectl get datavolumes,datasources -n " + namespace + " -l kupenstack.io/virtual-image-uid -o name"},
			lacks: "tiny", checked: "the image, its DataVolume and its DataSource are gone.",
		},
		{as: alice, hidden: true, runs: []string{"kubectl delete virtualimage page --wait=false"}},
	}
}

// storesInGlance imports an image into the real Glance, and deletes it there.
func (s *show) storesInGlance(ctx context.Context, src string, cloud *cloud) error {
	s.prose("The class openstack stores images in OpenStack Glance. This is Debian's glance-api: Virtward streams the file to it.")
	if err := s.doesAll(ctx, alice, "kubectl virtward image create tiny --src "+src+" --class openstack --wait", "kubectl get virtualimage tiny -o wide"); err != nil {
		return err
	}
	id, err := s.call(ctx, alice, "kubectl get virtualimage tiny -o jsonpath={.status.id}")
	if err != nil {
		return err
	}
	images, err := cloud.images(ctx)
	if err != nil {
		return err
	}
	if images[id] != "active" || len(images) != 1 {
		return fmt.Errorf("the images of Glance are %v, want %s", images, id)
	}
	if err := s.doesAll(ctx, alice, "kubectl delete virtualimage tiny --timeout "+timeout.String()); err != nil {
		return err
	}
	if images, err = cloud.images(ctx); err != nil || len(images) > 0 {
		return fmt.Errorf("the images of Glance are %v (%w)", images, err)
	}
	s.checked("Glance had one image, with the identifier of the status, and has none now.")
	return nil
}

// images are the statuses of the images in Glance by their identifiers.
func (c *cloud) images(ctx context.Context) (map[string]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoint+"v2/images", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var list struct {
		Images []struct{ ID, Status string }
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("reading the images of Glance: %w", err)
	}
	images := map[string]string{}
	for _, i := range list.Images {
		images[i.ID] = i.Status
	}
	return images, nil
}
