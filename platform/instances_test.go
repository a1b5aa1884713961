package platform_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unsafe"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/isolated"
)

// recorded are Objects that read answers by their paths, and the number of reads.
func recorded(t *testing.T, bodies map[string]string) (*platform.Objects, map[string]int) {
	t.Helper()
	reads := map[string]int{}
	objects, err := platform.NewObjects(&rest.Config{Host: "http://cluster.test", QPS: -1, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		reads[r.URL.Path]++
		body, ok := bodies[r.URL.Path]
		response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(body))}
		if !ok {
			response.StatusCode = http.StatusNotFound
		}
		return response, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	return objects, reads
}

const (
	instancePath = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/db"
	startPath    = "/apis/apps/v1/namespaces/shop/controllerrevisions/start"
)

func TestInstancesAreReadAgain(t *testing.T) {
	objects, reads := recorded(t, map[string]string{
		instancePath: `{"metadata":{"name":"db","managedFields":[{}]},"spec":{"hostname":"h","domain":{"devices":{}}},"status":{"virtualMachineRevisionName":"start"}}`,
		startPath:    `{"metadata":{"name":"start"},"data":{"spec":{"template":{"spec":{"hostname":"s","domain":{"devices":{}}}}}}}`,
	})
	for range 2 {
		vmi, err := objects.Instance(t.Context(), "shop", "db")
		if err != nil || vmi.Spec.Hostname != "h" || vmi.Status.VirtualMachineRevisionName != "start" || vmi.ManagedFields != nil {
			t.Fatalf("%+v, %v", vmi, err)
		}
		started, err := objects.StartedSpec(t.Context(), "shop", "start")
		if err != nil || started.Template.Spec.Hostname != "s" {
			t.Fatalf("%+v, %v", started, err)
		}
	}
	if reads[instancePath] != 2 || reads[startPath] != 1 {
		t.Errorf("the instance is read again, and its start is cached: reads %v", reads)
	}
	if stats := objects.Statistics(); stats.Entries != 2 || stats.Bytes < 1<<10 {
		t.Errorf("the cache counts %+v", stats)
	}
	if _, err := objects.Instance(t.Context(), "shop", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
}

// The decoded spec of an instance is cached by its content: it is never that of another answer.
func TestSpecsOfInstancesAreCachedByContent(t *testing.T) {
	bodies := map[string]string{}
	objects, _ := recorded(t, bodies)
	read := func(body string) *v1.VirtualMachineInstance {
		t.Helper()
		bodies[instancePath] = body
		vmi, err := objects.Instance(t.Context(), "shop", "db")
		if err != nil {
			t.Fatal(err)
		}
		return vmi
	}
	first := read(`{"metadata":{"uid":"1"},"spec":{"hostname":"a","dnsConfig":{"nameservers":["010.0.0.1"]}},"status":{"phase":"Running"}}`)
	again := read(`{"metadata":{"uid":"2"},"spec":{"hostname":"a","dnsConfig":{"nameservers":["010.0.0.1"]}},"status":{"phase":"Failed"}}`)
	if hits := objects.Statistics().Hits; hits != 1 {
		t.Errorf("%d hits for the same spec", hits)
	}
	if again.UID != "2" || again.Status.Phase != v1.Failed || first.UID != "1" || first.Status.Phase != v1.Running {
		t.Errorf("the metadata and the status are those of each answer: %+v, %+v", first, again)
	}
	if again.Spec.Hostname != "a" || again.Spec.DNSConfig.Nameservers[0] != "10.0.0.1" {
		t.Errorf("spec %+v", again.Spec)
	}
	if other := read(`{"metadata":{"uid":"2"},"spec":{"hostname":"b"}}`); other.Spec.Hostname != "b" || other.Spec.DNSConfig != nil {
		t.Errorf("another spec is not that of the cache: %+v", other.Spec)
	}
}

// An instance without a spec is read, and JSON that has an error is one.
func TestInstancesWithoutSpecs(t *testing.T) {
	bodies := map[string]string{}
	objects, _ := recorded(t, bodies)
	for _, body := range []string{`{"metadata":{"uid":"1"}}`, `{"spec":null,"metadata":{"uid":"1"}}`, `{"spec":{},"metadata":{"uid":"1"}}`} {
		bodies[instancePath] = body
		if vmi, err := objects.Instance(t.Context(), "shop", "db"); err != nil || vmi.UID != "1" || vmi.Spec.Hostname != "" {
			t.Errorf("%s: %+v, %v", body, vmi, err)
		}
	}
	for _, body := range []string{`{"spec":{"hostname":1}}`, `{"spec":"none"}`, `{"spec":{},"metadata":{"uid":}}`, `{"spec":{`} {
		bodies[instancePath] = body
		if vmi, err := objects.Instance(t.Context(), "shop", "db"); err == nil {
			t.Errorf("%s: %+v", body, vmi)
		}
	}
}

// The cache counts what decoded specs need, also of short JSON with many objects.
func TestCostOfCachedSpecs(t *testing.T) {
	objects, _ := recorded(t, map[string]string{instancePath: `{"spec":{"domain":{"devices":{"interfaces":[` + strings.TrimSuffix(strings.Repeat("{},", 1400), ",") + `]}}}}`})
	vmi, err := objects.Instance(t.Context(), "shop", "db")
	if err != nil {
		t.Fatal(err)
	}
	needed := int64(cap(vmi.Spec.Domain.Devices.Interfaces)) * int64(unsafe.Sizeof(v1.Interface{}))
	if counted := objects.Statistics().Bytes; counted < needed {
		t.Errorf("%d bytes are counted, and %d needed", counted, needed)
	}
}

// Instances that do not fit into the reserved memory are not decoded, and those that fit need no more.
func TestMemoryOfInstances(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	const reserved = 4 << 20
	list := func(field, item string, n int) string {
		return `{"spec":{"domain":{"devices":{` + field + `:[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}}}}`
	}
	for name, c := range map[string]struct {
		body     string
		tooLarge bool
	}{
		"many interfaces":     {body: list(`"interfaces"`, `{}`, 1490)},
		"many disks":          {body: list(`"disks"`, `{}`, 1490)},
		"nested disks":        {body: list(`"disks"`, `{"disk":{}}`, 740)},
		"too many interfaces": {body: list(`"interfaces"`, `{}`, 1510), tooLarge: true},
		"long text":           {body: `{"spec":{"hostname":"` + strings.Repeat("x", 250<<10) + `"}}`},
		"too long":            {body: `{"spec":{"hostname":"` + strings.Repeat("x", 260<<10) + `"}}`, tooLarge: true},
		"a long number":       {body: `{"spec":{"domain":{"memory":{"guest":"1e999999999"}}}}`, tooLarge: true},
	} {
		t.Run(name, func(t *testing.T) {
			objects, _ := recorded(t, map[string]string{instancePath: c.body})
			before := isolated.Allocated()
			_, err := objects.Instance(t.Context(), "shop", "db")
			used := isolated.Allocated() - before
			if errors.Is(err, platform.ErrTooLarge) != c.tooLarge || err != nil && !c.tooLarge {
				t.Errorf("error %v", err)
			}
			if used > reserved/2 {
				t.Errorf("%s are allocated, and half of %d is reserved for one object", bytesOf(used), reserved)
			}
		})
	}
}

func bytesOf(n int64) string { return fmt.Sprintf("%d KiB", n>>10) }
