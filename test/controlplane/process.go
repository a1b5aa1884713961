package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// tailBytes is how much of a component's log an error repeats.
const tailBytes = 4 << 10

// starter starts processes from one thread that lives as long as they do. Linux kills a child when the
// thread that started it ends, not when its process does, and Go ends threads as it likes.
type starter struct{ jobs chan func() }

func newStarter() *starter {
	s := &starter{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

// stop ends the thread, and with it whatever it started.
func (s *starter) stop() { close(s.jobs) }

// command is a process to start.
type command struct {
	name string // for people
	path string
	args []string
	env  []string
	dir  string
	log  string // file that receives stdout and stderr; appended to
}

// process is one that was started, running or not.
type process struct {
	command
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; read after done
}

func (s *starter) start(c command) (*process, error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, c.env, log, log
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	s.jobs <- func() { started <- cmd.Start() }
	err = <-started
	_ = log.Close() // the child has its own
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	p := &process{command: c, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only when it is gone already
	<-p.done
}

// terminate sends SIGTERM to the process, and kills it if it runs at the deadline of ctx.
func (p *process) terminate(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when it is gone already
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("%s did not end by itself and was killed", p.name)
	}
}

// ending returns how the process ended. Call it only after the end.
func (p *process) ending() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// tail is the end of the log.
func (p *process) tail() string {
	file, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = file.Seek(-tailBytes, io.SeekEnd)
	}
	content, _ := io.ReadAll(file) // a part of the log is better than none
	return strings.TrimSpace(string(content))
}

// await polls check until it succeeds. When the process ends first, or ctx does, the error shows why: the
// last answer of check and the end of the log.
func (p *process) await(ctx context.Context, check func(context.Context) error) error {
	for {
		last := check(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended (%w) before it was ready; the end of its log:\n%s", p.name, p.ending(), p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready in time (%w); the end of its log:\n%s", p.name, last, p.tail())
		case <-time.After(pollInterval):
		}
	}
}

const pollInterval = 25 * time.Millisecond
