// The page: files on one side, results on the other. All strings of documents become text nodes, never HTML.
import { element } from './element.js'
import { Editor } from './editor.js'
import { connect, evaluate } from './evaluator.js'
import { pack, unpack } from './share.js'
import { problemsOf } from './problems.js'
import { views } from './views.js'
import { fillLessons, showLesson } from './lessons.js'

const $ = (id) => document.getElementById(id)
const state = { files: [], active: 0, platforms: [{ hypervisor: '', architecture: '' }], version: '', values: '', view: views[0].id, shown: 'all', lesson: '' }
const stored = 'virtward-playground-state'
let start
let editor
let answer
let problems = []
let timer
let running

const words = { deny: 'error', warn: 'warning', note: 'note' }

// say shows a message; an empty one hides it. An answer hides only messages about evaluations.
let ofEvaluation = false
function say(text, evaluation = false) {
  if (text === '' && evaluation && !ofEvaluation) return
  ofEvaluation = evaluation
  $('message').textContent = text
  $('message').hidden = text === ''
}

async function begin() {
  const fragment = location.hash.slice(1)
  history.replaceState(null, '', location.pathname)
  $('status').textContent = 'Loading …'
  try {
    start = await connect(fragment)
  } catch (e) {
    $('status').textContent = ''
    say(e.message)
    return
  }
  const tooLarge = () => say(`The text is not pasted: a file has at most ${start.maxFile >> 10} KiB.`)
  editor = new Editor($('editor'), start.maxFile, (text) => { state.files[state.active].text = text; changed() }, tooLarge)
  restore()
  await adopt(fragment)
  window.addEventListener('hashchange', () => {
    const fragment = location.hash.slice(1)
    history.replaceState(null, '', location.pathname)
    adopt(fragment).then((adopted) => {
      if (!adopted) return
      showAll()
      ask()
    })
  })
  fillControls()
  showAll()
  if (start.notes?.length) say(`Some objects of the cluster, or parts of them, are not in the files: ${start.notes.length === 1 ? start.notes[0] : `${start.notes.length} notes are under Notes`}.`)
  ask()
}

// restore takes the state of this tab before a reload, or the files of the start.
function restore() {
  state.files = start.files.map((f) => ({ ...f }))
  const first = start.lessons.find((l) => l.name === start.lesson)
  if (first) Object.assign(state, { lesson: first.name, files: first.files.map((f) => ({ ...f })) })
  try {
    const before = JSON.parse(sessionStorage.getItem(stored))
    if (before?.files?.length) Object.assign(state, before)
  } catch {
    sessionStorage.removeItem(stored)
  }
  if (!start.lessons.some((l) => l.name === state.lesson)) state.lesson = ''
}

// adopt takes the state of a fragment, and returns whether it has one.
async function adopt(fragment) {
  try {
    const shared = await unpack(fragment)
    if (!shared) return false
    const tooLarge = (files) => files.some((f) => f.text.length > start.maxFile) || files.reduce((sum, f) => sum + f.text.length, 0) > start.maxBytes
    if (tooLarge(shared.files) || tooLarge(shared.before ?? [])) throw new Error(`The files of the link have more than ${start.maxFile >> 10} KiB each, or more than ${start.maxBytes >> 10} KiB together.`)
    state.files = shared.files.slice(0, start.maxFiles)
    state.active = 0
    state.lesson = ''
    state.before = shared.before?.slice(0, start.maxFiles)
    state.version = start.kubeVirtVersions.includes(shared.version) ? shared.version : ''
    state.values = shared.values
    const known = (p) => ['', ...start.hypervisors].includes(p.hypervisor) && ['', ...start.architectures].includes(p.architecture)
    const platforms = shared.platforms?.filter(known).slice(0, start.maxPlatforms)
    if (platforms?.length) state.platforms = platforms
    say('')
    return true
  } catch (e) {
    say(e.message)
    return false
  }
}

