package virtualimages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/virtualimages"
)

func TestParseConfig(t *testing.T) {
	const valid = `
defaultClass: cluster
classes:
  cluster: {backend: CDI}
  cloud: {backend: Glance, cloud: images, visibility: private, webDownload: true}
sources: {hosts: ["*.example.com"], networks: ["10.1.2.3/16"]}
limits: {imagesPerNamespace: 5, bytesPerNamespace: 1Gi, imports: 2, importTimeout: 1h}
`
	c, err := ParseConfig([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Permitted(); len(got.Networks) != 1 || got.Networks[0].String() != "10.1.0.0/16" || got.Hosts[0] != "*.example.com" {
		t.Errorf("sources %+v", got)
	}
	if diff := cmp.Diff(Limits{Images: 5, Bytes: 1 << 30, Imports: 2}, c.Bounds()); diff != "" {
		t.Error(diff)
	}
	for name, test := range map[string]struct{ change, to, want string }{
		"unknown field":        {"defaultClass", "default", "unknown field"},
		"unknown default":      {"defaultClass: cluster", "defaultClass: none", `defaultClass: "none" is none of classes`},
		"unknown backend":      {"backend: CDI", "backend: Ceph", `classes.cluster.backend: "Ceph" is neither CDI nor Glance`},
		"Glance without cloud": {"cloud: images, ", "", "classes.cloud.cloud: the name of a cloud"},
		"CDI with visibility":  {"backend: CDI", "backend: CDI, visibility: public", "are only for Glance"},
		"CDI with clusterCopy": {"backend: CDI", "backend: CDI, clusterCopy: Always", "are only for Glance"},
		"unknown clusterCopy":  {"visibility: private", "clusterCopy: Once", `"Once" is neither Always nor Never`},
		"CDI with cloudUsers":  {"backend: CDI", "backend: CDI, cloudUsers: Count", "are only for Glance"},
		"unknown cloudUsers":   {"visibility: private", "cloudUsers: Some", `cloudUsers: "Some" is neither Count nor Ignore`},
		"unknown visibility":   {"visibility: private", "visibility: all", `"all" is not public`},
		"name of a class":      {"  cloud:", "  Cloud_1:", "classes.Cloud_1"},
		"no network":           {"10.1.2.3/16", "10.1.2.3", "sources.networks[0]"},
		"no imports":           {"imports: 2", "imports: 0", "imports must be at least 1"},
		"no timeout":           {", importTimeout: 1h", "", "limits.importTimeout"},
		"negative limit":       {"imagesPerNamespace: 5", "imagesPerNamespace: -1", "the others at least 0"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseConfig([]byte(strings.ReplaceAll(valid, test.change, test.to))); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }
	all := []held{{"c", at(2), 0}, {"b", at(1), 600}, {"a", at(1), 500}, {"d", at(3), 0}}
	for name, test := range map[string]struct {
		limits Limits
		uid    types.UID
		want   string
	}{
		"none":          {Limits{}, "d", ""},
		"within":        {Limits{Images: 3}, "c", ""},
		"beyond":        {Limits{Images: 3}, "d", "the namespace has 4 images, and only its 3 oldest are imported"},
		"oldest by UID": {Limits{Images: 1}, "a", ""},
		"second by UID": {Limits{Images: 1}, "b", "the namespace has 4 images, and only its 1 oldest are imported"},
		"bytes":         {Limits{Bytes: 1100}, "c", "the images of the namespace have 1100, and their limit is 1100"},
		"bytes within":  {Limits{Bytes: 1101}, "c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fault := test.limits.exceeded(test.limits.countOf(append([]held(nil), all...), time.Now()), test.uid)
			if (fault == nil) != (test.want == "") || fault != nil && (fault.Message != test.want || fault.Reason != ReasonLimit) {
				t.Errorf("%+v, want %q", fault, test.want)
			}
		})
	}
}

// TestBegin: one namespace leaves places for others.
func TestBegin(t *testing.T) {
	r := New(Options{Limits: Limits{Imports: 8}})
	begun := func(namespace string) (n int) {
		for i := range 10 {
			if begins, _, _, _ := r.Begin(t.Context(), namespace, fmt.Sprint(i), 1<<30); begins {
				n++
			}
		}
		return n
	}
	for namespace, want := range map[string]int{"a": 2, "b": 2} {
		if got := begun(namespace); got != want {
			t.Errorf("namespace %s has %d imports, want %d", namespace, got, want)
		}
	}
	for range 2 { // the same images once more take no other places
		if got := begun("c") + begun("d") + begun("e"); got != 4 {
			t.Errorf("%d imports of the other namespaces, want 4", got)
		}
	}
	if waits, _, message, _ := r.Await(t.Context(), "a", "upload", 1<<30); !waits { // an upload takes no place, and waits for none
		t.Error(message)
	}
	if begins, _, _, _ := r.Begin(t.Context(), "f", "import", 1<<30); begins {
		t.Error("an import begins without a place")
	}
}

// TestReserve: images that begin at the same time do not exceed the bytes of their namespace.
func TestReserve(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := New(Options{Limits: Limits{Imports: 100, Bytes: 100}, Clock: clocktesting.NewFakePassiveClock(now)})
	stored := func(bytes int64) { r.counts["team"] = &count{at: now, bytes: bytes} }
	stored(30)
	begin := func(name string, bytes int64) string {
		begins, reason, message, err := r.Begin(t.Context(), "team", name, bytes)
		if err != nil || begins == (message != "") {
			t.Fatalf("%t, %s, %v", begins, message, err)
		}
		return strings.TrimSpace(reason + " " + message)
	}
	exceeded := func(needs, has int) string {
		return fmt.Sprintf("LimitExceeded the image needs %d, the other images of the namespace have %d, and their limit is 100", needs, has)
	}
	image := func(name string) *v1alpha1.VirtualImage {
		return &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	}
	for i, step := range []struct {
		name  string
		bytes int64
		want  string
	}{
		{"a", 40, ""},
		{"b", 31, exceeded(31, 70)},
		{"a", 40, ""}, // it has begun
		{"b", 30, ""},
		{"c", 1, exceeded(1, 100)},
		{"huge", 1<<63 - 1, strings.Replace(exceeded(0, 100), "needs 0", "needs 9223372036854775807", 1)},
	} {
		if got := begin(step.name, step.bytes); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	r.counted(image("a")) // its status has the bytes: the next count has them
	if r.counts["team"] != nil {
		t.Error("the count before is used again")
	}
	stored(70)
	if got := begin("c", 1); got != exceeded(1, 100) {
		t.Error(got)
	}
	r.ends(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: "b"}})
	if got := begin("c", 1); got != "" {
		t.Error(got)
	}
}

// TestCensus: deletions that wait share a list, and each has one that began after its first question.
func TestCensus(t *testing.T) {
	var lists atomic.Int64
	gate, began := make(chan struct{}), make(chan struct{}, 100)
	c := &census{between: time.Millisecond, retry: time.Millisecond}
	c.counts = func(_ context.Context, _ *v1alpha1.VirtualImage, list []user) (names []string, _ error) {
		for i := range list {
			if list[i].namespace != "third" {
				names = append(names, list[i].shown)
			}
		}
		return names, nil
	}
	c.each = func(_ context.Context, found func(user)) error {
		n := lists.Add(1)
		began <- struct{}{}
		<-gate
		if n == 2 {
			return errors.New("the API server does not answer")
		}
		found(userIn("team/web", virtualimages.Reference{Namespace: "team", Name: "i0"}, virtualimages.Reference{Claim: true, Namespace: "team", Name: "i0-u0"}))
		found(userIn("other/web", virtualimages.Reference{Namespace: "team", Name: "i0"}, virtualimages.Reference{Namespace: "team", Name: "none"}))
		found(userIn("third/web", virtualimages.Reference{Namespace: "team", Name: "i0"}))
		found(user{shown: "other/unreadable", namespace: "other", unreadable: true})
		return nil
	}
	image := func(i int) *v1alpha1.VirtualImage {
		name := fmt.Sprint("i", i)
		return &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(fmt.Sprint("u", i))}}
	}
	since := metav1.NewTime(time.Unix(1_700_000_000, 0))
	ask := func(i int) *virtualimages.Users { return c.users(t.Context(), image(i), since) }
	answer := func(i int) *virtualimages.Users {
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
			if users := ask(i); users != nil {
				return users
			}
		}
		t.Fatalf("image %d has no answer", i)
		return nil
	}
	if ask(0) != nil {
		t.Fatal("an answer without a list")
	}
	<-began // the list of image 0 has begun: it is none for the others
	const images = 500
	for i := 1; i < images; i++ {
		for range 2 {
			if ask(i) != nil {
				t.Fatal("an answer of a list that began before the question")
			}
		}
	}
	close(gate)
	if got, want := answer(0), (&virtualimages.Users{Names: []string{"team/web"}, Total: 2, Elsewhere: 1}); !cmp.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	for i := 1; i < images; i++ {
		if users := answer(i); users.Total != 0 {
			t.Errorf("%+v", users)
		}
	}
	if n := lists.Load(); n != 3 { // the second one failed
		t.Errorf("%d lists for %d images", n, images)
	}
	since = metav1.NewTime(since.Add(time.Minute)) // another deletion of the same image
	if ask(0) != nil {
		t.Error("an answer is used again")
	}
	c.forget(types.NamespacedName{Namespace: "team", Name: "i0"})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) != 0 {
		t.Errorf("%d questions are left", len(c.open))
	}
}

