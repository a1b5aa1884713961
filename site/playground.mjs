// Uses the page of kubectl virtward playground in chromium, as a person does: types, clicks, and presses keys. The argument is the link
// of a playground with its first example; or the folder of the playground of the site, and a file with questions and their answers. SHOTS
// is a folder for pictures.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import zlib from 'node:zlib'
import { chromium } from 'playwright-core'

const served = process.argv[2].startsWith('http')
const link = served ? process.argv[2] : await serve(process.argv[2])
const origin = new URL(link).origin
const problems = []
const figures = {}
const check = (ok, text) => { if (!ok) problems.push(text) }
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] })
const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, permissions: ['clipboard-read', 'clipboard-write'] })
const page = await context.newPage()
page.setDefaultTimeout(served ? 30_000 : 120_000)
page.on('console', (m) => m.type() === 'error' && problems.push(`console: ${m.text()}`))
page.on('pageerror', (e) => problems.push(`error: ${e}`))
page.on('dialog', (d) => { problems.push(`dialog: ${d.message()}`); d.dismiss() })
page.on('request', (r) => { if (!r.url().startsWith(origin)) problems.push(`request to ${r.url()}`) })
await page.addInitScript(() => document.addEventListener('securitypolicyviolation', (e) => console.error(`violation of ${e.violatedDirective}: ${e.sample}`)))

process.on('uncaughtException', (e) => {
  console.error([...problems, e.stack].join('\n'))
  process.exit(1)
})

const status = () => page.textContent('#status')
const settled = () => page.waitForFunction(() => !document.querySelector('#status').classList.contains('old') && / ms$/.test(document.querySelector('#status').textContent))
const shot = async (name) => { if (process.env.SHOTS) await page.screenshot({ path: path.join(process.env.SHOTS, `${name}.png`) }) }
const view = (name) => page.locator('#views').getByRole('tab', { name }).click()
const open = (state) => page.evaluate((fragment) => { location.hash = fragment }, 'v1=' + zlib.deflateRawSync(JSON.stringify(state)).toString('base64url'))
const file = (name, text) => ({ name, text })

