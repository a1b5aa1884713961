package hook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bounds of the server.
const (
	// MaxMessage bounds a request, in bytes. The API server stores instances of at most 1.5 MiB.
	MaxMessage = 4 << 20
	// maxStreams bounds the requests of a connection, and maxConnections the connections. virt-handler has one for each call.
	maxStreams     = 1
	maxConnections = 4
	// maxConcurrent bounds the requests that are executed at the same time.
	maxConcurrent = 2
	// stopTimeout bounds the time of requests in progress when the process ends.
	stopTimeout = 5 * time.Second
)

// Handler executes a hook. It must do the same again when it is called again.
type Handler func(ctx context.Context, request *Request) error

// Server serves a socket.
type Server struct {
	// Socket is the path of the socket.
	Socket  string
	Handler Handler
	Log     logr.Logger
	// User is who may connect; 0 for root.
	User uint32

	once    sync.Once
	working chan struct{}
}

// places has an entry for each request in progress.
func (s *Server) places() chan struct{} {
	s.once.Do(func() { s.working = make(chan struct{}, maxConcurrent) })
	return s.working
}

// Run serves until the context ends, and removes the socket.
func (s *Server) Run(ctx context.Context) error {
	listener, err := s.listen()
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxConcurrentStreams(maxStreams))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "kubevirt.hooks.plugins.v1alpha1.NodeHookService",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "ExecuteNodeHook", Handler: s.execute}},
	}, s)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		timer := time.AfterFunc(stopTimeout, server.Stop)
		defer timer.Stop()
		server.GracefulStop()
	}()
	err = server.Serve(listener)
	if ctx.Err() != nil {
		<-stopped
		err = nil // the server was stopped
	}
	if err != nil {
		return fmt.Errorf("serving node hooks: %w", err)
	}
	return nil
}

// execute is the handler of the method.
func (s *Server) execute(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the order of grpc.MethodDesc
	select {
	case s.places() <- struct{}{}:
		defer func() { <-s.places() }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	request := &Request{}
	if err := decode(request); err != nil {
		return nil, err
	}
	if err := s.Handler(ctx, request); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &response{}, nil
}

// listen makes the socket, which only its owner may use, in a folder that only its owner may read. A socket of a process that has ended
// is replaced; any other file is an error.
func (s *Server) listen() (net.Listener, error) {
	folder := filepath.Dir(s.Socket)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the socket: %w", err)
	}
	info, err := os.Lstat(s.Socket)
	switch {
	case err == nil && info.Mode().Type() != os.ModeSocket:
		return nil, fmt.Errorf("%s exists, and is no socket", s.Socket)
	case err == nil:
		if err := os.Remove(s.Socket); err != nil {
			return nil, fmt.Errorf("removing the socket of a process that has ended: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", s.Socket)
	if err != nil {
		return nil, fmt.Errorf("listening on the socket: %w", err)
	}
	if err := os.Chmod(s.Socket, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("limiting the socket to its owner: %w", err), listener.Close())
	}
	return &guarded{Listener: listener, user: s.User, log: s.Log, places: make(chan struct{}, maxConnections)}, nil
}

// guarded accepts connections of one user.
type guarded struct {
	net.Listener

	user   uint32
	log    logr.Logger
	places chan struct{}
}

// Accept implements net.Listener.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		g.places <- struct{}{}
		c, err := g.Listener.Accept()
		if err != nil {
			<-g.places
			return nil, err
		}
		user, err := peer(c)
		if err == nil && user == g.user {
			return &place{Conn: c, free: sync.OnceFunc(func() { <-g.places })}, nil
		}
		g.log.Info("rejected a connection", "user", user, "error", err)
		_ = c.Close()
		<-g.places
	}
}

// place is a connection that returns its place once.
type place struct {
	net.Conn

	free func()
}

// Close implements net.Conn. gRPC can close a connection several times.
func (p *place) Close() error {
	defer p.free()
	return p.Conn.Close()
}

// peer returns the user of the other end, as the kernel knows it.
func peer(c net.Conn) (uint32, error) {
	socket, is := c.(*net.UnixConn)
	if !is {
		return 0, fmt.Errorf("%T is no connection of a Unix socket", c)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var found *unix.Ucred
	var failed error
	if err := raw.Control(func(descriptor uintptr) {
		found, failed = unix.GetsockoptUcred(int(descriptor), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return found.Uid, nil
}

// Ready returns an error while the socket is missing.
func (s *Server) Ready() error {
	_, err := os.Stat(s.Socket)
	return err
}
