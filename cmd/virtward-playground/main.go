//go:build js && wasm

// virtward-playground is the evaluator of the playground as WebAssembly, for the site of the documentation. Its input is the questions of
// the page, and its output the answers, both in JSON. It reads nothing else.
package main

import (
	"context"
	"syscall/js"
	"time"

	"github.com/virtward/virtward/cli/playground/answers"
)

func main() {
	answerer := answers.New(time.Now)
	global := js.Global()
	global.Set("virtwardStart", js.FuncOf(func(js.Value, []js.Value) any { return answers.StartJSON() }))
	// The answer is handed to a function, because an evaluation may wait for a timer, which the caller would block.
	global.Set("virtwardAnswer", js.FuncOf(func(_ js.Value, arguments []js.Value) any {
		question, answered := arguments[0].String(), arguments[1]
		go func() { answered.Invoke(answerer.AnswerJSON(context.Background(), question)) }()
		return nil
	}))
	global.Get("virtwardReady").Invoke()
	select {}
}