function save() {
  const { files, active, platforms, version, values, view, shown, lesson, before } = state
  try {
    sessionStorage.setItem(stored, JSON.stringify({ files, active, platforms, version, values, view, shown, lesson, before }))
  } catch {
    sessionStorage.removeItem(stored) // the files are larger than what the browser keeps
  }
}

function fillControls() {
  const groups = new Map()
  start.examples.forEach((e, i) => groups.set(e.group, [...(groups.get(e.group) ?? []), element('option', { value: i }, e.title)]))
  $('examples').append(element('option', { value: '' }, 'Choose …'), ...[...groups].map(([label, options]) => element('optgroup', { label }, ...options)))
  $('examples').addEventListener('change', (e) => {
    if (e.target.value === '') return
    const chosen = start.examples[Number(e.target.value)]
    state.files = chosen.files.map((f) => ({ ...f }))
    state.before = undefined
    state.active = 0
    state.lesson = ''
    say('')
    showAll()
    ask()
  })
  fillLessons(start.lessons, (name) => {
    const chosen = start.lessons.find((l) => l.name === name)
    state.lesson = chosen ? name : ''
    if (chosen) Object.assign(state, { files: chosen.files.map((f) => ({ ...f })), before: undefined, active: 0, values: '', platforms: [{ hypervisor: '', architecture: '' }] })
    $('examples').value = ''
    answer = undefined
    say('')
    showAll()
    ask()
  })
  $('version').append(element('option', { value: '' }, 'of the cluster'), ...start.kubeVirtVersions.map((v) => element('option', { value: v }, v)))
  $('version').addEventListener('change', (e) => { state.version = e.target.value; ask() })
  $('share').addEventListener('click', share)
  $('values').addEventListener('input', (e) => { state.values = e.target.value; changed() })
  $('add').addEventListener('click', () => name('', (named) => {
    state.files.push({ name: named, text: '' })
    state.active = state.files.length - 1
  }))
  $('rename').addEventListener('click', () => name(state.files[state.active].name, (named) => { state.files[state.active].name = named }))
  $('remove').addEventListener('click', () => {
    state.files.splice(state.active, 1)
    state.active = Math.max(0, state.active - 1)
    showAll()
    ask()
  })
  $('cancel').addEventListener('click', () => { $('naming').hidden = true })
  document.addEventListener('keydown', (e) => {
    if (e.key !== 'F8') return
    e.preventDefault()
    step(e.shiftKey ? -1 : 1)
  })
}

// name asks for the name of a file.
function name(before, use) {
  $('naming').hidden = false
  $('name').value = before
  $('name').focus()
  $('naming').onsubmit = (e) => {
    e.preventDefault()
    const named = $('name').value.trim()
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\.(yaml|yml|json)$/.test(named)) {
      say('The name of a file has letters, digits, dots, dashes and underscores, and ends with .yaml, .yml or .json.')
      return
    }
    if (named !== before && state.files.some((f) => f.name === named)) {
      say(`Another file has the name ${named}.`)
      return
    }
    $('naming').hidden = true
    say('')
    use(named)
    showAll()
    ask()
  }
}

async function share() {
  try {
    const fragment = await pack({ files: state.files, platforms: state.platforms, version: state.version, values: state.values, before: state.before })
    const link = `${location.origin}${location.pathname}#${fragment}`
    await navigator.clipboard.writeText(link)
    $('share').textContent = 'Copied'
    setTimeout(() => { $('share').textContent = 'Copy link' }, 2000)
  } catch (e) {
    say(e.name === 'NotAllowedError' ? 'The browser does not permit access to the clipboard.' : e.message)
  }
}

