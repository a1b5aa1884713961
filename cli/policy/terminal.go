package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/policies/inspect"
)

// terminal evaluates lines of a terminal until its end. It waits at each stop, if there are stops.
func (s *session) terminal(ctx context.Context, in *os.File, stops *inspect.Break) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(in.Fd()), before) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, options.Unwrapped(s.program.Streams.Out)}, "")
	if width, height, err := term.GetSize(int(in.Fd())); err == nil {
		_ = t.SetSize(width, height)
	}
	return s.loop(ctx, t, stops)
}

// The commands of the loop, besides expressions.
const (
	commandQuit = ":quit"
	commandHelp = ":help"
	commandNext = ":next"
	loopHelp    = "Write an expression. Tab completes names. :cel and :rego choose the language, :quit or Ctrl-D ends.\n"
	breakHelp   = ":next goes to the next stop.\n"
)

// loop reads and evaluates lines. An error of an expression is only shown.
func (s *session) loop(ctx context.Context, t *term.Terminal, stops *inspect.Break) error {
	types, err := s.types(ctx)
	if err != nil {
		return err
	}
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		completed, at, choices := complete(types, s.language, line, pos)
		if len(choices) > 1 {
			fmt.Fprintln(t, strings.Join(choices, "  "))
		}
		return completed, at, true
	}
	help := loopHelp
	if stops != nil {
		help += breakHelp
	}
	fmt.Fprint(t, help)
	next := 0
	if stops != nil {
		next = showNext(t, stops, next)
	}
	for {
		t.SetPrompt(s.language + "> ")
		line, err := t.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch line = strings.TrimSpace(line); {
		case line == "":
		case line == commandQuit:
			return nil
		case line == commandHelp:
			fmt.Fprint(t, help)
		case line == commandNext && stops != nil:
			next = showNext(t, stops, next)
		case slices.Contains(inspect.Languages(), strings.TrimPrefix(line, ":")):
			s.language = strings.TrimPrefix(line, ":")
		default:
			r, err := s.evaluate(ctx, line)
			if err != nil {
				return err
			}
			fmt.Fprint(t, options.Printable(describe(r, s.language)))
		}
	}
}

// showNext shows the stop with an index, or how the evaluation ended, and returns the index of the next one.
func showNext(t io.Writer, stops *inspect.Break, i int) int {
	if i < len(stops.Stops) {
		fmt.Fprint(t, options.Printable(describeStop(stops, i)))
		return i + 1
	}
	fmt.Fprint(t, options.Printable(cmp.Or(describeEnd(stops), "There are no more stops.\n")))
	return i
}

// types returns the types of the documents, for completion; nil for those without a Go type.
func (s *session) types(ctx context.Context) (map[string]reflect.Type, error) {
	types := map[string]reflect.Type{}
	for _, name := range cel.Names() {
		types[name] = nil
	}
	err := s.documents(ctx, func(d *cel.Documents) {
		types["vm"] = reflect.TypeFor[struct {
			Metadata *metav1.ObjectMeta             `json:"metadata"`
			Spec     *v1.VirtualMachineInstanceSpec `json:"spec"`
		}]()
		types["object"], types["oldObject"] = reflect.TypeOf(d.Object), reflect.TypeOf(d.Object)
		types["instancetype"], types["preference"] = reflect.TypeOf(d.Instancetype), reflect.TypeOf(d.Preference)
		types["request"], types["rollout"] = reflect.TypeFor[cel.Request](), reflect.TypeFor[cel.Rollout]()
		types["namespaceObject"] = reflect.TypeFor[struct {
			Metadata *metav1.ObjectMeta `json:"metadata"`
		}]()
	})
	return types, err
}

// chain is a chain of names at the end of a text.
var chain = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*(\.\??[A-Za-z0-9_]*)*$`)

// complete completes the name before a position. If several names are possible, it adds what they have in common, and
// returns them.
func complete(types map[string]reflect.Type, language, line string, pos int) (completed string, at int, choices []string) {
	before := line[:pos]
	steps := strings.Split(strings.ReplaceAll(chain.FindString(before), "?", ""), ".")
	known := types
	if language == inspect.Rego {
		if len(steps) == 1 {
			known = map[string]reflect.Type{"input": nil}
		} else if steps[0] == "input" {
			steps = steps[1:]
		}
	}
	last := steps[len(steps)-1]
	var names []string
	if len(steps) == 1 {
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
	} else if t := known[steps[0]]; t != nil {
		for _, step := range steps[1 : len(steps)-1] {
			if t = fieldpath.Below(t, step); t == nil {
				return line, pos, nil
			}
		}
		names = fieldpath.NamesOf(t)
	}
	for _, name := range names {
		if strings.HasPrefix(name, last) {
			choices = append(choices, name)
		}
	}
	if len(choices) == 0 {
		return line, pos, nil
	}
	shared := choices[0]
	for _, name := range choices {
		for !strings.HasPrefix(name, shared) {
			shared = shared[:len(shared)-1]
		}
	}
	added := strings.TrimPrefix(shared, last)
	return before + added + line[pos:], pos + len(added), choices
}
