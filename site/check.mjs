// Opens the pages of bin/site in chromium: each has a title, causes no error and fits into 400 pixels, all links lead somewhere, and the
// search finds rules and commands. The playground shows a result, and evaluates a change. SHOTS is a folder for pictures of some pages.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const site = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../bin/site')
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.json': 'application/json', '.woff2': 'font/woff2' }
const fileOf = (url) => {
  const file = path.join(site, decodeURIComponent(new URL(url, 'http://x').pathname))
  return [file, file + '.html', path.join(file, 'index.html')].find((f) => fs.existsSync(f) && fs.statSync(f).isFile())
}
const server = http.createServer((request, response) => {
  const file = fileOf(request.url)
  response.writeHead(file ? 200 : 404, { 'content-type': types[path.extname(file ?? '')] ?? 'text/plain' })
  response.end(file ? fs.readFileSync(file) : 'not found')
})
await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
const address = `http://127.0.0.1:${server.address().port}`
const pages = fs.readdirSync(site, { recursive: true }).filter((f) => f.endsWith('.html') && f !== '404.html' && !f.startsWith('play/')).sort()
const problems = []
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] })
const page = await browser.newPage({ viewport: { width: 400, height: 800 } })
let at = ''
page.on('pageerror', (e) => problems.push(`${at}: ${e}`))
page.on('console', (m) => m.type() === 'error' && problems.push(`${at}: ${m.text()}`))
const anchors = new Map()
const links = []
for (at of pages) {
  await page.goto(`${address}/${at}`)
  const found = await page.evaluate(() => ({
    title: document.querySelector('.vp-doc h1')?.textContent ?? '', width: document.documentElement.scrollWidth,
    ids: [...document.querySelectorAll('[id]')].map((e) => e.id), links: [...document.querySelectorAll('.vp-doc a[href], aside a[href], .VPNavBarMenu a[href]')].map((a) => a.href),
  }))
  if (!found.title) problems.push(`${at}: no title`)
  if (found.width > 400) problems.push(`${at}: ${found.width} pixels wide`)
  anchors.set(path.join(site, at), new Set(found.ids))
  for (const link of found.links) links.push([at, link])
}
for (const [from, link] of links) {
  if (!link.startsWith(address)) continue
  const file = fileOf(link)
  const id = decodeURIComponent(new URL(link).hash.slice(1))
  if (!file) problems.push(`${from}: dead link ${link}`)
  else if (id && anchors.has(file) && !anchors.get(file).has(id)) problems.push(`${from}: no heading ${link}`)
}
await page.setViewportSize({ width: 1280, height: 900 })
const words = [...pages.filter((p) => /^rules\/./.test(p)).map((p) => path.basename(p, '.html')), ...pages.filter((p) => /^cli\/[^i]/.test(p)).map((p) => 'kubectl virtward ' + path.basename(p, '.html').replaceAll('-', ' '))]
at = 'search'
await page.goto(address)
await page.waitForLoadState('networkidle')
await page.keyboard.press('Control+k')
const input = page.locator('#localsearch-input')
await input.waitFor()
let searched = 0
for (const word of words) {
  await input.fill(word)
  const target = word.startsWith('kubectl ') ? '/cli/' + word.split(' ').slice(2).join('-') : '/rules/' + word
  const found = await page.locator(`.results a[href^="${target}"]`).first().waitFor({ state: 'attached', timeout: 5000 }).then(() => true, () => false)
  if (!found) problems.push(`the search does not find ${word}`)
  searched++
}
at = 'play'
await page.goto(address)
await page.locator('.VPNavBarMenu a', { hasText: 'Playground' }).click()
await page.waitForURL(`${address}/play/`)
const results = (text) => page.locator('#status:not(.old)', { hasText: text }).waitFor({ timeout: 120_000 }).catch(() => problems.push(`play: no result ${text}`))
await results('1 of 1 rejected')
await page.locator('.editor textarea').evaluate((t) => {
  const at = t.value.indexOf('m1.large')
  t.focus()
  t.setSelectionRange(at, at + 'm1.large'.length)
  document.execCommand('insertText', false, 'u1.medium')
})
await results('Admitted')
await page.setViewportSize({ width: 400, height: 800 })
if (await page.evaluate(() => document.documentElement.scrollWidth) > 400) problems.push('play: wider than 400 pixels')
await page.locator('.edition a').click()
await page.waitForURL(`${address}/`)
for (const name of process.env.SHOTS ? ['index', 'concepts', 'rules/arm64-disk-bus', 'rules', 'my-vm-was-rejected', 'metrics'] : []) {
  for (const width of [400, 1280]) {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize({ width, height: 900 })
      await page.goto(`${address}/${name}.html`)
      await page.waitForTimeout(300)
      await page.screenshot({ path: path.join(process.env.SHOTS, `${name.replace('/', '-')}-${width}-${colorScheme}.png`) })
    }
  }
}
await browser.close()
server.close()
for (const problem of problems.slice(0, 50)) console.error(problem)
console.log(`${pages.length} pages, ${links.length} links, ${searched} searches, ${problems.length} problems`)
process.exit(problems.length > 0 ? 1 : 0)
