package hook

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/nodes/process"
	"github.com/virtward/virtward/nodetuning"
	"github.com/virtward/virtward/platform"
)

const method = "/kubevirt.hooks.plugins.v1alpha1.NodeHookService/ExecuteNodeHook"

// messages are those of hook.proto, as a client has them.
func messages(t testing.TB) protoreflect.FileDescriptor {
	t.Helper()
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, message string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: proto.String(name), Number: proto.Int32(number), Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if message != "" {
			f.TypeName = proto.String(message)
		}
		return f
	}
	const text, bytes, message = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BYTES, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("hook.proto"), Package: proto.String("kubevirt.hooks.plugins.v1alpha1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("NodeContext"), Field: []*descriptorpb.FieldDescriptorProto{field("node_name", 1, text, "")}},
			{Name: proto.String("ExecuteNodeHookRequest"), Field: []*descriptorpb.FieldDescriptorProto{
				field("hookPoint", 1, text, ""), field("vmi", 2, bytes, ""), field("node_context", 3, message, ".kubevirt.hooks.plugins.v1alpha1.NodeContext"),
			}},
			{Name: proto.String("ExecuteNodeHookResponse")},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func request(t testing.TB, file protoreflect.FileDescriptor, point, vmi, node string) *dynamicpb.Message {
	t.Helper()
	m := dynamicpb.NewMessage(file.Messages().ByName("ExecuteNodeHookRequest"))
	set := func(m *dynamicpb.Message, name string, value protoreflect.Value) {
		m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(name)), value)
	}
	set(m, "hookPoint", protoreflect.ValueOfString(point))
	set(m, "vmi", protoreflect.ValueOfBytes([]byte(vmi)))
	context := dynamicpb.NewMessage(file.Messages().ByName("NodeContext"))
	set(context, "node_name", protoreflect.ValueOfString(node))
	set(m, "node_context", protoreflect.ValueOfMessage(context))
	return m
}

// serve starts a server, and returns a client that calls it as virt-handler does.
func serve(t *testing.T, user uint32, handler Handler) (call func(point, vmi, node string) error, socket string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "hook") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &Server{Socket: filepath.Join(folder, "a", "hook.sock"), Handler: handler, Log: logr.Discard(), User: user}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); s.Ready() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no socket")
		}
	}
	client, err := grpc.NewClient("unix://"+s.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	file := messages(t)
	return func(point, vmi, node string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return client.Invoke(ctx, method, request(t, file, point, vmi, node), dynamicpb.NewMessage(file.Messages().ByName("ExecuteNodeHookResponse")))
	}, s.Socket
}

// TestProtocol calls the server with the messages of hook.proto and gRPC's own codec.
func TestProtocol(t *testing.T) {
	var got []Request
	call, socket := serve(t, uint32(os.Getuid()), func(_ context.Context, r *Request) error { //nolint:gosec // users have 32 bits
		got = append(got, *r)
		if r.Point == "fails" {
			return errors.New("no process")
		}
		return nil
	})
	if err := call("PreVMStart", `{"a":1}`, "node1"); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Point != "PreVMStart" || string(got[0].VMI) != `{"a":1}` || got[0].Node != "node1" {
		t.Errorf("requests %+v", got)
	}
	if err := call("fails", "", ""); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "no process") {
		t.Errorf("error %v", err)
	}
	if err := call("PreVMStart", strings.Repeat("a", MaxMessage), ""); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("error %v", err)
	}
	for path, want := range map[string]os.FileMode{socket: 0o600, filepath.Dir(socket): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, error %v", path, info.Mode(), err)
		}
	}
}

// TestOtherUsers holds that only the user of the server may call it: the kernel says who the other end is.
func TestOtherUsers(t *testing.T) {
	call, _ := serve(t, uint32(os.Getuid())+1, func(context.Context, *Request) error { //nolint:gosec // users have 32 bits
		t.Error("the hook was executed")
		return nil
	})
	if err := call("PreVMStart", "{}", "node1"); status.Code(err) != codes.Unavailable {
		t.Errorf("error %v", err)
	}
}

