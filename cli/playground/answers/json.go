package answers

import (
	"context"
	"encoding/json"
	"fmt"
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
	if len(question) > MaxQuestion {
		return failure(fmt.Errorf("the request has more than %d MiB", MaxQuestion>>20))
	}
	q := &Question{}
	decoder := json.NewDecoder(strings.NewReader(question))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(q)
	if err == nil {
		err = q.Check()
	}
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
	data, err := texts.JSON(value)
	if err == nil && len(data) > MaxAnswer {
		err = fmt.Errorf("the answer has more than %d MiB: use fewer virtual machines, cases or platforms", MaxAnswer>>20)
	}
	if err != nil {
		return failure(err)
	}
	return string(data)
}

func failure(err error) string {
	data, _ := texts.JSON(map[string]string{"error": strings.ToValidUTF8(err.Error(), "\uFFFD")})
	return string(data)
}
