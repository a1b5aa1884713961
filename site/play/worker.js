// The worker of the playground: the evaluator as WebAssembly. Each message has an id and a call; the reply has the same id, and a value or
// an error.
import './wasm_exec.js'
import { Decompress } from './fzstd.js'

const calls = {
  // open starts the evaluator, and returns its module for the next worker.
  async open(known) {
    const compiled = known ?? await load()
    const go = new globalThis.Go()
    go.env = { GOGC: '200', GOMEMLIMIT: '1GiB' }
    const ready = new Promise((resolve) => { globalThis.virtwardReady = resolve })
    const instance = await WebAssembly.instantiate(compiled, go.importObject)
    go.run(instance).then(() => postMessage({ ended: true }), () => postMessage({ ended: true }))
    await ready
    return compiled
  },
  async answer(question) { return await new Promise((resolve) => globalThis.virtwardAnswer(question, resolve)) },
}

// load reads the evaluator, and compiles it while it is read.
async function load() {
  const response = await fetch('./evaluator.wasm.zst')
  if (!response.ok) throw new Error(`The evaluator cannot be loaded: ${response.status}.`)
  const reader = response.body.getReader()
  let decompress
  const stream = new ReadableStream({
    start(controller) {
      decompress = new Decompress((chunk) => { if (chunk.length) controller.enqueue(chunk) })
    },
    async pull(controller) {
      const { done, value } = await reader.read()
      if (!done) {
        decompress.push(value)
        return
      }
      decompress.push(new Uint8Array(0), true)
      controller.close()
    },
  })
  return await WebAssembly.compileStreaming(new Response(stream, { headers: { 'Content-Type': 'application/wasm' } }))
}

addEventListener('message', async ({ data: { id, call, argument } }) => {
  try {
    postMessage({ id, value: await calls[call](argument) })
  } catch (e) {
    postMessage({ id, error: String(e.message ?? e) })
  }
})