// tabs fills a list of tabs, which arrow keys move through.
function tabs(list, items, selected, choose) {
  const focused = list.contains(document.activeElement)
  list.replaceChildren(...items.map((label, i) => {
    const tab = element('button', { type: 'button', role: 'tab', id: `${list.id}-${i}`, 'aria-selected': String(i === selected), tabindex: i === selected ? '0' : '-1', 'aria-controls': list.nextElementSibling.id }, label)
    tab.addEventListener('click', () => choose(i))
    return tab
  }))
  list.nextElementSibling.setAttribute('aria-labelledby', `${list.id}-${selected}`)
  list.onkeydown = (e) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -items.length, End: items.length }
    if (!(e.key in moves)) return
    e.preventDefault()
    const to = Math.abs(moves[e.key]) === 1 ? (selected + moves[e.key] + items.length) % items.length : e.key === 'Home' ? 0 : items.length - 1
    choose(to)
  }
  if (focused) list.children[selected]?.focus()
}

function showAll() {
  state.active = Math.min(state.active, Math.max(0, state.files.length - 1))
  if (state.files.length === 0) state.files.push({ name: 'vm.yaml', text: '' })
  $('version').value = state.version
  if ($('values').value !== state.values) $('values').value = state.values
  if (state.values !== '') $('parameters').open = true
  $('add').disabled = state.files.length >= start.maxFiles
  $('remove').disabled = state.files.length < 2
  showLesson(start.lessons, state.lesson, answer?.lesson)
  showFiles()
  showPlatforms()
  showResult()
}

function showFiles() {
  const count = (f, severity) => problems.filter((p) => p.file === f.name && p.severity === severity).length
  const label = (f) => {
    const deny = count(f, 'deny')
    const warn = count(f, 'warn')
    return f.name + (deny ? ` ✖ ${deny}` : '') + (warn ? ` ⚠ ${warn}` : '')
  }
  tabs($('files'), state.files.map(label), state.active, (i) => { state.active = i; showFiles(); save() })
  const file = state.files[state.active]
  editor.show(file.text, file.name)
  editor.mark(problems.filter((p) => p.file === file.name && p.severity !== 'note'))
  $('problems').replaceChildren(...(problems.length ? problems.slice(0, 200).map(problemItem) : [element('li', { class: 'good-item' }, element('span', { class: 'word' }, 'None'), '')]))
}

function problemItem(p) {
  const place = element('button', { type: 'button', class: 'place' }, p.line ? `${p.file}:${p.line}` : p.file)
  place.addEventListener('click', () => go(p))
  return element('li', { class: `${p.severity}-item` }, element('span', { class: 'word' }, words[p.severity]), ' ', place, ' ', p.text, p.on && ` (${p.on})`, p.remedy && element('span', { class: 'remedy' }, p.remedy))
}

function go(p) {
  const i = state.files.findIndex((f) => f.name === p.file)
  if (i < 0) return
  state.active = i
  showFiles()
  editor.go(p.line || 1, p.column || 1)
}

// step goes to the next problem of the file, or to the one before.
function step(by) {
  const name = state.files[state.active].name
  const lines = [...new Set(problems.filter((p) => p.file === name && p.line).map((p) => p.line))].sort((a, b) => a - b)
  if (lines.length === 0) return
  const here = editor.line
  const next = by > 0 ? lines.find((l) => l > here) ?? lines[0] : lines.findLast((l) => l < here) ?? lines.at(-1)
  go(problems.find((p) => p.file === name && p.line === next))
}

function showPlatforms() {
  const chosen = (field) => new Set(state.platforms.map((p) => p[field]))
  const boxes = (field, title, names) => {
    const set = chosen(field)
    return element('span', { role: 'group', 'aria-label': title }, `${title}: `, ...names.map((value) => {
      const box = element('input', { type: 'checkbox', checked: set.has(value) })
      box.addEventListener('change', () => {
        const next = new Set(set)
        if (box.checked) next.add(value)
        else next.delete(value)
        combine(field, names.filter((n) => next.has(n)))
      })
      return element('label', {}, box, ` ${value || 'of the cluster'} `)
    }))
  }
  const focus = document.activeElement?.closest('#platforms') ? [...$('platforms').querySelectorAll('input')].indexOf(document.activeElement) : -1
  $('platforms').replaceChildren($('platforms').querySelector('legend'), boxes('hypervisor', 'Hypervisor', ['', ...start.hypervisors]), boxes('architecture', 'Architecture', ['', ...start.architectures]))
  if (focus >= 0) $('platforms').querySelectorAll('input')[focus]?.focus()
}

