package answers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
)

// Bounds of the evaluators that are kept.
const (
	// maxKept is their number: those of the files and of the version that runs, for a question and the one before.
	maxKept = 4 * MaxPlatforms
	// maxAge bounds how long one is used: the time decides which exceptions are active.
	maxAge = 5 * time.Minute
)

// evaluators keeps evaluators by the files that they were made of.
type evaluators struct {
	now func() time.Time

	mutex sync.Mutex
	kept  map[string]*kept
}

// kept is an evaluator, the time when it was made, and when it was used last.
type kept struct {
	evaluator  *offline.Evaluator
	made, used time.Time
}

// get returns the evaluator of a key, or makes one. It keeps only one that could read all documents.
func (e *evaluators) get(key string, makeOne func() (*offline.Evaluator, error)) (*offline.Evaluator, error) {
	e.mutex.Lock()
	found := e.kept[key]
	if found != nil && e.now().Sub(found.made) < maxAge {
		found.used = e.now()
		e.mutex.Unlock()
		return found.evaluator, nil
	}
	e.mutex.Unlock()
	made, err := makeOne()
	if err != nil || len(made.Unreadable) > 0 { // it removed these documents from the files of the question
		return made, err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if len(e.kept) >= maxKept {
		oldest := ""
		for other, k := range e.kept {
			if oldest == "" || k.used.Before(e.kept[oldest].used) {
				oldest = other
			}
		}
		delete(e.kept, oldest)
	}
	e.kept[key] = &kept{evaluator: made, made: e.now(), used: e.now()}
	return made, nil
}

// key identifies the evaluator of files for a platform. It has the whole texts of files with other objects than virtual
// machines, because the problems of an evaluator have positions.
func key(files []File, kubeVirtVersion string, content *manifests.Content, p Platform) string {
	others, subjects := map[string]bool{}, map[string]bool{}
	for _, d := range content.Documents {
		if kind := d.Object.GroupVersionKind(); offline.IsSubject(kind) {
			subjects[kind.String()] = true // an evaluator knows which versions are served
		} else {
			others[d.File] = true
		}
	}
	parts := []any{p, kubeVirtVersion, slices.Sorted(maps.Keys(subjects))}
	for _, f := range files {
		if others[f.Name] {
			parts = append(parts, f)
		}
	}
	data, err := json.Marshal(parts)
	if err != nil {
		panic(err) // texts and names are always encoded
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
