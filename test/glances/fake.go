package glances

import (
	"bytes"
	"crypto/md5" //nolint:gosec // Glance computes it
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fake is a Glance in memory. The tests of the contract hold it to the real one. Create it with NewFake.
type Fake struct {
	*httptest.Server

	// Mu guards the fields.
	Mu      sync.Mutex
	Images  map[string]map[string]any
	Methods []string
	// Calls are the methods and paths of the requests. Fault answers a call instead of Glance, if it returns true.
	Calls []string
	Fault func(w http.ResponseWriter, r *http.Request, number int) bool
	// Permits reports whether a token is valid; nil for a Glance without Keystone.
	Permits func(token string) bool

	staged, stored map[string][]byte
	tasks          map[string][]map[string]any
	deleted        map[string]bool
}

// NewFake starts a Fake that ends with the test.
func NewFake(t testing.TB) *Fake {
	t.Helper()
	f := &Fake{
		Images: map[string]map[string]any{}, staged: map[string][]byte{}, stored: map[string][]byte{}, tasks: map[string][]map[string]any{}, deleted: map[string]bool{},
		Methods: []string{"glance-direct", "web-download"},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/info/import", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]any{"import-methods": map[string]any{"type": "array", "value": f.Methods}})
	})
	mux.HandleFunc("GET /v2/images", f.list)
	mux.HandleFunc("POST /v2/images", f.create)
	mux.HandleFunc("GET /v2/images/{id}", f.locked(func(w http.ResponseWriter, _ *http.Request, image map[string]any) { respond(w, http.StatusOK, image) }))
	mux.HandleFunc("PATCH /v2/images/{id}", f.locked(f.patch))
	mux.HandleFunc("DELETE /v2/images/{id}", f.locked(f.remove))
	mux.HandleFunc("PUT /v2/images/{id}/stage", f.stage)
	mux.HandleFunc("GET /v2/images/{id}/file", f.download)
	mux.HandleFunc("POST /v2/images/{id}/import", f.locked(f.importImage))
	mux.HandleFunc("GET /v2/images/{id}/tasks", f.locked(func(w http.ResponseWriter, _ *http.Request, image map[string]any) {
		respond(w, http.StatusOK, map[string]any{"tasks": append([]map[string]any{}, f.tasks[image["id"].(string)]...)})
	}))
	mux.HandleFunc("POST /v2/images/{id}/actions/deactivate", f.locked(func(w http.ResponseWriter, _ *http.Request, image map[string]any) {
		image["status"] = "deactivated"
		w.WriteHeader(http.StatusNoContent)
	}))
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.Mu.Lock()
		f.Calls = append(f.Calls, r.Method+" "+r.URL.Path)
		number, fault, permits := len(f.Calls), f.Fault, f.Permits
		f.Mu.Unlock()
		if permits != nil && !permits(r.Header.Get("X-Auth-Token")) {
			http.Error(w, "<html><h1>401 Unauthorized</h1>This server could not verify that you are authorized.<br /></body></html>", http.StatusUnauthorized)
			return
		}
		if fault == nil || !fault(w, r, number) {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// locked finds the image of a request.
func (f *Fake) locked(do func(http.ResponseWriter, *http.Request, map[string]any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		image := f.Images[r.PathValue("id")]
		if image == nil {
			http.Error(w, "<html><h1>404 Not Found</h1>No image found<br /></body></html>", http.StatusNotFound)
			return
		}
		do(w, r, image)
	}
}

func (f *Fake) list(w http.ResponseWriter, _ *http.Request) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	list := []any{}
	for _, image := range f.Images {
		list = append(list, image)
	}
	respond(w, http.StatusOK, map[string]any{"images": list})
}

func (f *Fake) create(w http.ResponseWriter, r *http.Request) {
	image := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&image); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	id, _ := image["id"].(string)
	if f.Images[id] != nil || f.deleted[id] {
		http.Error(w, "<html><h1>409 Conflict</h1>Image ID "+id+" already exists!<br /></body></html>", http.StatusConflict)
		return
	}
	image["status"], image["size"], image["checksum"] = "queued", nil, nil
	f.Images[id] = image
	respond(w, http.StatusCreated, image)
}

