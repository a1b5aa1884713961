package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/controllers/ledger"
)

// What of the API server's answers is in memory at once: so many objects, or fewer where those have more bytes than this
// together. Whoever may make virtual machines makes large ones, too.
const (
	PageSize     = 500
	maxPageBytes = 16 << 20
)

// Stored is where the objects are.
type Stored interface {
	// Page lists objects of a kind in all namespaces, from the beginning or from where the page before said. next is
	// empty on the last page. A kind that does not exist has no objects.
	Page(ctx context.Context, kind Kind, from string) (objects []json.RawMessage, next string, err error)
	// Get reads one object; nil if it does not exist.
	Get(ctx context.Context, kind Kind, key ledger.Key) (json.RawMessage, error)
}

// API reads from the API server. Each object is decoded on its own, so that one that cannot be does not take a page.
type API struct {
	Client rest.Interface
}

// NewAPI makes a client of the cluster's API server.
func NewAPI(config *rest.Config) (*API, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // for errors; objects are decoded here
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &API{Client: client}, nil
}

// Page implements Stored. A list that takes so long that the API server has forgotten how it began goes on with what
// there is now.
func (a *API) Page(ctx context.Context, kind Kind, from string) ([]json.RawMessage, string, error) {
	list, err := a.page(ctx, kind, from)
	if status := apierrors.APIStatus(nil); apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
		list, err = a.page(ctx, kind, status.Status().Continue)
	}
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("listing %s: %w", kind.Resource, err)
	}
	var decoded struct {
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(list, &decoded); err != nil {
		return nil, "", fmt.Errorf("listing %s: %w", kind.Resource, err)
	}
	return decoded.Items, decoded.Metadata.Continue, nil
}

// errLarge says that a page has too many bytes.
var errLarge = fmt.Errorf("a page has more than %d bytes", maxPageBytes)

// page asks for fewer objects until they fit: a single one does.
func (a *API) page(ctx context.Context, kind Kind, from string) ([]byte, error) {
	for limit := PageSize; ; limit = max(1, limit/8) {
		list, err := a.few(ctx, kind, from, limit)
		if limit == 1 || !errors.Is(err, errLarge) {
			return list, err
		}
	}
}

func (a *API) few(ctx context.Context, kind Kind, from string, limit int) ([]byte, error) {
	body, err := a.Client.Get().AbsPath("/apis", kind.GroupVersionKind.Group, kind.GroupVersionKind.Version, kind.Resource).
		Param("limit", strconv.Itoa(limit)).Param("continue", from).
		SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it was only read
	list, err := io.ReadAll(io.LimitReader(body, maxPageBytes+1))
	if err == nil && len(list) > maxPageBytes {
		return nil, errLarge
	}
	return list, err
}

// answer is what the API server says; of an error, all that it says.
func answer(r rest.Result) ([]byte, error) {
	if err := r.Error(); err != nil {
		return nil, err
	}
	return r.Raw()
}

// Get implements Stored.
func (a *API) Get(ctx context.Context, kind Kind, key ledger.Key) (json.RawMessage, error) {
	object, err := answer(a.Client.Get().
		AbsPath("/apis", kind.GroupVersionKind.Group, kind.GroupVersionKind.Version, "namespaces", key.Namespace, kind.Resource, key.Name).
		SetHeader("Accept", "application/json").Do(ctx))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", key.Kind, key.Namespace, key.Name, err)
	}
	return object, nil
}
