package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Bounds of a page.
const (
	// MaxBytes bounds the JSON of a page, and of one object.
	MaxBytes = 8 << 20
	// MaxObjects bounds the objects of a page.
	MaxObjects = 500
	// firstObjects is the number of objects of the first request, before their sizes are known.
	firstObjects = 100
	// firstBuffer is the first size of the buffer of a Reader in bytes, and maxBuffer the last one: one more than a page.
	firstBuffer, maxBuffer = 64 << 10, MaxBytes + 1
	// maxSkimmed bounds what is read of an object that is too large, to find its name.
	maxSkimmed = 32 << 20
)

// JSON and Metadata are the forms of objects: whole, or only their metadata.
const (
	JSON     = "application/json"
	Metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// List is a request for all objects of a resource.
type List struct {
	Resource schema.GroupVersionResource
	// Form is JSON or Metadata.
	Form string
	// LabelSelector restricts the list; empty for none.
	LabelSelector string
	// Namespace restricts the list; empty for all.
	Namespace string
}

// Object is an object of a page.
type Object struct {
	// JSON of the object; nil if it has more than MaxBytes. Then only Name, Namespace and UID are known.
	JSON            json.RawMessage
	Namespace, Name string
	UID             string
}

// Page is a part of a list.
type Page struct {
	Objects []Object
	// Next is the token of the next page; empty on the last one.
	Next string
	// Version is the resource version of the list.
	Version string
	// Limit is the number of objects of this size that fit into the next page.
	Limit int
}

// Reader reads pages, one at a time for all of its callers. Create it with NewReader.
type Reader struct {
	client rest.Interface

	mu sync.Mutex
	// buffer has the page that is read. It is reused, and has at most maxBuffer.
	buffer []byte
}

// NewReader creates a client of the cluster's API server.
func NewReader(config *rest.Config) (*Reader, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // for errors; callers decode objects
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Reader{client: client}, nil
}

// Page reads a part of a list, from its beginning or from Next of the page before. limit is Limit of the page before,
// or 0. If the token has expired, the list continues with the current objects. A resource that does not exist is
// NotFound.
func (r *Reader) Page(ctx context.Context, list List, from string, limit int) (*Page, error) {
	page, err := r.fitting(ctx, list, from, limit)
	if status := apierrors.APIStatus(nil); apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
		page, err = r.fitting(ctx, list, status.Status().Continue, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", list.Resource.Resource, err)
	}
	return page, nil
}

// Each reads a list page by page, and calls found with every object. It returns the resource version of the first page,
// from which a watch misses nothing.
func (r *Reader) Each(ctx context.Context, list List, found func(Object) error) (version string, err error) {
	limit := 0
	for from, more := "", true; more; {
		page, err := r.Page(ctx, list, from, limit)
		if err != nil {
			return "", err
		}
		if version == "" {
			version = page.Version
		}
		for i := range page.Objects {
			if err := found(page.Objects[i]); err != nil {
				return "", err
			}
		}
		if page.Next != "" && page.Next == from {
			return "", fmt.Errorf("listing %s: a page follows itself", list.Resource.Resource)
		}
		from, more, limit = page.Next, page.Next != "", page.Limit
	}
	return version, nil
}

// errLarge is returned if a page has more than MaxBytes.
var errLarge = fmt.Errorf("a page has more than %d bytes", MaxBytes)

// fitting requests fewer objects until they fit. Of a single one that does not fit, only the name is read.
func (r *Reader) fitting(ctx context.Context, list List, from string, limit int) (*Page, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit <= 0 {
		limit = firstObjects
	}
	for limit = min(limit, MaxObjects); ; limit = max(1, limit/4) {
		page, err := r.read(ctx, list, from, limit)
		switch {
		case err == nil:
			return page, nil
		case !errors.Is(err, errLarge):
			return nil, err
		case limit == 1:
			return r.skim(ctx, list, from)
		}
	}
}

// open requests some objects.
func (r *Reader) open(ctx context.Context, list List, from string, limit int) (io.ReadCloser, error) {
	request := r.client.Get().Param("limit", strconv.Itoa(limit)).SetHeader("Accept", list.Form)
	if from != "" {
		request.Param("continue", from)
	}
	if list.LabelSelector != "" {
		request.Param("labelSelector", list.LabelSelector)
	}
	path := []string{"/apis", list.Resource.Group, list.Resource.Version}
	if list.Resource.Group == "" {
		path = []string{"/api", list.Resource.Version}
	}
	if list.Namespace != "" {
		path = append(path, "namespaces", list.Namespace)
	}
	return request.AbsPath(append(path, list.Resource.Resource)...).Stream(ctx)
}

func (r *Reader) read(ctx context.Context, list List, from string, limit int) (*Page, error) {
	body, err := r.open(ctx, list, from, limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it was only read
	if err := r.fill(body); err != nil {
		return nil, err
	}
	var decoded struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(r.buffer, &decoded); err != nil {
		return nil, err
	}
	page := &Page{Objects: make([]Object, len(decoded.Items)), Next: decoded.Metadata.Continue, Version: decoded.Metadata.ResourceVersion}
	for i := range decoded.Items {
		page.Objects[i].JSON = decoded.Items[i]
	}
	page.Limit = nextLimit(limit, len(page.Objects), len(r.buffer))
	return page, nil
}

// nextLimit returns how many objects of the same size fill half of a page, and at most twice as many as before: the
// next ones can be larger.
func nextLimit(limit, objects, size int) int {
	if objects == 0 || size == 0 {
		return limit
	}
	return max(1, min(MaxObjects, 2*limit, objects*(MaxBytes/2)/size))
}

// fill reads a body into the buffer, which grows with the data.
func (r *Reader) fill(body io.Reader) error {
	r.buffer = r.buffer[:0]
	for len(r.buffer) < maxBuffer {
		if len(r.buffer) == cap(r.buffer) {
			grown := make([]byte, len(r.buffer), min(maxBuffer, max(firstBuffer, 2*cap(r.buffer))))
			copy(grown, r.buffer)
			r.buffer = grown
		}
		n, err := body.Read(r.buffer[len(r.buffer):cap(r.buffer)])
		r.buffer = r.buffer[:len(r.buffer)+n]
		switch {
		case errors.Is(err, io.EOF) && len(r.buffer) < maxBuffer:
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
	}
	return errLarge
}

// skim reads a page of one object that is too large, and keeps its name.
func (r *Reader) skim(ctx context.Context, list List, from string) (*Page, error) {
	body, err := r.open(ctx, list, from, 1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it was only read
	s := skimmer{tokens: json.NewDecoder(io.LimitReader(body, maxSkimmed))}
	if err := s.value(""); err != nil {
		return nil, fmt.Errorf("an object has more than %d MiB, and what there is of it cannot be read: %w", MaxBytes>>20, err)
	}
	return &Page{
		Objects: []Object{{
			Namespace: s.found[".items.metadata.namespace"], Name: s.found[".items.metadata.name"], UID: s.found[".items.metadata.uid"],
		}},
		Next: s.found[".metadata.continue"], Version: s.found[".metadata.resourceVersion"], Limit: 1,
	}, nil
}

// skimmer reads JSON value by value, and keeps a few short texts by their paths.
type skimmer struct {
	tokens *json.Decoder
	found  map[string]string
	depth  int
}

// Depths of a list: from named on, paths are not distinguished; from deepest on, nothing is read.
const (
	named   = 4
	deepest = 1000
)

var errDeep = fmt.Errorf("it is more than %d levels deep", deepest)

func (s *skimmer) value(path string) error {
	token, err := s.tokens.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case string:
		if s.keeps(path) {
			s.found[path] = strings.Clone(t)
		}
	case json.Delim:
		return s.inside(t, path)
	}
	return nil
}

// keeps reports whether a path is needed.
func (s *skimmer) keeps(path string) bool {
	if s.found == nil {
		s.found = map[string]string{}
	}
	switch path {
	case ".metadata.continue", ".metadata.resourceVersion", ".items.metadata.namespace", ".items.metadata.name", ".items.metadata.uid":
		return true
	}
	return false
}

// inside reads the content of an object or a list, and its end.
func (s *skimmer) inside(opened json.Delim, path string) error {
	if s.depth++; s.depth > deepest {
		return errDeep
	}
	defer func() { s.depth-- }()
	for s.tokens.More() {
		below := path // elements of a list have its path
		if opened == '{' {
			name, err := s.tokens.Token()
			if err != nil {
				return err
			}
			if below = ""; s.depth <= named {
				below = path + "." + fmt.Sprint(name)
			}
		}
		if err := s.value(below); err != nil {
			return err
		}
	}
	_, err := s.tokens.Token()
	return err
}

// Get reads one object; nil if it does not exist.
func (r *Reader) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := r.client.Get().AbsPath("/apis", resource.Group, resource.Version, "namespaces", namespace, resource.Resource, name).
		SetHeader("Accept", JSON).Stream(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it was only read
	switch err := r.fill(body); {
	case errors.Is(err, errLarge):
		return &Object{Namespace: namespace, Name: name}, nil
	case err != nil:
		return nil, err
	}
	return &Object{JSON: bytes.Clone(r.buffer)}, nil
}
