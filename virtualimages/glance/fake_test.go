package glance_test

import (
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

// fake is a Glance in memory. The tests of the contract hold it to the real one.
type fake struct {
	*httptest.Server

	mu      sync.Mutex
	images  map[string]map[string]any
	staged  map[string][]byte
	tasks   map[string][]map[string]any
	deleted map[string]bool
	methods []string
	// calls are the methods and paths of the requests. fault answers a call instead of Glance, if it returns true.
	calls []string
	fault func(w http.ResponseWriter, r *http.Request, number int) bool
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{images: map[string]map[string]any{}, staged: map[string][]byte{}, tasks: map[string][]map[string]any{}, deleted: map[string]bool{}, methods: []string{"glance-direct", "web-download"}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/info/import", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]any{"import-methods": map[string]any{"type": "array", "value": f.methods}})
	})
	mux.HandleFunc("GET /v2/images", f.list)
	mux.HandleFunc("POST /v2/images", f.create)
	mux.HandleFunc("GET /v2/images/{id}", f.locked(func(w http.ResponseWriter, _ *http.Request, image map[string]any) { respond(w, http.StatusOK, image) }))
	mux.HandleFunc("PATCH /v2/images/{id}", f.locked(f.patch))
	mux.HandleFunc("DELETE /v2/images/{id}", f.locked(f.remove))
	mux.HandleFunc("PUT /v2/images/{id}/stage", f.stage)
	mux.HandleFunc("POST /v2/images/{id}/import", f.locked(f.importImage))
	mux.HandleFunc("GET /v2/images/{id}/tasks", f.locked(func(w http.ResponseWriter, _ *http.Request, image map[string]any) {
		respond(w, http.StatusOK, map[string]any{"tasks": append([]map[string]any{}, f.tasks[image["id"].(string)]...)})
	}))
	mux.HandleFunc("POST /v2/images/{id}/actions/deactivate", f.locked(func(w http.ResponseWriter, _ *http.Request, image map[string]any) {
		image["status"] = "deactivated"
		w.WriteHeader(http.StatusNoContent)
	}))
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.calls = append(f.calls, r.Method+" "+r.URL.Path)
		number, fault := len(f.calls), f.fault
		f.mu.Unlock()
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
func (f *fake) locked(do func(http.ResponseWriter, *http.Request, map[string]any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		image := f.images[r.PathValue("id")]
		if image == nil {
			http.Error(w, "<html><h1>404 Not Found</h1>No image found<br /></body></html>", http.StatusNotFound)
			return
		}
		do(w, r, image)
	}
}

func (f *fake) list(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []any{}
	for _, image := range f.images {
		list = append(list, image)
	}
	respond(w, http.StatusOK, map[string]any{"images": list})
}

func (f *fake) create(w http.ResponseWriter, r *http.Request) {
	image := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&image); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id, _ := image["id"].(string)
	if f.images[id] != nil || f.deleted[id] {
		http.Error(w, "<html><h1>409 Conflict</h1>Image ID "+id+" already exists!<br /></body></html>", http.StatusConflict)
		return
	}
	image["status"], image["size"], image["checksum"] = "queued", nil, nil
	f.images[id] = image
	respond(w, http.StatusCreated, image)
}

func (f *fake) patch(w http.ResponseWriter, r *http.Request, image map[string]any) {
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

func (f *fake) remove(w http.ResponseWriter, r *http.Request, image map[string]any) {
	if image["protected"] == true {
		http.Error(w, "<html><h1>403 Forbidden</h1>Image is protected and cannot be deleted.<br /></body></html>", http.StatusForbidden)
		return
	}
	id := r.PathValue("id")
	delete(f.images, id)
	f.deleted[id] = true
	w.WriteHeader(http.StatusNoContent)
}

// stage stores a body that is complete. Of any other one, Glance removes what it has.
func (f *fake) stage(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	set := func(from []string, to string) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, status := range from {
			if f.images[id]["status"] == status {
				f.images[id]["status"] = to
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
	f.mu.Lock()
	f.staged[id] = data
	f.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (f *fake) importImage(w http.ResponseWriter, r *http.Request, image map[string]any) {
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
		f.mu.Lock()
		defer f.mu.Unlock()
		task := map[string]any{"status": "success", "message": "", "created_at": time.Now().UTC().Format(time.RFC3339)}
		if failure != "" {
			task["status"], task["message"], image["status"] = "failure", failure, "queued"
		} else {
			sum, short := sha512.Sum512(data), md5.Sum(data) //nolint:gosec // as above
			image["status"], image["size"], image["checksum"] = "active", len(data), hex.EncodeToString(short[:])
			image["os_hash_algo"], image["os_hash_value"] = "sha512", hex.EncodeToString(sum[:])
		}
		f.tasks[id] = append(f.tasks[id], task)
	}()
}

// fetch is the content of an image: what was staged, or what the URL has.
func (f *fake) fetch(id string, url *string) (data []byte, failure string) {
	if url == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
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
