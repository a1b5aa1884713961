package glance_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/glance"
	"github.com/virtward/virtward/test/glances"
	"github.com/virtward/virtward/virtualimages"
)

const mine = "7a8b6c1e-0000-5000-8000-000000000001"

// usersOf reads the users of the image mine with a login.
func usersOf(t *testing.T, login glance.Login, change ...func(*glance.Options)) *virtualimages.CloudUsers {
	t.Helper()
	b, _ := (&cloud{}).backend(t, append(change, func(o *glance.Options) { o.Client = glance.Open(login) })...)
	return b.Users(t.Context(), &backend.Image{ID: mine})
}

// loginTo is a login without Keystone to a Glance, a Nova and a Cinder.
func loginTo(image, compute, volumes string) glance.Login {
	file := fmt.Sprintf("auth_type: none, image_endpoint_override: %q", image)
	if compute != "" {
		file += fmt.Sprintf(", compute_endpoint_override: %q", compute)
	}
	if volumes != "" {
		file += fmt.Sprintf(", block_storage_endpoint_override: %q", volumes)
	}
	return loginOf("clouds: {test: {" + file + "}}")
}

// servers are a number of servers of the image mine in a project.
func servers(project string, n int) (list []glances.Server) {
	for i := range n {
		list = append(list, glances.Server{ID: fmt.Sprintf("%s-%04d", project, i), Project: project, Image: mine, Status: "ACTIVE"})
	}
	return list
}

// mixed has three servers and two volumes in use of the image mine, and others.
func mixed(u *glances.Users) {
	u.Set([]glances.Server{
		{ID: "s1", Project: "images", Image: mine, Status: "ACTIVE"},
		{ID: "s2", Project: "other", Image: mine, Status: "SHELVED_OFFLOADED"},
		{ID: "s3", Project: "other", Image: mine, Status: "ERROR"},
		{ID: "s4", Project: "images", Image: "another", Status: "ACTIVE"},
		{ID: "s5", Project: "images", Status: "ACTIVE"}, // s5 boots from v1
	}, []glances.Volume{
		{ID: "v1", Project: "images", Image: mine, Status: "in-use"},
		{ID: "v2", Project: "other", Image: mine, Status: "in-use"},
		{ID: "v3", Project: "images", Image: mine, Status: "available"},
		{ID: "v4", Project: "images", Image: "another", Status: "in-use"},
		{ID: "v5", Project: "images", Status: "in-use"},
	})
}

