package apiserver

import (
	"context"

	"k8s.io/apiserver/pkg/warning"

	"github.com/virtward/virtward/texts"
)

// passWarnings sends the warnings of the API server to the user of the request in whose context they arrive.
type passWarnings struct{}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (passWarnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if code == 299 && text != "" {
		warning.AddWarning(ctx, "", texts.Shorten(text, maxWarning))
	}
}
