package virtualimages

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/glances"
	"github.com/virtward/virtward/virtualimages"
)

// touched writes an annotation again and again until something happens, so that the image is observed at once.
func (f *openstack) touched(t *testing.T, image *v1alpha1.VirtualImage, what string, happened func(*v1alpha1.VirtualImage) bool) *v1alpha1.VirtualImage {
	t.Helper()
	left := &v1alpha1.VirtualImage{}
	for deadline, n := time.Now().Add(await.Patience), 0; time.Now().Before(deadline); n++ {
		left = &v1alpha1.VirtualImage{}
		err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), left)
		must(t, client.IgnoreNotFound(err))
		if err != nil {
			left = nil
		}
		if happened(left) {
			return left
		}
		if n%10 == 0 && left != nil {
			patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata": {"annotations": {"touched": "%d"}}}`, n))
			must(t, client.IgnoreNotFound(f.Client().Patch(t.Context(), left, patch)))
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("%s: %+v", what, left)
	return nil
}

// users: servers of OpenStack that the account may list keep an image; for others, the status says that they are not counted.
func (f *openstack) users(t *testing.T) {
	system := &corev1.Namespace{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	src := f.web.serve("used.qcow2", qcow2(1<<30))
	ready := func(name string, project string) *v1alpha1.VirtualImage {
		image := f.image(t, name, src, nil)
		id := virtualimages.ID(string(system.UID), image.UID, 1)
		f.nova.Set([]glances.Server{
			{ID: "a", Project: project, Image: id, Status: "ACTIVE"}, {ID: "b", Project: project, Image: id, Status: "SHELVED_OFFLOADED"}, {ID: "c", Project: "images", Image: "another"},
		}, []glances.Volume{{ID: "v", Project: project, Image: id, Status: "in-use"}, {ID: "w", Project: project, Image: id, Status: "available"}})
		return f.becomes(t, f.becomes(t, name, v1alpha1.ConditionReady, "Ready").Name, v1alpha1.ConditionReady, "Ready")
	}
	gone := func(image *v1alpha1.VirtualImage) bool { return image == nil }
	condition := func(image *v1alpha1.VirtualImage, kind string) metav1.Condition {
		if image == nil {
			return metav1.Condition{}
		}
		if c := meta.FindStatusCondition(image.Status.Conditions, kind); c != nil {
			return *c
		}
		return metav1.Condition{}
	}
	defer f.nova.Set(nil, nil)

	image := ready("counted", "shop")
	f.becomes(t, image.Name, v1alpha1.ConditionCloudUsersCounted, "AllProjects")
	image = f.touched(t, image, "the servers and the volume are not counted", func(image *v1alpha1.VirtualImage) bool {
		return condition(image, v1alpha1.ConditionInUse).Message == "used by 2 servers and 1 volume in OpenStack"
	})
	if !image.Status.Usage.InUse || *image.Status.Usage.Cloud.Servers != 2 || *image.Status.Usage.Cloud.Volumes != 1 {
		t.Errorf("%+v", image.Status)
	}
	must(t, f.owner.Delete(t.Context(), image))
	image = f.becomes(t, image.Name, v1alpha1.ConditionDeleting, "InUse")
	if c := condition(image, v1alpha1.ConditionDeleting); !image.Status.Ready || c.Message != "the deletion waits for those that use the image: 2 servers and 1 volume in OpenStack" {
		t.Errorf("%+v", image.Status)
	}
	time.Sleep(2 * f.admission)
	if in := f.cloud.images(t); in[image.Status.ID] == nil {
		t.Errorf("images in Glance while one is in use: %v", in)
	}
	f.nova.Set(nil, nil)
	f.touched(t, image, "the deletion after the last server", gone)

	f.nova.Account(false)
	image = ready("member", "shop")
	image = f.becomes(t, image.Name, v1alpha1.ConditionCloudUsersCounted, "OwnProject")
	if c := condition(image, v1alpha1.ConditionCloudUsersCounted); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "only the servers of the project of Virtward's account are counted") || image.Status.Usage.InUse {
		t.Errorf("%+v", image.Status)
	}
	must(t, f.owner.Delete(t.Context(), image))
	f.touched(t, image, "the deletion with servers that may not be listed", gone)
	image = ready("project", "images")
	image = f.becomes(t, image.Name, v1alpha1.ConditionInUse, "InUse")
	if *image.Status.Usage.Cloud.Servers != 2 || image.Status.Usage.Cloud.Volumes != nil {
		t.Errorf("%+v", image.Status.Usage)
	}
	f.nova.Set(nil, nil)
	must(t, f.owner.Delete(t.Context(), image))
	f.touched(t, image, "the deletion after the last server of the project", gone)
	f.nova.Account(true)

	answer := func(status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			return true
		}
	}
	f.nova.SetFault(answer(http.StatusNotFound))
	image = ready("absent", "shop")
	image = f.becomes(t, image.Name, v1alpha1.ConditionCloudUsersCounted, "NotListed")
	if c := condition(image, v1alpha1.ConditionCloudUsersCounted); c.Message != "servers are not counted: Nova answers 404 Not Found; volumes are not counted: Cinder answers 404 Not Found" || image.Status.Usage.Cloud != nil {
		t.Errorf("%+v", image.Status)
	}
	must(t, f.owner.Delete(t.Context(), image))
	f.touched(t, image, "the deletion without a Nova", gone)

	f.nova.SetFault(answer(http.StatusServiceUnavailable))
	image = ready("silent", "shop")
	f.becomes(t, image.Name, v1alpha1.ConditionCloudUsersCounted, "Unanswered")
	must(t, f.owner.Delete(t.Context(), image))
	image = f.touched(t, image, "a deletion that waits for Nova", func(image *v1alpha1.VirtualImage) bool {
		return condition(image, v1alpha1.ConditionDeleting).Reason == virtualimages.ReasonUsersUnknown
	})
	if in := f.cloud.images(t); in[image.Status.ID] == nil {
		t.Errorf("images in Glance while Nova does not answer: %v", in)
	}
	f.nova.SetFault(nil)
	f.touched(t, image, "the servers that use it", func(image *v1alpha1.VirtualImage) bool {
		return condition(image, v1alpha1.ConditionDeleting).Reason == virtualimages.ReasonInUse && image.Status.Ready
	})
	f.nova.Set(nil, nil)
	f.touched(t, image, "the deletion after Nova answers", gone)
	f.empty(t)
}