func object(kind int, name string) objectKey {
	return objectKey{kind, types.NamespacedName{Namespace: "team", Name: name}}
}

// userIn is a user with the default account of its namespace.
func userIn(shown string, list ...virtualimages.Reference) user {
	namespace, _, _ := strings.Cut(shown, "/")
	return user{shown: shown, namespace: namespace, account: virtualimages.DefaultAccount, list: list}
}

// counted are the users and the templates of an image, if all of them count.
func (x *index) counted(image *v1alpha1.VirtualImage) (users, templates *virtualimages.Users, omitted bool) {
	held, listed, complete, omitted := x.of(image)
	shown := func(list []user) (names []string) {
		for i := range list {
			names = append(names, list[i].shown)
		}
		return names
	}
	if complete {
		users = virtualimages.CountUsers(image.Namespace, shown(held))
	}
	return users, virtualimages.CountUsers(image.Namespace, shown(listed)), omitted
}

func TestIndex(t *testing.T) {
	image := &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fedora", UID: "0b6c7c0e-52a9"}}
	source := virtualimages.Reference{Namespace: "team", Name: "fedora"}
	volume := virtualimages.Reference{Claim: true, Namespace: "team", Name: "fedora-0b6c7c0e"}
	own := virtualimages.Reference{Claim: true, Namespace: "team", Name: "web-root"}
	x := newIndex()
	if users, _, _ := x.counted(image); users != nil {
		t.Errorf("users %v before all kinds are read", users)
	}
	for i := range x.loaded {
		x.loaded[i] = kinds[i].holds // a list of templates that fails prevents nothing
	}
	touched := x.set(object(0, "web"), userIn("team/web", source, own))
	if diff := cmp.Diff([]virtualimages.Reference{source}, touched); diff != "" {
		t.Errorf("references that cannot be to an image: %s", diff)
	}
	x.set(object(1, "web"), userIn("team/web", volume))
	x.set(object(2, "copy"), userIn("team/copy", source))
	x.set(object(3, "small"), userIn("team/small", source))
	users, templates, _ := x.counted(image)
	if diff := cmp.Diff(&virtualimages.Users{Names: []string{"team/copy", "team/web"}, Total: 2}, users); diff != "" || templates.Total != 1 {
		t.Errorf("%s, templates %v", diff, templates)
	}
	for _, key := range []objectKey{object(0, "web"), object(1, "web"), object(2, "copy"), object(3, "small")} {
		if len(x.set(key, user{})) != 1 {
			t.Errorf("%v had no reference", key)
		}
	}
	if users, _, _ := x.counted(image); users.Total != 0 || x.count != 0 || len(x.users) != 0 || len(x.objects) != 0 {
		t.Errorf("users %v, index %v", users, x.objects)
	}
	// An object that cannot be read uses every image of its namespace, and none of others. A template that cannot be read uses none.
	x.set(object(0, "unreadable"), user{shown: "team/unreadable", namespace: "team", unreadable: true})
	x.set(objectKey{0, types.NamespacedName{Namespace: "other", Name: "unreadable"}}, user{shown: "other/unreadable", namespace: "other", unreadable: true})
	x.set(object(3, "unreadable"), user{shown: "team/template", namespace: "team", unreadable: true})
	if users, _, _ := x.counted(image); !cmp.Equal(users, &virtualimages.Users{Names: []string{"team/unreadable"}, Total: 1}) {
		t.Errorf("users %+v", users)
	}
	x.set(object(0, "unreadable"), user{})
	x.set(objectKey{0, types.NamespacedName{Namespace: "other", Name: "unreadable"}}, user{})
	if users, _, _ := x.counted(image); users.Total != 0 || x.count != 0 || len(x.unreadable) != 0 {
		t.Errorf("users %v, %d in the index", users, x.count)
	}
	many := make([]virtualimages.Reference, maxReferences)
	for i := range many {
		many[i] = virtualimages.Reference{Namespace: "team", Name: fmt.Sprint("i", i)}
	}
	x.set(object(0, "large"), userIn("team/large", many...))
	x.set(object(0, "web"), userIn("team/web", source))
	if users, _, omitted := x.counted(image); users != nil || !omitted {
		t.Errorf("users %v, omitted %v beyond the bound", users, omitted)
	}
}

