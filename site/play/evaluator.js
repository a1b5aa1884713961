// The evaluator of this page: a worker of the browser. It replaces the file of the same name of the page that the CLI serves.
const maxLoading = 120_000 // milliseconds
const maxTime = 20_000

const tooLong = 'The evaluation takes more than 20 seconds: use fewer virtual machines, cases or platforms.'
const name = './worker.js'
// Only this name becomes the address of a script.
const trusted = globalThis.trustedTypes?.createPolicy('worker', { createScriptURL: () => name })

let worker // has the calls that wait for a reply, by id
let opening
let compiled
let first // the first question, and its answer
let queue = Promise.resolve()

// connect returns what the page shows first, and begins to load the evaluator.
export async function connect() {
  const response = await fetch('./start.json')
  if (!response.ok) throw new Error(`The examples cannot be loaded: ${response.status}.`)
  first = await response.json()
  opened().catch(() => {}) // the next question reports it
  return first.start
}

// opened waits until a worker is ready.
function opened() {
  opening ??= open().catch((e) => {
    opening = undefined
    throw e
  })
  return opening
}

// evaluate returns the answer to a question. Questions are answered one after the other; one that was given up is not begun.
export async function evaluate(question, signal) {
  const text = JSON.stringify(question)
  if (text === first?.question) return structuredClone(first.answer)
  const before = queue
  let done
  queue = new Promise((resolve) => { done = resolve })
  try {
    await before
    signal.throwIfAborted()
    await opened()
    signal.throwIfAborted()
    const answer = JSON.parse(await call('answer', text, maxTime))
    signal.throwIfAborted()
    if (answer.error) throw new Error(answer.error)
    return answer
  } catch (e) {
    signal.throwIfAborted()
    throw e
  } finally {
    done()
  }
}

async function open() {
  const own = worker = Object.assign(new Worker(trusted ? trusted.createScriptURL(name) : name, { type: 'module' }), { waiting: new Map(), calls: 0 })
  own.addEventListener('message', ({ data }) => {
    if (data.ended) {
      if (worker === own) end('The evaluator ended: the files need more memory than the browser permits.')
      return
    }
    const waits = own.waiting.get(data.id)
    own.waiting.delete(data.id)
    if (data.error) waits?.reject(new Error(data.error))
    else waits?.resolve(data.value)
  })
  own.addEventListener('error', (e) => { if (worker === own) end(`The evaluator cannot be started: ${e.message ?? 'the browser does not support it'}.`) })
  compiled = await call('open', compiled, maxLoading)
  await call('answer', first.question, maxLoading) // the first evaluation takes seconds: it compiles what all others use
}

async function call(call, argument, most) {
  const own = worker
  const id = ++own.calls
  const timer = setTimeout(() => { if (worker === own) end(tooLong) }, most)
  try {
    return await new Promise((resolve, reject) => {
      own.waiting.set(id, { resolve, reject })
      own.postMessage({ id, call, argument })
    })
  } finally {
    clearTimeout(timer)
  }
}

// end ends the worker: the calls that wait fail. The next question starts another one.
function end(message) {
  const own = worker
  worker = opening = undefined
  own.terminate()
  for (const { reject } of own.waiting.values()) reject(new Error(message))
}
