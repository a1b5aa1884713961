// Command patterns holds that recorded answers are those of Kyverno's engine for patterns. CI runs it: this part of the engine compiles
// within seconds.
//
// What enters: a file with objects, rules with patterns, and a letter for each rule and object: p for pass, f for fail, s for skip. What
// leaves: the number of answers, or the first that differs.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/kyverno/kyverno/pkg/engine/validate"
	kubejson "k8s.io/apimachinery/pkg/util/json"
)

// recording is the file.
type recording struct {
	Objects []json.RawMessage `json:"objects"`
	Rules   []struct {
		Validate struct {
			Pattern    json.RawMessage   `json:"pattern,omitempty"`
			AnyPattern []json.RawMessage `json:"anyPattern,omitempty"`
		} `json:"validate"`
		Answers string `json:"answers"`
	} `json:"rules"`
}

// attempts are how often the engine evaluates a rule until it has the recorded answer. For two keys of labels of which one matches the other, it
// reads one of them at random. Such patterns are not converted.
const attempts = 100

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "patterns:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: patterns FILE")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var all recording
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	objects := make([]any, len(all.Objects))
	for i, object := range all.Objects {
		if err := kubejson.Unmarshal(object, &objects[i]); err != nil {
			return fmt.Errorf("object %d: %w", i, err)
		}
	}
	answers := 0
	for i := range all.Rules {
		rule := &all.Rules[i]
		if len(rule.Answers) != len(objects) {
			return fmt.Errorf("rule %d has %d answers about %d objects", i, len(rule.Answers), len(objects))
		}
		for k, object := range objects {
			answer, err := byte(0), error(nil)
			for attempt := 0; attempt < attempts && err == nil && answer != rule.Answers[k]; attempt++ {
				answer, err = letter(object, rule.Validate.Pattern, rule.Validate.AnyPattern)
			}
			if err != nil {
				return fmt.Errorf("rule %d: %w", i, err)
			}
			if answers++; answer != rule.Answers[k] {
				return fmt.Errorf("rule %d, object %d: the engine answers %c, and %c is recorded", i, k, answer, rule.Answers[k])
			}
		}
	}
	if answers == 0 {
		return errors.New("there are no answers")
	}
	fmt.Printf("%d recorded answers are those of Kyverno's engine\n", answers)
	return nil
}

// letter is the answer about a pattern, or about several: one passes, or else one fails, or all are skipped. The engine has numbers of
// anyPattern as encoding/json decodes them.
func letter(object any, pattern json.RawMessage, anyPattern []json.RawMessage) (byte, error) {
	if anyPattern == nil {
		return one(object, pattern, kubejson.Unmarshal)
	}
	found := map[byte]bool{}
	for _, pattern := range anyPattern {
		answer, err := one(object, pattern, json.Unmarshal)
		if err != nil {
			return 0, err
		}
		found[answer] = true
	}
	for _, answer := range []byte{'p', 'f'} {
		if found[answer] {
			return answer, nil
		}
	}
	return 's', nil
}

// one is the answer about one pattern. It is decoded each time, because the engine changes it.
func one(object any, pattern json.RawMessage, decode func([]byte, any) error) (byte, error) {
	var decoded any
	if err := decode(pattern, &decoded); err != nil {
		return 0, err
	}
	err := validate.MatchPattern(logr.Discard(), object, decoded)
	var failed *validate.PatternError
	switch {
	case err == nil:
		return 'p', nil
	case errors.As(err, &failed) && failed.Skip:
		return 's', nil
	}
	return 'f', nil
}