// The first result.
let begun = Date.now()
await page.goto(link)
await settled()
figures['first result'] = Date.now() - begun
check(page.url() === link.replace(/#.*/, ''), `the token stays in the address: ${page.url()}`)
check(/^1 of 1 rejected · 1 error · 8 of 8 cases passed/.test(await status()), `the first result is: ${await status()}`)
check((await page.textContent('#problems')).includes('vm.yaml:10'), 'the list of problems lacks the line of the finding')
check(await page.locator('.gutter .deny').count() === 1, 'the line of the finding has no mark')
check(await page.locator('.lines .layer', { hasText: 'instancetype/m1.large' }).count() > 2, 'fields of the instancetype have no layer')
await shot('first')

// Typing.
const input = page.locator('.editor textarea')
const type = async (from, to) => {
  await input.evaluate((t, [from, to]) => {
    const at = t.value.indexOf(from)
    t.focus()
    t.setSelectionRange(at, at + from.length)
    document.execCommand('insertText', false, to)
  }, [from, to])
  await page.waitForFunction(() => document.querySelector('#status').classList.contains('old'))
  await settled()
}
const times = []
for (const [from, to] of [['m1.large', 'u1.medium'], ['u1.medium', 'm1.large'], ['m1.large', 'u1.medium']]) {
  await type(from, to)
  times.push(Number((await status()).match(/(\d+) ms$/)[1]))
}
figures['a change of the VM'] = Math.min(times[0], times[2]) // between them, the files are those of the first result
check(/^Admitted/.test(await status()), `after the change: ${await status()}`)
await type('runStrategy: Halted', 'runStrateggy: Halted')
check((await page.textContent('#problems')).includes('runStrateggy'), 'an unknown field is not a problem')
const selected = () => input.evaluate((t) => t.value.slice(t.selectionStart, t.selectionEnd))
for (let i = 0; i < 5 && !(await selected()).includes('runStrateggy'); i++) await input.press('F8')
check((await selected()).includes('runStrateggy'), 'F8 does not go to the problem')
await type('runStrateggy: Halted', 'runStrategy: Halted')
await page.getByRole('tab', { name: 'policy.yaml' }).click()
await type('limit: 8Gi', 'limit: 1Gi')
figures['a change of the policy'] = Number((await status()).match(/(\d+) ms$/)[1])
check(/1 of 1 rejected/.test(await status()) && /of 8 cases passed/.test(await status()) && !/ 8 of 8/.test(await status()), `after the change of the policy: ${await status()}`)
await view('Trace')
await settled()
await page.locator('.trace code', { hasText: 'quantity(params.limit)' }).first().waitFor()
await shot('trace')
await type('limit: 1Gi', 'limit: 8Gi')

// The keyboard.
await input.focus()
await page.keyboard.press('Tab')
check(await page.evaluate(() => document.activeElement.id === 'add'), 'Tab does not leave the editor')
await page.locator('#files [aria-selected=true]').focus()
await page.keyboard.press('End')
check(await page.evaluate(() => document.activeElement.textContent.startsWith('suite.yaml')), 'End does not choose the last file')
await page.keyboard.press('ArrowRight')
check(await page.evaluate(() => document.activeElement.textContent.startsWith('vm.yaml')), 'the arrow key does not choose the next file')
await input.focus()
await page.keyboard.press('Control+End')
await page.keyboard.type('# note:')
await page.keyboard.press('Enter')
check((await input.inputValue()).endsWith('# note:\n  '), 'Enter does not keep the indentation')
await page.keyboard.press('Control+z')
check((await input.inputValue()).endsWith('# note:'), 'undo does not undo')
await settled()

// All controls have names.
const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, select, textarea')].filter((e) => !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim())).map((e) => e.outerHTML))
check(nameless.length === 0, `controls without a name: ${nameless}`)

// A rollout plan from the present files to changed ones.
await page.getByRole('tab', { name: 'vm.yaml' }).click()
await view('Rollout')
await page.getByRole('button', { name: 'The present files run' }).click()
await page.locator('#view', { hasText: 'Nothing changes for the running virtual machine.' }).waitFor()
await type('u1.medium', 'm1.large')
await page.locator('#view table', { hasText: 'spec.template.spec.domain.memory.guest' }).first().waitFor()
await shot('rollout')
await type('m1.large', 'u1.medium')

// Platforms side by side.
await view('Effective VM')
const box = (group, label) => page.locator('#platforms [role=group]').nth(group).locator('label', { hasText: label }).locator('input')
for (const [group, label, on] of [[0, 'mshv', true], [0, 'kvm', true], [0, 'of the cluster', false], [1, 'arm64', true], [1, 'of the cluster', false], [1, 'amd64', true]]) await box(group, label).setChecked(on)
await settled()
check((await page.locator('.columns > section > h3').allTextContents()).join() === 'kvm/amd64,kvm/arm64,mshv/amd64,mshv/arm64', 'four platforms are not side by side')
figures['four platforms'] = Number((await status()).match(/(\d+) ms$/)[1])
await page.locator('#view select').selectOption('different')
check(await page.locator('.lines tr.differs').count() > 8, 'lines that differ have no mark')
await shot('platforms')

// A reload keeps the files and the session; a second use of the link does not.
const before = await input.inputValue()
await page.reload()
await settled()
check(await input.inputValue() === before, 'a reload loses the files')
if (served) {
  const other = await context.newPage()
  await other.goto(link)
  await other.locator('#message', { hasText: 'works once' }).waitFor()
  await other.close()
}

// A link has the state.
await page.locator('#share').click()
await page.locator('#share', { hasText: 'Copied' }).waitFor()
const copied = await page.evaluate(() => navigator.clipboard.readText())
check(copied.startsWith(`${link.replace(/#.*/, '')}#v1=`), `the link is ${copied.slice(0, 80)}`)
await open({ files: [file('vm.yaml', '')], platforms: [{ hypervisor: 'kvm', architecture: 's390x' }] })
await page.locator('#status', { hasText: 'No virtual machine' }).waitFor()
await page.evaluate((hash) => { location.hash = hash }, new URL(copied).hash)
await page.waitForFunction((text) => document.querySelector('textarea').value === text, before)
await settled()

// Damaged and hostile links.
for (const [fragment, says] of [
  ['v1=%%%', 'damaged'], ['v1=AAAA', 'damaged'], ['v1=' + zlib.deflateRawSync('{"files": 1}').toString('base64url'), 'damaged'],
  ['v1=' + zlib.deflateRawSync(Buffer.alloc(100_000_000)).toString('base64url'), 'more than 4 MB'], ['v1=' + 'A'.repeat(300_000), 'too long'],
]) {
  begun = Date.now()
  await page.evaluate((f) => { location.hash = f }, fragment)
  await page.locator('#message', { hasText: says }).waitFor()
  check(Date.now() - begun < 5000, `a hostile link takes ${Date.now() - begun} ms`)
  check(await input.inputValue() === before, 'a hostile link changes the files')
}
figures['a link with 100 MB'] = Date.now() - begun

// Hostile texts in all strings that the page shows.
const attack = `<img src=x onerror=alert(1)><script>alert(2)</script><svg/onload=alert(3)>"'\`\${alert(4)}{{alert(5)}}javascript:alert(6)`
const yaml = JSON.stringify(attack)
const hostile = [
  file('vm.yaml', `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: ${yaml}, namespace: ${yaml}, labels: {${yaml}: ${yaml}}, annotations: {${yaml}: ${yaml}}}
spec:
  runStrategy: ${yaml}
  ${yaml}: ${yaml}
  instancetype: {name: ${yaml}, kind: ${yaml}}
  preference: {name: ${yaml}}
  template:
    metadata: {labels: {${yaml}: ${yaml}}}
    spec:
      architecture: ${yaml}
      hostname: ${yaml}
      nodeSelector: {${yaml}: ${yaml}}
      domain: {machine: {type: ${yaml}}, cpu: {model: ${yaml}}, devices: {disks: [{name: ${yaml}, disk: {bus: ${yaml}}}]}}
      volumes: [{name: ${yaml}, containerDisk: {image: ${yaml}}}]
`),
  file('objects.yaml', `apiVersion: ${yaml}\nkind: ${yaml}\nmetadata: {name: ${yaml}}\n---\n${attack}: [\n---\napiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata: {name: ${yaml}}\nspec: {cpu: {guest: 1}, memory: {guest: ${yaml}}}\n`),
  file('policy.yaml', `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: hostile, labels: {a: ${yaml}}}
spec:
  title: ${yaml}
  description: ${yaml}
  remedy: ${yaml}
  enforcement: Deny
  params: {values: {a: ${yaml}}}
  variables: [{name: a, expression: 'params.a + object.metadata.name'}]
  validations:
    - {expression: "false", message: ${yaml}, fieldPath: spec}
    - {expression: "variables.a == ''", message: x, messageExpression: 'variables.a'}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: ${yaml}}
spec: {validations: [{expression: ${yaml}, message: ${yaml}}], ${yaml}: ${yaml}}
`),
  file('suite.yaml', `apiVersion: policy.virtward.io/v1alpha1
kind: Suite
metadata: {name: ${yaml}}
tests:
  - name: ${yaml}
    policies: [policy.yaml]
    base: {apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: ${yaml}, namespace: a}, spec: {runStrategy: Always, template: {spec: {domain: {devices: {}}, hostname: ${yaml}}}}}
    cases: [{name: ${yaml}, expect: {verdict: allowed, message: ${yaml}}}]
`),
]
const tame = hostile.map((f) => (f.name === 'vm.yaml' ? file(f.name, `apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a, annotations: {b: ${yaml}}}\nspec: {runStrategy: Always, template: {spec: {domain: {devices: {}, memory: {guest: 1Gi}}, hostname: ${yaml}}}}\n`)
  : f.name === 'policy.yaml' ? file(f.name, f.text.split('---')[0]) : f))
let shown = 0
for (const [name, files] of [['hostile', hostile], ['tame', tame]]) {
  await open({ files, platforms: [{ hypervisor: '', architecture: '' }, { hypervisor: 'mshv', architecture: 'arm64' }] })
  await page.waitForFunction(() => document.querySelector('#problems').textContent.includes('onerror'))
  await settled()
  for (const tab of ['Effective VM', 'Findings', 'Suite', 'Trace', 'Notes']) {
    await view(tab)
    await settled()
    if ((await page.textContent('main')).includes('<img src=x')) shown++
    for (const name of ['vm.yaml', 'objects.yaml', 'policy.yaml', 'suite.yaml']) await page.locator('#files').getByRole('tab', { name }).click()
    const made = await page.evaluate(() => [...document.querySelectorAll('main img, main script, main svg, main iframe, main a, main style, main [onerror], main [onload], main object')].map((e) => e.outerHTML))
    check(made.length === 0, `${name}, ${tab}: texts became elements: ${made}`)
  }
  await shot(name)
}
check(shown === 10, `hostile texts are shown in ${shown} of 10 views`)

// Large documents are rejected with a message, and the editor takes no more than a file may have.
await open({ files: [file('vm.yaml', '# x\n'.repeat(600_000))] })
await page.locator('#message', { hasText: 'KiB' }).waitFor()
await open({ files: [file('vm.yaml', '')] })
await settled()
check(await input.getAttribute('maxlength') === String(1 << 20), 'the editor takes more than a file may have')
await open({ files: [file('vm.yaml', '# x\n'.repeat(1_300_000))] }) // 5 MB
await page.locator('#message', { hasText: 'more than 4 MB' }).waitFor()
await page.evaluate(() => navigator.clipboard.writeText('# x\n'.repeat(1_300_000)))
begun = Date.now()
await input.focus()
await page.keyboard.press('Control+a')
await page.keyboard.press('Control+v')
await page.locator('#message', { hasText: 'not pasted' }).waitFor()
figures['5 MB that are pasted'] = Date.now() - begun
check(await input.inputValue() === '', 'a text that is too large is pasted')
await page.evaluate(() => navigator.clipboard.writeText('# pasted\n'))
await page.keyboard.press('Control+v')
await settled()
check(await input.inputValue() === '# pasted\n', 'a text cannot be pasted')
await open({ files: [file('vm.yaml', '')] })
await settled()

// A lesson: its requirements, a wrong policy, a right one, a reload, and the next lesson.
await page.locator('#lessons').selectOption('first-policy')
await page.locator('#lesson-state', { hasText: 'requirements are met' }).waitFor()
check(await page.locator('#requirements .deny-item').count() === 2, 'the requirements that the first policy misses are not shown')
check(await page.locator('#lesson-text code').count() > 2 && await page.locator('#lesson-hint code').count() > 0, 'code in the text of a lesson is no code')
await type('"true"', "vm.spec.domain.memory.guest != '12Gi'")
check(/of 5 requirements/.test(await page.textContent('#lesson-state')), 'a policy that denies 12Gi only solves the lesson')
await type("vm.spec.domain.memory.guest != '12Gi'", "quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0")
check(await page.textContent('#lesson-state') === 'Solved', `the lesson is ${await page.textContent('#lesson-state')}`)
await shot('lesson')
await page.reload()
await page.locator('#lesson-state', { hasText: 'Solved' }).waitFor()
check((await page.textContent('#lessons')).includes('1. Your first policy ✓'), 'a lesson that was solved has no mark')
await page.locator('#lesson-next').click()
await page.locator('#lesson-title', { hasText: 'Lesson 2 of 12' }).waitFor()
await page.locator('#lesson-state', { hasText: 'requirements are met' }).waitFor()
check(await page.evaluate(() => document.activeElement.id === 'lesson'), 'the next lesson does not have the focus')
await page.locator('#lesson-hint summary').click()

// Examples and lessons, at two widths and in two schemes: nothing is wider than the page, and all texts have contrast.
for (const width of [400, 1280]) {
  await page.setViewportSize({ width, height: 900 })
  check(await page.evaluate(() => document.documentElement.scrollWidth) <= width, `a lesson is wider than ${width}`)
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme })
    for (const pale of await page.evaluate(paleTexts)) problems.push(`lesson, ${colorScheme}: ${pale}`)
  }
  await shot(`lesson-${width}`)
}
await page.locator('#lesson-leave').click()
check(await page.locator('#lesson').isHidden(), 'the lessons cannot be left')
await page.locator('#examples').selectOption({ index: 1 })
await settled()
for (const width of [400, 1280]) {
  for (const colorScheme of ['light', 'dark']) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme })
    for (const tab of ['Effective VM', 'Findings', 'Suite', 'Trace', 'Rollout', 'Notes']) {
      await view(tab)
      await settled()
      const wide = await page.evaluate(() => document.documentElement.scrollWidth)
      check(wide <= width, `${tab} is ${wide} pixels wide at ${width}`)
      for (const pale of await page.evaluate(paleTexts)) problems.push(`${tab}, ${colorScheme}: ${pale}`)
    }
    await view('Effective VM')
    await shot(`page-${width}-${colorScheme}`)
    await page.locator('#results').scrollIntoViewIfNeeded()
    if (width === 400) {
      await page.evaluate(() => document.querySelector('#results').scrollIntoView())
      await shot(`results-${width}-${colorScheme}`)
      await page.evaluate(() => scrollTo(0, 0))
    }
  }
}