// TestUsers: what an admin, a member and others may list.
func TestUsers(t *testing.T) {
	t.Parallel()
	const onlyNova, onlyCinder = "Nova permits it only to admins", "Cinder permits it only to admins"
	listed := func(sight virtualimages.Sight, number int, why string) virtualimages.Listed {
		return virtualimages.Listed{Sight: sight, Number: number, Why: why}
	}
	answers := func(status int, path string) func(*glances.Users) {
		return func(u *glances.Users) {
			u.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, path) {
					w.Header().Set("Location", "/elsewhere")
					w.WriteHeader(status)
				}
				return strings.HasSuffix(r.URL.Path, path)
			})
		}
	}
	writes := func(write func(w http.ResponseWriter, r *http.Request)) func(*glances.Users) {
		return func(u *glances.Users) {
			u.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
				write(w, r)
				return true
			})
		}
	}
	all, own := virtualimages.AllProjects, virtualimages.OwnProject
	broken := virtualimages.CloudUsers{
		Servers: listed(virtualimages.Unanswered, 0, "Nova does not answer as expected"), Volumes: listed(virtualimages.Unanswered, 0, "Cinder does not answer as expected"),
	}
	for name, test := range map[string]struct {
		change func(*glances.Users)
		want   virtualimages.CloudUsers
		calls  int
	}{
		"admin":       {nil, virtualimages.CloudUsers{Servers: listed(all, 3, ""), Volumes: listed(all, 2, "")}, 4},
		"no users":    {func(u *glances.Users) { u.Set(nil, nil) }, virtualimages.CloudUsers{Servers: listed(all, 0, ""), Volumes: listed(all, 0, "")}, 2},
		"member":      {func(u *glances.Users) { u.Account(false) }, virtualimages.CloudUsers{Servers: listed(own, 1, onlyNova), Volumes: listed(virtualimages.NotListed, 0, onlyCinder)}, 5},
		"forbidden":   {answers(http.StatusForbidden, "/servers"), virtualimages.CloudUsers{Servers: listed(virtualimages.NotListed, 0, "Nova does not permit it to the account"), Volumes: listed(all, 2, "")}, 4},
		"not found":   {answers(http.StatusNotFound, "/servers"), virtualimages.CloudUsers{Servers: listed(virtualimages.NotListed, 0, "Nova answers 404 Not Found"), Volumes: listed(all, 2, "")}, 3},
		"redirect":    {answers(http.StatusFound, "/servers"), virtualimages.CloudUsers{Servers: listed(virtualimages.NotListed, 0, "Nova answers 302 Found"), Volumes: listed(all, 2, "")}, 3},
		"bad request": {answers(http.StatusBadRequest, "/servers"), virtualimages.CloudUsers{Servers: listed(virtualimages.NotListed, 0, "Nova answers 400 Bad Request"), Volumes: listed(all, 2, "")}, 3},
		"no projects": {answers(http.StatusForbidden, "/volumes"), virtualimages.CloudUsers{Servers: listed(all, 3, ""), Volumes: listed(virtualimages.NotListed, 0, "Cinder does not permit it to the account")}, 4},
		"old Cinder":  {answers(http.StatusNotAcceptable, "/volumes"), virtualimages.CloudUsers{Servers: listed(all, 3, ""), Volumes: listed(virtualimages.NotListed, 0, "Cinder answers 406 Not Acceptable")}, 3},
		"broken":      {answers(http.StatusServiceUnavailable, "/servers"), virtualimages.CloudUsers{Servers: listed(virtualimages.Unanswered, 0, "Nova answers 503 Service Unavailable"), Volumes: listed(all, 2, "")}, 3},
		"busy":        {answers(http.StatusTooManyRequests, "/volumes"), virtualimages.CloudUsers{Servers: listed(all, 3, ""), Volumes: listed(virtualimages.Unanswered, 0, "Cinder answers 429 Too Many Requests")}, 3},
		"rejected":    {answers(http.StatusUnauthorized, "/servers"), virtualimages.CloudUsers{Servers: listed(virtualimages.Unanswered, 0, "Nova answers 401 Unauthorized"), Volumes: listed(all, 2, "")}, 3},
		"not JSON":    {writes(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }), broken, 2},
		"endless answer": {writes(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"servers": [`)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(`{"id": "a"},`, 1000)); err != nil {
					return
				}
			}
		}), broken, 2},
		"no answer": {writes(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), broken, 2},
		"the same page again": {writes(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.FormValue("image")+r.FormValue("glance_metadata"), "00000000-0000-0000") {
				_, _ = io.WriteString(w, `{"servers": []}`)
				return
			}
			_, _ = io.WriteString(w, `{"servers": [{"id": "a"}], "servers_links": [{"rel": "next"}], "volumes": [{"id": "a"}], "volumes_links": [{"rel": "next"}]}`)
		}), virtualimages.CloudUsers{Servers: listed(all, 2, ""), Volumes: listed(all, 2, "")}, 6},
		"no filter": {writes(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"servers": [{"id": "a"}], "volumes": [{"id": "a"}]}`)
		}), virtualimages.CloudUsers{
			Servers: listed(virtualimages.NotListed, 0, "Nova does not filter its list by image"), Volumes: listed(virtualimages.NotListed, 0, "Cinder does not filter its list by image"),
		}, 4},
		"several pages":   {func(u *glances.Users) { u.Set(servers("other", 250), nil) }, virtualimages.CloudUsers{Servers: listed(all, 250, ""), Volumes: listed(all, 0, "")}, 5},
		"small pages":     {func(u *glances.Users) { u.Set(servers("other", 35), nil); u.SetLargest(10) }, virtualimages.CloudUsers{Servers: listed(all, 35, ""), Volumes: listed(all, 0, "")}, 6},
		"more than count": {func(u *glances.Users) { u.Set(servers("other", 5000), nil) }, virtualimages.CloudUsers{Servers: listed(all, 1000, ""), Volumes: listed(all, 0, "")}, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := glances.NewUsers(t)
			mixed(u)
			if test.change != nil {
				test.change(u)
			}
			got := usersOf(t, loginTo(glances.NewFake(t).URL, u.Nova(), u.Cinder()+"/"), func(o *glance.Options) {
				if name == "no answer" {
					o.Timeout = time.Second
				}
			})
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Error(diff)
			}
			if calls := u.Calls(); len(calls) != test.calls {
				t.Errorf("%d calls, want %d:\n%s", len(calls), test.calls, strings.Join(calls, "\n"))
			}
		})
	}
}