func (f *Fake) patch(w http.ResponseWriter, r *http.Request, image map[string]any) {
	var operations []struct {
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	if err := json.NewDecoder(r.Body).Decode(&operations); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, o := range operations {
		image[strings.TrimPrefix(o.Path, "/")] = o.Value
	}
	respond(w, http.StatusOK, image)
}

func (f *Fake) remove(w http.ResponseWriter, r *http.Request, image map[string]any) {
	if image["protected"] == true {
		http.Error(w, "<html><h1>403 Forbidden</h1>Image is protected and cannot be deleted.<br /></body></html>", http.StatusForbidden)
		return
	}
	id := r.PathValue("id")
	delete(f.Images, id)
	f.deleted[id] = true
	w.WriteHeader(http.StatusNoContent)
}

// stage stores a body that is complete. Of any other one, Glance removes what it has.
func (f *Fake) stage(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	set := func(from []string, to string) bool {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		for _, status := range from {
			if f.Images[id]["status"] == status {
				f.Images[id]["status"] = to
				return true
			}
		}
		return false
	}
	if !set([]string{"queued"}, "uploading") {
		http.Error(w, "", http.StatusConflict)
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		set([]string{"uploading"}, "queued")
		return
	}
	f.Mu.Lock()
	f.staged[id] = data
	f.Mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (f *Fake) importImage(w http.ResponseWriter, r *http.Request, image map[string]any) {
	var request struct {
		Method struct {
			Name string  `json:"name"`
			URI  *string `json:"uri"`
		} `json:"method"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.PathValue("id")
	needs := map[string]string{"glance-direct": "uploading", "web-download": "queued"}[request.Method.Name]
	if image["status"] != needs {
		http.Error(w, "", http.StatusConflict)
		return
	}
	image["status"] = "importing"
	w.WriteHeader(http.StatusAccepted)
	go func() {
		data, failure := f.fetch(id, request.Method.URI)
		f.Mu.Lock()
		defer f.Mu.Unlock()
		task := map[string]any{"status": "success", "message": "", "created_at": time.Now().UTC().Format(time.RFC3339)}
		if failure != "" {
			task["status"], task["message"], image["status"] = "failure", failure, "queued"
		} else {
			sum, short := sha512.Sum512(data), md5.Sum(data) //nolint:gosec // as above
			f.stored[id] = data
			image["status"], image["size"], image["checksum"] = "active", len(data), hex.EncodeToString(short[:])
			image["os_hash_algo"], image["os_hash_value"] = "sha512", hex.EncodeToString(sum[:])
		}
		f.tasks[id] = append(f.tasks[id], task)
	}()
}

// download serves the data of an image, also in parts.
func (f *Fake) download(w http.ResponseWriter, r *http.Request) {
	f.Mu.Lock()
	image, data := f.Images[r.PathValue("id")], f.stored[r.PathValue("id")]
	status := http.StatusOK
	switch {
	case image == nil:
		status = http.StatusNotFound
	case image["status"] == "deactivated":
		status = http.StatusForbidden
	case image["status"] != "active":
		status = http.StatusNoContent
	}
	f.Mu.Unlock()
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// Count is the number of images.
func (f *Fake) Count() int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return len(f.Images)
}

// SetFault replaces Fault.
func (f *Fake) SetFault(fault func(w http.ResponseWriter, r *http.Request, number int) bool) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Fault = fault
}

// fetch is the content of an image: what was staged, or what the URL has.
func (f *Fake) fetch(id string, url *string) (data []byte, failure string) {
	if url == nil {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		return f.staged[id], ""
	}
	response, err := http.Get(*url)
	if err != nil {
		return nil, err.Error()
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, "HTTP Error " + response.Status
	}
	data, err = io.ReadAll(response.Body)
	if err != nil {
		return nil, err.Error()
	}
	return data, ""
}

// Put adds an image that is ready.
func (f *Fake) Put(id, owner string, data []byte) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Images[id] = map[string]any{"id": id, "status": "active", "size": len(data), "virtward_owner": owner, "disk_format": "qcow2"}
	f.stored[id] = data
}

// Remove deletes an image, as an admin of the cloud.
func (f *Fake) Remove(id string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	delete(f.Images, id)
	f.deleted[id] = true
}