// paleTexts returns the texts whose contrast is below 4.5 to 1.
function paleTexts() {
  const channels = (color) => color.match(/[\d.]+/g).map(Number)
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    return 0.2126 * x + 0.7152 * y + 0.0722 * z
  }
  const pale = new Set()
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility() || e.matches('textarea, option, :disabled, .skip')) continue
    let around = e
    while (around && (channels(getComputedStyle(around).backgroundColor)[3] ?? 1) === 0) around = around.parentElement
    const [a, b] = [luminance(channels(getComputedStyle(e).color)), luminance(channels(getComputedStyle(around ?? document.documentElement).backgroundColor))]
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    if (contrast < 4.5) pale.add(`${e.tagName} ${e.className}: contrast ${contrast.toFixed(2)}`)
  }
  return [...pale]
}

// In the site, the worker has the same answers as the commands, and is ended when an evaluation takes too long.
if (!served) {
  check(figures['first result'] <= 3000, `the first result takes ${figures['first result']} ms`)
  check(figures['a change of the VM'] <= 300, `a change takes ${figures['a change of the VM']} ms`)
  const pairs = JSON.parse(fs.readFileSync(process.argv[3], 'utf8'))
  begun = Date.now()
  const differing = await page.evaluate(async (pairs) => {
    const { evaluate } = await import('./evaluator.js')
    const sorted = (v) => (Array.isArray(v) ? v.map(sorted) : v && typeof v === 'object' ? Object.fromEntries(Object.keys(v).sort().map((k) => [k, sorted(v[k])])) : v)
    const differing = []
    for (const [i, { question, answer }] of pairs.entries()) {
      const got = await evaluate(question, new AbortController().signal).catch((e) => ({ error: e.message }))
      if (JSON.stringify(sorted(got)) !== JSON.stringify(sorted(answer))) differing.push(i)
    }
    return differing
  }, pairs)
  check(differing.length === 0, `answers that differ from those of the commands: ${differing}`)
  console.log(`${pairs.length} answers are compared, ${differing.length} differ`)
  figures['an answer, on average'] = Math.round((Date.now() - begun) / pairs.length)
  const slow = Array.from({ length: 20 }, (_, i) => `apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm${i}}\nspec: {runStrategy: Always, template: {spec: {domain: {devices: {disks: [${Array.from({ length: 500 }, (_, d) => `{name: d${d}, disk: {bus: sata}}`)}]}}}}}\n`).join('---\n')
  begun = Date.now()
  const [first, second] = await page.evaluate(async ([slow, quick]) => {
    const { evaluate } = await import('./evaluator.js')
    const question = (text) => ({ files: [{ name: 'vm.yaml', text }], platforms: ['', 'kvm', 'mshv'].flatMap((hypervisor) => ['amd64', 'arm64'].map((architecture) => ({ hypervisor, architecture }))) })
    const given = new AbortController()
    const one = evaluate(question(slow), given.signal).catch((e) => e.name)
    await new Promise((ready) => setTimeout(ready, 500))
    given.abort()
    const other = evaluate(question(quick), new AbortController().signal).then((a) => a.platforms.length, (e) => e.message)
    return [await one, await other]
  }, [slow, slow.split('---')[0].replace(/disks: \[.*?\]/, 'disks: []')])
  figures['after an evaluation that was given up'] = Date.now() - begun
  check(first === 'AbortError' && second === 6, `after an evaluation that was given up: ${first}, ${second}`)
}

// serve serves a folder with the headers that its page asks for: also the worker has the policy.
async function serve(folder) {
  const policy = fs.readFileSync(path.join(folder, 'index.html'), 'utf8').match(/Content-Security-Policy" content="([^"]+)"/)[1]
  const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' }
  const server = http.createServer((request, response) => {
    const name = new URL(request.url, 'http://x').pathname.replace(/^\/play\//, '') || 'index.html'
    const file = path.join(folder, path.basename(name))
    const found = fs.existsSync(file)
    response.writeHead(found ? 200 : 404, { 'content-type': types[path.extname(name)] ?? 'application/octet-stream', 'content-security-policy': `${policy}; frame-ancestors 'none'` })
    response.end(found ? fs.readFileSync(file) : 'not found')
  })
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
  server.unref()
  return `http://127.0.0.1:${server.address().port}/play/`
}

await browser.close()
for (const problem of problems.slice(0, 50)) console.error(problem)
console.log(Object.entries(figures).map(([name, ms]) => `${name}: ${ms} ms`).join(', '))
console.log(`${problems.length} problems`)
process.exit(problems.length > 0 ? 1 : 0)
