// The state of the page in the fragment of an address: compressed, and bounded when it is read.
const prefix = 'v1='
const maxFragment = 200_000 // characters
const maxState = 4_000_000 // bytes

export async function pack(state) {
  const stream = new Blob([JSON.stringify(state)]).stream().pipeThrough(new CompressionStream('deflate-raw'))
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer())
  let text = ''
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192))
  const fragment = prefix + btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
  if (fragment.length > maxFragment) throw new Error('The files are too large for a link.')
  return fragment
}

// unpack returns the state of a fragment; undefined if it has none.
export async function unpack(fragment) {
  if (!fragment.startsWith(prefix)) return undefined
  if (fragment.length > maxFragment) throw new Error('The link is too long.')
  let bytes
  try {
    bytes = Uint8Array.from(atob(fragment.slice(prefix.length).replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0))
  } catch {
    throw new Error('The link is damaged.')
  }
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader()
  const parts = []
  let size = 0
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      size += value.length
      if (size > maxState) break
      parts.push(value)
    }
  } catch {
    throw new Error('The link is damaged.')
  }
  if (size > maxState) {
    await reader.cancel()
    throw new Error('The link has more than 4 MB of files.')
  }
  let state
  try {
    state = JSON.parse(await new Blob(parts).text())
  } catch {
    throw new Error('The link is damaged.')
  }
  const file = (f) => typeof f?.name === 'string' && typeof f?.text === 'string'
  const platform = (p) => typeof p?.hypervisor === 'string' && typeof p?.architecture === 'string'
  if (!Array.isArray(state?.files) || !state.files.every(file)) throw new Error('The link is damaged.')
  const files = (all) => all.map(({ name, text }) => ({ name, text }))
  return {
    files: files(state.files),
    before: Array.isArray(state.before) && state.before.every(file) ? files(state.before) : undefined,
    platforms: Array.isArray(state.platforms) && state.platforms.every(platform) ? state.platforms.map(({ hypervisor, architecture }) => ({ hypervisor, architecture })) : undefined,
    version: typeof state.version === 'string' ? state.version : '',
    values: typeof state.values === 'string' ? state.values : '',
  }
}
