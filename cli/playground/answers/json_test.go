package answers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/playground/answers"
)

// Questions and answers as JSON are those of Answer; what is wrong with a question is an error.
func TestJSON(t *testing.T) {
	t.Parallel()
	var start answers.Start
	if err := json.Unmarshal([]byte(answers.StartJSON()), &start); err != nil || len(start.Examples) < 35 || len(start.Lessons) != 12 {
		t.Errorf("%v: %d examples", err, len(start.Examples))
	}
	q := &answers.Question{Files: start.Files, Platforms: []answers.Platform{{}}}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(answerOf(t, q))
	if err != nil {
		t.Fatal(err)
	}
	var one, other any
	if err := json.Unmarshal([]byte(answerer.AnswerJSON(t.Context(), string(text))), &one); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want, &other); err != nil {
		t.Fatal(err)
	}
	compare(t, []string{"Answer"}, other, one)
	for question, want := range map[string]string{
		"{": "unexpected EOF", `{"files": [], "platforms": []}`: "platforms: must be 1 to 6", `{"other": 1}`: `unknown field \"other\"`,
		strings.Repeat(" ", answers.MaxQuestion+1): "the request has more than 12 MiB",
	} {
		if got := answerer.AnswerJSON(t.Context(), question); !strings.HasPrefix(got, `{"error":"`) || !strings.Contains(got, want) {
			t.Errorf("%.100s: %.200s, want %s", question, got, want)
		}
	}
}
