// The evaluator of this page: the server that also serves the page.
const storage = 'virtward-playground-key'
let key = ''

// connect exchanges the token of the fragment, and returns what the page shows first.
export async function connect(fragment) {
  const token = new URLSearchParams(fragment).get('token')
  if (token) {
    const opened = await send('/session', { token })
    sessionStorage.setItem(storage, opened.key)
  }
  key = sessionStorage.getItem(storage) ?? ''
  return await send('/start')
}

// evaluate returns the answer to a question.
export async function evaluate(question, signal) { return await send('/answer', question, signal) }

async function send(path, body, signal) {
  const headers = { 'Virtward-Playground-Key': key }
  if (body) headers['Content-Type'] = 'application/json'
  let response
  try {
    response = await fetch(path, { method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body), signal, credentials: 'same-origin' })
  } catch (e) {
    if (e.name === 'AbortError') throw e
    throw new Error('The playground does not answer. Is the command still running?')
  }
  const answer = await response.json()
  if (!response.ok) throw new Error(answer.error)
  return answer
}
