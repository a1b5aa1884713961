package glances

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Server is a server of Nova. The image of one that boots from a volume is empty.
type Server struct{ ID, Project, Image, Status string }

// Volume is a volume of Cinder. Image is that from which it was made.
type Volume struct{ ID, Project, Image, Status string }

// Users simulates the short lists of Nova and of Cinder, as far as they are used: filters, pages and what an account may list. Its
// rules are those that the documentation of Nova and of Cinder states: neither runs here. Create it with NewUsers.
type Users struct {
	*httptest.Server

	mu sync.Mutex
	// account is what the caller is: an admin, or a member of a project.
	admin   bool
	project string
	// largest is the number of entries of a page at most.
	largest int
	servers []Server
	volumes []Volume
	fault   func(w http.ResponseWriter, r *http.Request) bool
	calls   []string
	// Permits reports whether a token is valid; nil for no tokens.
	Permits func(token string) bool
}

// NewUsers starts a simulator that ends with the test. Its caller is an admin.
func NewUsers(t testing.TB) *Users {
	t.Helper()
	u := &Users{admin: true, project: "images", largest: 1000}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2.1/servers", u.listServers)
	mux.HandleFunc("GET /v3/{project}/volumes", u.listVolumes)
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.calls = append(u.calls, r.URL.Path+"?"+r.URL.RawQuery)
		fault, permits := u.fault, u.Permits
		u.mu.Unlock()
		switch {
		case fault != nil && fault(w, r):
		case permits != nil && !permits(r.Header.Get("X-Auth-Token")):
			respond(w, http.StatusUnauthorized, nil)
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

// Nova is the URL of Nova.
func (u *Users) Nova() string { return u.URL + "/v2.1" }

// Cinder is the URL of Cinder.
func (u *Users) Cinder() string { return u.URL + "/v3/images" }

// Set replaces all servers and volumes.
func (u *Users) Set(servers []Server, volumes []Volume) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.servers, u.volumes = servers, volumes
}

// Account makes the caller an admin, or a member of the project images.
func (u *Users) Account(admin bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.admin = admin
}

// SetLargest limits the entries of a page.
func (u *Users) SetLargest(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.largest = n
}

// SetFault answers calls instead of the services if it returns true.
func (u *Users) SetFault(fault func(w http.ResponseWriter, r *http.Request) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fault = fault
}

// Calls are the paths and queries of the calls.
func (u *Users) Calls() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.calls)
}

// listServers has those of all projects for admins only: others get 403.
func (u *Users) listServers(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := r.FormValue("all_tenants") == "1"
	if all && !u.admin {
		respond(w, http.StatusForbidden, map[string]any{"forbidden": map[string]any{"code": 403, "message": "Policy doesn't allow os_compute_api:servers:detail:get_all_tenants to be performed."}})
		return
	}
	var ids []string
	for _, s := range u.servers {
		if (all || s.Project == u.project) && (!r.Form.Has("image") || s.Image == r.FormValue("image")) {
			ids = append(ids, s.ID)
		}
	}
	u.page(w, r, "servers", ids)
}

// listVolumes has the microversion 3.31: the filters of admins are applied, and those of others are rejected. all_tenants of others is
// skipped silently.
func (u *Users) listVolumes(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if version := r.Header.Get("OpenStack-API-Version"); version != "volume 3.31" {
		respond(w, http.StatusNotAcceptable, nil)
		return
	}
	image := ""
	if r.FormValue("glance_metadata") != "" {
		if !u.admin {
			respond(w, http.StatusBadRequest, map[string]any{"badRequest": map[string]any{"code": 400, "message": "Invalid filters glance_metadata are found in query options."}})
			return
		}
		var metadata map[string]string
		if err := json.Unmarshal([]byte(strings.ReplaceAll(r.FormValue("glance_metadata"), "'", `"`)), &metadata); err != nil { // a literal of Python
			respond(w, http.StatusBadRequest, nil)
			return
		}
		image = metadata["image_id"]
	}
	var ids []string
	for _, v := range u.volumes {
		if (u.admin && r.FormValue("all_tenants") == "1" || v.Project == u.project) && (image == "" || v.Image == image) && (!r.Form.Has("status") || v.Status == r.FormValue("status")) {
			ids = append(ids, v.ID)
		}
	}
	u.page(w, r, "volumes", ids)
}

// page is a page of a short list. The lock is held.
func (u *Users) page(w http.ResponseWriter, r *http.Request, key string, ids []string) {
	limit, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil || limit < 1 || limit > u.largest {
		limit = u.largest
	}
	if marker := r.FormValue("marker"); marker != "" {
		at := slices.Index(ids, marker)
		if at < 0 {
			respond(w, http.StatusBadRequest, nil)
			return
		}
		ids = ids[at+1:]
	}
	body, list := map[string]any{}, []any{}
	for _, id := range ids[:min(limit, len(ids))] {
		link := "https://cloud.example.com/" + key + "/" + id
		list = append(list, map[string]any{"id": id, "name": strings.Repeat("\u00fc", 255), "links": []any{map[string]any{"rel": "self", "href": link}, map[string]any{"rel": "bookmark", "href": link}}})
	}
	body[key] = list
	if len(ids) > limit {
		body[key+"_links"] = []any{map[string]any{"rel": "next", "href": fmt.Sprintf("http://127.0.0.1:1/%s?marker=%s", key, ids[limit-1])}}
	}
	respond(w, http.StatusOK, body)
}
