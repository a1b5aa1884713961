package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/glances"
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

// imageServer serves a disk of 1 GiB in the format qcow2, without data, and a page.
func imageServer() *httptest.Server {
	disk := make([]byte, 1<<16)
	copy(disk, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint64(disk[24:], 1<<30)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content := disk
		if strings.HasSuffix(r.URL.Path, ".html") {
			content = []byte("<html><body>Log in first.</body></html>")
		}
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(content))
	}))
}

// namedImages follows a VirtualImage through its life, in the cluster and in Glance.
func namedImages(ctx context.Context, s *show) (err error) {
	web := imageServer()
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
	for _, part := range []func(context.Context, string) error{s.importsTiny, s.keepsTiny, s.deletesTiny} {
		if err := part(ctx, web.URL+"/tiny.qcow2"); err != nil {
			return err
		}
	}
	if cloud.glance == nil {
		s.prose("Glance is not installed here, so the part about OpenStack is skipped: apt-get install glance-api.")
		return nil
	}
	return s.storesInGlance(ctx, web.URL+"/tiny.qcow2", cloud)
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

func (s *show) importsTiny(ctx context.Context, src string) error {
	s.prose(`A VirtualImage is an image with a name. It is imported from a URL, once. Alice may create images in her namespace. A web
		server on this machine has a disk; CDI's import is simulated.`)
	if err := s.doesAll(ctx, s.admin, "kubectl apply -n "+namespace+" -f "+importersFile); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.alice, "kubectl auth can-i create datavolumes", "yes"); err != nil {
		return err
	}
	output, err := s.key("ready").does(ctx, s.alice, "kubectl virtward image create tiny --src "+src+" --wait")
	if err != nil {
		return err
	}
	if err := says(output, "virtualimage.kupenstack.io/tiny ready (1.07gb)"); err != nil {
		return err
	}
	s.prose("A page of a web server is not a disk. The image says so, and CDI never reads it:")
	return s.isRejected(ctx, s.alice, "kubectl virtward image create page --format qcow2 --wait --src "+strings.Replace(src, "tiny.qcow2", "login.html", 1), "FormatMismatch: the file is HTML or XML")
}

func (s *show) keepsTiny(ctx context.Context, _ string) error {
	s.prose("A VM clones the image. From then on, the image is in use. Its deletion waits:")
	if err := s.doesAll(ctx, s.alice, "kubectl apply -f "+shellFile); err != nil {
		return err
	}
	if err := s.awaitRow(ctx, s.alice, usageOfImages, "tiny true true "+namespace+"/shell -"); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.alice, "kubectl get virtualimages", "kubectl delete virtualimage tiny --wait=false"); err != nil {
		return err
	}
	if err := s.awaitRow(ctx, s.alice, usageOfImages, "tiny true true "+namespace+"/shell InUse"); err != nil {
		return err
	}
	output, err := s.key("").does(ctx, s.alice, usageOfImages)
	if err != nil {
		return err
	}
	s.checked("the image is still ready, since %s/shell uses it.", namespace)
	return says(output, "InUse")
}

func (s *show) deletesTiny(ctx context.Context, _ string) error {
	s.prose("The VM is deleted. Virtward waits for requests that were admitted before, reads all VMs once more, and deletes the image.")
	if err := s.doesAll(ctx, s.alice, "kubectl delete -f "+shellFile); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.alice, "kubectl wait virtualimage/tiny --for delete --timeout "+timeout.String()); err != nil {
		return err
	}
	left, err := s.call(ctx, s.admin, "kubectl get datavolumes,datasources -n "+namespace+" -l kupenstack.io/virtual-image-uid -o name")
	if err != nil || strings.Contains(left, "tiny") {
		return fmt.Errorf("these are left: %s (%w)", left, err)
	}
	s.checked("the image, its DataVolume and its DataSource are gone.")
	return s.quietly(ctx, s.alice, "kubectl delete virtualimage page --wait=false")
}

// storesInGlance imports an image into the real Glance, and deletes it there.
func (s *show) storesInGlance(ctx context.Context, src string, cloud *cloud) error {
	s.prose("The class openstack stores images in OpenStack Glance. This is Debian's glance-api: Virtward streams the file to it.")
	if err := s.doesAll(ctx, s.alice, "kubectl virtward image create tiny --src "+src+" --class openstack --wait", "kubectl get virtualimage tiny -o wide"); err != nil {
		return err
	}
	id, err := s.call(ctx, s.alice, "kubectl get virtualimage tiny -o jsonpath={.status.id}")
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
	if err := s.doesAll(ctx, s.alice, "kubectl delete virtualimage tiny --timeout "+timeout.String()); err != nil {
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
