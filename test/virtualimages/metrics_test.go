package virtualimages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/test/controlplane"
)

// metrics: the process has the metrics that the page of metrics lists, and no others of its own.
func (f *fixture) metrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	must(t, err)
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(virtward_virtual_image[a-z_]*)").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	if len(listed) != 8 {
		t.Fatalf("the page lists %v", listed)
	}
	for again := true; again; {
		before := f.started(t)
		image := f.image(t, "counted", f.web.serve("counted.qcow2", []byte("<html></html>")), nil)
		f.becomes(t, image.Name, v1alpha1.ConditionReady, "FormatMismatch")
		stored := f.image(t, "stored", f.web.serve("stored.qcow2", qcow2(1<<30)), nil)
		f.becomes(t, stored.Name, v1alpha1.ConditionImported, "Imported")
		again = false
		f.eventually(t, "metrics", func() error {
			text, err := f.scrape(t.Context())
			if err == nil {
				err = counted(text, listed)
			}
			if again = err != nil && f.started(t) != before; again { // it lost its Lease, and has not counted what it did before
				return nil
			}
			return err
		})
		for _, made := range []*v1alpha1.VirtualImage{image, stored} {
			must(t, f.owner.Delete(t.Context(), made))
			f.gone(t, made)
		}
	}
}

// counted compares the metrics with those that are listed, and with what was counted at least.
func counted(text string, listed []string) error {
	for _, line := range []string{
		`virtward_virtual_images{class="cluster",state="Failed"} `, `virtward_virtual_image_imports_total{class="cluster",result="imported"} `,
		`virtward_virtual_image_import_failures_total{class="cluster",reason="FormatMismatch"} `, `virtward_virtual_image_import_seconds_count{class="cluster"} `,
	} {
		if !strings.Contains(text, "\n"+line) || strings.Contains(text, "\n"+line+"0\n") && !strings.Contains(line, "Failed") {
			return fmt.Errorf("no %s in\n%s", line, text)
		}
	}
	var found []string
	for _, name := range regexp.MustCompile(`(?m)^# TYPE (virtward_virtual_image[a-z_]*) `).FindAllStringSubmatch(text, -1) {
		found = append(found, name[1])
	}
	if slices.Sort(found); !slices.Equal(found, listed) {
		return fmt.Errorf("the metrics are %v, the page lists %v", found, listed)
	}
	return nil
}

// started is when the process started, as its metrics say.
func (f *fixture) started(t *testing.T) (at string) {
	t.Helper()
	f.eventually(t, "its start", func() error {
		text, err := f.scrape(t.Context())
		if found := regexp.MustCompile(`(?m)^process_start_time_seconds (.+)$`).FindStringSubmatch(text); err == nil && found != nil {
			at = found[1]
		} else if err == nil {
			err = errors.New("no start in the metrics")
		}
		return err
	})
	return at
}

// scrape reads the metrics of the process.
func (f *fixture) scrape(ctx context.Context) (string, error) {
	deployment := &appsv1.Deployment{}
	if err := f.Client().Get(ctx, client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardVirtualImages}, deployment); err != nil {
		return "", err
	}
	for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
		if port.Name != "metrics" {
			continue
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port.ContainerPort), nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return string(text), err
	}
	return "", fmt.Errorf("the Deployment %s has no port for metrics", deployment.Name)
}
