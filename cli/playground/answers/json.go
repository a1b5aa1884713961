package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/virtward/virtward/texts"
)

// Bounds of questions and answers as JSON.
const (
	// MaxQuestion is the size of a question, in bytes.
	MaxQuestion = 12 << 20
	// MaxAnswer is the size of an answer, in bytes.
	MaxAnswer = 32 << 20
)

// StartJSON returns what the page shows first.
func StartJSON() string { return encode(NewStart()) }

// AnswerJSON answers a question; what is wrong with it is the field error of the answer.
func (a *Answerer) AnswerJSON(ctx context.Context, question string) string {
	q, err := ReadQuestion(strings.NewReader(question))
	if err != nil {
		return failure(err)
	}
	answer, err := a.Answer(ctx, q)
	if err != nil {
		return failure(err)
	}
	return encode(answer)
}

func encode(value any) string {
	data, err := Encode(value)
	if err != nil {
		return failure(err)
	}
	return string(data)
}

// Encode encodes an answer, or what the page shows first.
func Encode(value any) ([]byte, error) {
	data, err := texts.JSON(value)
	if err == nil && len(data) > MaxAnswer {
		err = fmt.Errorf("the answer has more than %d MiB: use fewer virtual machines, cases or platforms", MaxAnswer>>20)
	}
	return data, err
}

// ErrTooLarge is the error of a question with more than MaxQuestion bytes.
var ErrTooLarge = fmt.Errorf("the request has more than %d MiB", MaxQuestion>>20)

// ReadQuestion decodes a question, and checks it.
func ReadQuestion(from io.Reader) (*Question, error) {
	q, bounded := &Question{}, &io.LimitedReader{R: from, N: MaxQuestion + 1}
	decoder := json.NewDecoder(bounded)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(q)
	switch {
	case bounded.N <= 0:
		return nil, ErrTooLarge
	case err != nil:
		return nil, err
	}
	return q, q.Check()
}

func failure(err error) string {
	data, _ := texts.JSON(map[string]string{"error": strings.ToValidUTF8(err.Error(), "\uFFFD")})
	return string(data)
}