// combine makes platforms of all chosen hypervisors and architectures.
function combine(field, values) {
  const list = (of) => (of === field ? values : [...new Set(state.platforms.map((p) => p[of]))])
  const hypervisors = list('hypervisor')
  const architectures = list('architecture')
  const all = hypervisors.flatMap((hypervisor) => architectures.map((architecture) => ({ hypervisor, architecture })))
  say('')
  if (all.length === 0) say('Choose at least one hypervisor and one architecture.')
  else if (all.length > start.maxPlatforms) say(`At most ${start.maxPlatforms} platforms are shown side by side.`)
  else state.platforms = all
  showPlatforms()
  ask()
}

function showResult() {
  const selected = Math.max(0, views.findIndex((v) => v.id === state.view))
  tabs($('views'), views.map((v) => v.title(answer)), selected, (i) => {
    state.view = views[i].id
    showResult()
    save()
    if ((state.view === 'trace' && !answer?.traced) || (state.view === 'rollout' && state.before && !answer?.planned)) ask()
  })
  if (!answer) return
  $('view').replaceChildren(...views[selected].draw(answer, { state, start, go, take, redraw: () => { showResult(); save() } }))
}

// take takes the present files as the version that runs, or none.
function take(present) {
  state.before = present ? state.files.map((f) => ({ ...f })) : undefined
  ask()
  $('view').focus()
}

// changed waits until nothing was typed for a moment.
function changed() {
  $('status').classList.add('old')
  clearTimeout(timer)
  timer = setTimeout(ask, 250)
  save()
}

// ask evaluates the files, and ends an evaluation of earlier ones.
async function ask() {
  clearTimeout(timer)
  save()
  running?.abort()
  const mine = running = new AbortController()
  const begun = performance.now()
  const trace = state.view === 'trace'
  const before = state.view === 'rollout' ? state.before : undefined
  $('status').classList.add('old')
  try {
    const found = await evaluate({ files: state.files, platforms: state.platforms, kubeVirtVersion: state.version, trace, before, values: valuesOf(state.values), lesson: state.lesson }, mine.signal)
    if (running !== mine) return
    answer = { ...found, traced: trace, planned: Boolean(before) }
    problems = problemsOf(answer)
    say('', true)
    $('status').textContent = summary(Math.round(performance.now() - begun))
    $('status').classList.remove('old')
    showLesson(start.lessons, state.lesson, answer.lesson)
    showFiles()
    showResult()
  } catch (e) {
    if (e.name === 'AbortError' || running !== mine) return
    say(e.message, true)
    $('status').textContent = 'Not evaluated.'
  }
}

// valuesOf returns the values of lines of NAME=VALUE; other lines have no effect.
function valuesOf(text) {
  return Object.fromEntries(text.split('\n').map((l) => l.match(/^\s*([^#=\s][^=]*?)\s*=\s*(.*?)\s*$/)).filter(Boolean).map((m) => [m[1], m[2]]))
}

function summary(milliseconds) {
  const machines = answer.platforms.flatMap((p) => p.machines)
  const rejected = machines.filter((m) => !m.explanation.allowed).length
  const on = answer.platforms.length > 1 ? ` on ${answer.platforms.length} platforms` : ''
  const parts = [machines.length === 0 ? 'No virtual machine' : rejected === 0 ? `Admitted${on}` : `${rejected} of ${machines.length} rejected${on}`]
  const errors = problems.filter((p) => p.severity === 'deny').length
  parts.push(errors === 1 ? '1 error' : `${errors} errors`)
  if (answer.tests) parts.push(`${answer.tests.counts.passed} of ${answer.tests.counts.passed + answer.tests.counts.failed + answer.tests.counts.broken} cases passed`)
  return `${parts.join(' · ')} · ${milliseconds} ms`
}

begin()
