package forwards

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// maxPods bounds the pods of a Service that are read.
const maxPods = 10

// Service dials a port of a Service. Create it with New, and close it in the end.
type Service struct {
	config          *rest.Config
	client          *corev1client.CoreV1Client
	namespace, name string
	port            int32

	mu      sync.Mutex
	current *forward
}

// forward is a connection to the API server that is in use.
type forward struct {
	local  string
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// New returns a Service that can be dialed.
func New(config *rest.Config, namespace, name string, port int32) (*Service, error) {
	config = rest.CopyConfig(config)
	config.WrapTransport = nil // what bounds answers would close streams
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return &Service{config: config, client: client, namespace: namespace, name: name, port: port}, nil
}

// DialContext connects to the Service. It ignores the address.
func (s *Service) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	f, err := s.forward(ctx)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", f.local)
}

// Close ends the connections.
func (s *Service) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// end ends the current connection.
func (s *Service) end() {
	if s.current != nil {
		s.current.cancel()
		<-s.current.ended
		s.current = nil
	}
}

// forward returns the connection to the API server. It begins one if there is none, or if it has ended.
func (s *Service) forward(ctx context.Context) (*forward, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		select {
		case <-s.current.ended:
			s.end()
		default:
			return s.current, nil
		}
	}
	pod, port, err := s.pod(ctx)
	if err != nil {
		return nil, err
	}
	dialer, err := s.dialer(pod)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	running, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(running, dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(port)}, ready, io.Discard, io.Discard)
	if err != nil {
		cancel()
		return nil, err
	}
	f := &forward{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		f.err = forwarder.ForwardPorts()
	}()
	select {
	case <-ready:
	case <-f.ended:
		cancel()
		return nil, fmt.Errorf("connecting to the pod %s: %w", pod, errors.Join(f.err, ctx.Err()))
	case <-ctx.Done():
		cancel()
		return nil, context.Cause(ctx)
	}
	ports, err := forwarder.GetPorts()
	if err != nil || len(ports) != 1 {
		cancel()
		return nil, fmt.Errorf("connecting to the pod %s: %w", pod, err)
	}
	f.local = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local)))
	s.current = f
	return f, nil
}

// dialer connects to a pod: with WebSocket, or with SPDY if the API server, or a proxy before it, does not have it.
func (s *Service) dialer(pod string) (httpstream.Dialer, error) {
	url := s.client.RESTClient().Post().Resource("pods").Namespace(s.namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(s.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	first, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, s.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(first, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// pod finds a pod of the Service that runs, and the number of its port.
func (s *Service) pod(ctx context.Context) (name string, port int, err error) {
	service, err := s.client.Services(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return "", 0, err
	}
	if len(service.Spec.Selector) == 0 {
		return "", 0, fmt.Errorf("the Service %s/%s selects no pods", s.namespace, s.name)
	}
	pods, err := s.client.Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String(), Limit: maxPods})
	if err != nil {
		return "", 0, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		if port := portOf(service, pod, s.port); port > 0 {
			return pod.Name, port, nil
		}
	}
	return "", 0, fmt.Errorf("no pod of the Service %s/%s runs and has its port %d", s.namespace, s.name, s.port)
}

// portOf is the port of a pod for that of its Service; 0 if there is none.
func portOf(service *corev1.Service, pod *corev1.Pod, number int32) int {
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		switch {
		case p.Port != number:
		case p.TargetPort.Type == intstr.Int && p.TargetPort.IntValue() == 0:
			return int(p.Port)
		case p.TargetPort.Type == intstr.Int:
			return p.TargetPort.IntValue()
		default:
			for j := range pod.Spec.Containers {
				for _, named := range pod.Spec.Containers[j].Ports {
					if named.Name == p.TargetPort.StrVal {
						return int(named.ContainerPort)
					}
				}
			}
		}
	}
	return 0
}