// TestSocket holds that the socket of a process that has ended is replaced, and nothing else is.
func TestSocket(t *testing.T) {
	folder, err := os.MkdirTemp("", "hook") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	old := filepath.Join(folder, "old.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: old, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	again, err := (&Server{Socket: old}).listen()
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(folder, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if _, err := (&Server{Socket: path}).listen(); err == nil || !strings.Contains(err.Error(), "exists, and is no socket") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

// limiting is a tuner with a limit that every user may set.
type limiting struct{ limit int64 }

func (l limiting) AdjustResources(*v1.VirtualMachineInstance, *platform.Facts) (int64, error) {
	return l.limit, nil
}

func (limiting) HandleHousekeeping(*v1.VirtualMachineInstance, *nodetuning.Pod) nodetuning.Housekeeping {
	return nodetuning.Housekeeping{}
}

// TestTune sets the limit of a real process: the guest's, or that of the process which starts it, as on the target of a migration.
func TestTune(t *testing.T) {
	const (
		pod    = "0a1b2c3d-0000-4000-8000-00000000000f"
		ended  = "1a1b2c3d-0000-4000-8000-00000000000f"
		remote = "2a1b2c3d-0000-4000-8000-00000000000f"
	)
	vmi := func(pods map[types.UID]string) string {
		v := &v1.VirtualMachineInstance{}
		v.Name, v.Namespace, v.Status.ActivePods = "a", "b", pods
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	running := vmi(map[types.UID]string{pod: "node1", ended: "node1", remote: "node2"})
	for _, tc := range []struct {
		name, program    string
		limit            int64
		point, vmi, node string
		wantLimit        bool
		wantErr          string
	}{
		{"a guest", "qemu-system-x86", 48 << 10, "PostVMStart", running, "node1", true, ""},
		{"before it starts", "virtqemud", 48 << 10, "PreVMStart", running, "node1", true, ""},
		{"the target of a migration", "virtqemud", 48 << 10, "PreMigrationTarget", running, "node1", true, ""},
		{"nothing to set", "qemu-system-x86", 0, "PostVMStart", running, "node1", false, ""},
		{"another hook", "qemu-system-x86", 48 << 10, "PreVMStop", running, "node1", false, ""},
		{"another node", "qemu-system-x86", 48 << 10, "PostVMStart", running, "node2", false, `the hook is for the node "node2", and this is "node1"`},
		{"no pod on the node", "qemu-system-x86", 48 << 10, "PostVMStart", vmi(map[types.UID]string{remote: "node2"}), "node1", false, "has no pod on the node node1"},
		{"no process", "virt-launcher", 48 << 10, "PostVMStart", running, "node1", false, "no process of the pod runs the guest"},
		{"no instance", "qemu-system-x86", 48 << 10, "PostVMStart", "[]", "node1", false, "is not JSON of a VirtualMachineInstance"},
		{"a path as a pod", "qemu-system-x86", 48 << 10, "PostVMStart", vmi(map[types.UID]string{"../../../../../../../../../../../../etc": "node1"}), "node1", false, "is no UID of a pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), "sleep", "600")
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = command.Process.Kill(), command.Wait() }()
			id := strconv.Itoa(command.Process.Pid)
			stat, err := os.ReadFile("/proc/" + id + "/stat")
			if err != nil {
				t.Fatal(err)
			}
			kernel := &process.Node{Proc: t.TempDir()} // a simulator: the process is not in the cgroup of a pod
			folder := filepath.Join(kernel.Proc, id)
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"stat": strings.Replace(string(stat), "(sleep)", "("+tc.program+")", 1), "cgroup": "0::/kubepods/pod" + pod + "/c\n"} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tuner, err := NewTuner("node1", limiting{tc.limit}, platform.Defaults(platform.Settings{}), kernel, logr.Discard(), prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // virt-handler calls a hook again
				err := tuner.Execute(t.Context(), &Request{Point: tc.point, VMI: []byte(tc.vmi), Node: tc.node})
				if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want %q", err, tc.wantErr)
				}
			}
			var limit unix.Rlimit
			if err := unix.Prlimit(command.Process.Pid, unix.RLIMIT_MEMLOCK, nil, &limit); err != nil || (limit.Max == 48<<10) != tc.wantLimit {
				t.Errorf("limit %+v, error %v", limit, err)
			}
		})
	}
}

// FuzzRequest holds that no message panics, and that gRPC's own codec reads the same.
func FuzzRequest(f *testing.F) {
	file := messages(f)
	seed, err := proto.Marshal(request(f, file, "PreVMStart", "{}", "node1"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, message []byte) {
		var r Request
		if r.decode(message) != nil {
			return
		}
		m := dynamicpb.NewMessage(file.Messages().ByName("ExecuteNodeHookRequest"))
		if proto.Unmarshal(message, m) != nil {
			return // such as invalid UTF-8
		}
		if got := m.Get(m.Descriptor().Fields().ByName("hookPoint")).String(); got != r.Point {
			t.Errorf("hook point %q, and gRPC reads %q", r.Point, got)
		}
	})
}