// TestUserOf reads the objects of each kind.
func TestUserOf(t *testing.T) {
	for kind, test := range map[int]struct {
		json  string
		shown string
		count int
	}{
		0: {`{"metadata":{"namespace":"team","name":"web"},"spec":{"dataVolumeTemplates":[{"spec":{"sourceRef":{"kind":"DataSource","name":"fedora"}}}]}}`, "team/web", 1},
		1: {`{"metadata":{"namespace":"team","name":"web","ownerReferences":[{"kind":"VirtualMachine","name":"owner","controller":true}]},"spec":{"volumes":[{"name":"a","persistentVolumeClaim":{"claimName":"b"}}]}}`, "team/owner", 1},
		2: {`{"metadata":{"namespace":"team","name":"web"},"spec":{"source":{"pvc":{"namespace":"images","name":"b"}}}}`, "team/web", 1},
		3: {`{"metadata":{"namespace":"team","name":"web"},"spec":{"virtualMachine":{"spec":{"dataVolumeTemplates":[{"spec":{"sourceRef":{"name":"a","namespace":"images"}}},{"spec":{}}]}}}}`, "team/web", 1},
	} {
		u := kinds[kind].userOf(&pages.Object{Namespace: "team", Name: "web", JSON: []byte(test.json)})
		if u.unreadable || u.shown != test.shown || len(u.list) != test.count || u.namespace != "team" || u.account != virtualimages.DefaultAccount {
			t.Errorf("%s: %+v", kinds[kind].Kind, u)
		}
	}
	for name, object := range map[string]pages.Object{
		"too large":               {Namespace: "team", Name: "web"},
		"of another type":         {Namespace: "team", Name: "web", JSON: []byte(`{"spec":[]}`)},
		"a label of another type": {Namespace: "team", Name: "web", JSON: []byte(`{"spec":{"template":{"metadata":{"labels":{"a":1}}}}}`)},
	} {
		if u := kinds[0].userOf(&object); !u.unreadable || u.shown != "team/web" || u.namespace != "team" {
			t.Errorf("%s: %+v", name, u)
		}
	}
	named := kinds[0].userOf(&pages.Object{Namespace: "team", Name: "web", JSON: []byte(`{"spec":{"template":{"spec":{"volumes":[{"name":"a","serviceAccount":{"serviceAccountName":"first"}},{"name":"b","serviceAccount":{"serviceAccountName":"last"}}]}}}}`)})
	if named.account != "last" {
		t.Errorf("account %q", named.account)
	}
}