// TestUsersInCatalog: where the services are. A service that is missing, and each answer of one that exists, ends no call of Glance.
func TestUsersInCatalog(t *testing.T) {
	f, k := keystone(t)
	u := glances.NewUsers(t)
	u.Permits = k.Permits
	mixed(u)
	nova := glances.Endpoint{Region: "one", Interface: "public", URL: u.Nova() + "/"}
	elsewhere := nova
	elsewhere.Region = "two"
	login := loginOf("clouds: {test: {" + fmt.Sprintf(passwordOf, k.URL+"/v3") + "}}")
	for name, test := range map[string]struct {
		compute, volumes []glances.Endpoint
		servers, cinder  virtualimages.Listed
	}{
		"both": {[]glances.Endpoint{nova}, []glances.Endpoint{{Region: "one", Interface: "public", URL: u.Cinder()}}, virtualimages.Listed{Sight: virtualimages.AllProjects, Number: 3}, virtualimages.Listed{Sight: virtualimages.AllProjects, Number: 2}},
		"neither": {
			nil, nil,
			virtualimages.Listed{Sight: virtualimages.NoEndpoint, Why: "the catalog of the cloud has no Nova with the interface public"},
			virtualimages.Listed{Sight: virtualimages.NoEndpoint, Why: "the catalog of the cloud has no Cinder with the interface public"},
		},
		"two regions": {
			[]glances.Endpoint{nova, elsewhere},
			nil,
			virtualimages.Listed{Sight: virtualimages.NoEndpoint, Why: "clouds.yaml needs a region_name: Nova is in the regions one, two"},
			virtualimages.Listed{Sight: virtualimages.NoEndpoint, Why: "the catalog of the cloud has no Cinder with the interface public"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k.Offer("compute", test.compute...)
			k.Offer("volumev3", test.volumes...)
			if diff := cmp.Diff(&virtualimages.CloudUsers{Servers: test.servers, Volumes: test.cinder}, usersOf(t, login)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("credentials", func(t *testing.T) {
		k.Reject(true)
		defer k.Reject(false)
		why := virtualimages.Listed{Sight: virtualimages.Unanswered, Why: "the cloud rejects the credentials of clouds.yaml"}
		if diff := cmp.Diff(&virtualimages.CloudUsers{Servers: why, Volumes: why}, usersOf(t, login)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a Nova that accepts no token, and does not answer", func(t *testing.T) {
		k.Offer("compute", nova)
		b, _ := (&cloud{}).backend(t, func(o *glance.Options) { o.Client = glance.Open(login) })
		observe := func() {
			t.Helper()
			if _, err := b.Observe(t.Context(), (&cloud{}).image("/disk")); err != nil {
				t.Error(err)
			}
		}
		observe()
		logins := len(k.Logins())
		for _, status := range []int{http.StatusUnauthorized, http.StatusBadGateway} {
			u.SetFault(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true })
			for range 5 {
				if got := b.Users(t.Context(), &backend.Image{ID: mine}); !got.Unanswered() {
					t.Errorf("%+v", got)
				}
				observe()
			}
		}
		if n := len(k.Logins()); n != logins {
			t.Errorf("%d logins more", n-logins)
		}
		before := len(u.Calls())
		if got := b.Users(t.Context(), &backend.Image{ID: mine}); got.Servers.Why != "Nova does not answer" || len(u.Calls()) != before {
			t.Errorf("%+v, %d calls in a pause", got, len(u.Calls())-before)
		}
	})
	t.Run("an expired token", func(t *testing.T) {
		u.SetFault(nil)
		b, _ := (&cloud{}).backend(t, func(o *glance.Options) { o.Client = glance.Open(login) })
		users := func() virtualimages.Sight { return b.Users(t.Context(), &backend.Image{ID: mine}).Servers.Sight }
		if got := users(); got != virtualimages.AllProjects {
			t.Error(got)
		}
		k.Expire()
		if got := users(); got != virtualimages.Unanswered {
			t.Error(got)
		}
		if _, err := b.Observe(t.Context(), (&cloud{}).image("/disk")); err != nil { // Glance renews it
			t.Error(err)
		}
		if got := users(); got != virtualimages.AllProjects {
			t.Error(got)
		}
	})
	if f.Count() != 0 {
		t.Error("images were created")
	}
}

// TestUsersOverrides: URLs of clouds.yaml that cannot be used.
func TestUsersOverrides(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	defer away.Close()
	for url, want := range map[string]string{
		"ftp://nova":          `the cloud "test" needs a compute_endpoint_override such as https://nova.example.com:8774/v2.1`,
		away.URL + "/?a=b":    `the cloud "test" needs a compute_endpoint_override such as https://nova.example.com:8774/v2.1`,
		away.URL + "/v2.1":    "Nova answers 404 Not Found",
		"":                    "clouds.yaml has no compute_endpoint_override",
		"http://127.0.0.1:1/": "Nova does not answer as expected",
	} {
		if got := usersOf(t, loginTo(away.URL, url, "")); got.Servers.Why != want || got.Servers.Number != 0 {
			t.Errorf("%q: %+v, want %q", url, got.Servers, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, _ := (&cloud{}).backend(t, func(o *glance.Options) { o.IgnoreUsers = true })
	if b.ListsUsers() {
		t.Error("users count that are ignored")
	}
	b, _ = (&cloud{}).backend(t, func(o *glance.Options) { o.Client = glance.Open(loginTo(away.URL, away.URL, away.URL)) })
	if got := b.Users(ctx, &backend.Image{ID: mine}); !b.ListsUsers() || !got.Unanswered() {
		t.Errorf("%+v", got)
	}
}
