package apiserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// authoritiesTimeout bounds the time until the server knows who may speak for users.
const authoritiesTimeout = time.Minute

// running are authorities of callers whose controllers run already. It hides them from Kubernetes' library, which would start
// them when the server listens.
type running struct {
	dynamiccertificates.CAContentProvider
}

// knowCallers reads the certificate authorities of callers, and follows their changes. It must end before the server accepts
// connections: the library reads them meanwhile, and until then the requests of the aggregator, and all later ones of the same
// connection, count as those of system:anonymous, who is denied what the user may do.
func knowCallers(ctx context.Context, serving *genericapiserver.SecureServingInfo, aggregator *authenticatorfactory.RequestHeaderConfig, within time.Duration) error {
	if runner, ok := serving.ClientCA.(dynamiccertificates.ControllerRunner); ok {
		_ = runner.RunOnce(ctx) // an error is tried again by Run
		go runner.Run(ctx, 1)
		serving.ClientCA = running{serving.ClientCA}
	}
	if aggregator == nil {
		return nil
	}
	known := func(context.Context) (bool, error) {
		return len(aggregator.CAContentProvider.CurrentCABundleContent()) > 0 && len(aggregator.UsernameHeaders.Value()) > 0, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, within, true, known); err != nil {
		return fmt.Errorf("the ConfigMap extension-apiserver-authentication in kube-system does not say who may speak for users (requestheader-client-ca-file, requestheader-username-headers): %w", err)
	}
	return nil
}
