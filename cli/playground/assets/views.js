// The views of a result. Each returns elements.
import { element } from './element.js'
import { platformName } from './problems.js'

const maxLines = 3000
const severityItems = { Deny: 'deny-item', Warn: 'warn-item', Audit: 'note-item' }
const severityWords = { Deny: 'rejected', Warn: 'warning', Audit: 'audit' }

export const views = [
  { id: 'effective', title: () => 'Effective VM', draw: effective },
  { id: 'findings', title: (a) => `Findings${a ? ` (${findingsOf(a).length})` : ''}`, draw: findings },
  { id: 'tests', title: (a) => `Suite${a?.tests ? ` (${a.tests.counts.passed} passed${a.tests.counts.failed + a.tests.counts.broken ? `, ${a.tests.counts.failed + a.tests.counts.broken} not` : ''})` : ''}`, draw: tests },
  { id: 'trace', title: () => 'Trace', draw: trace },
  { id: 'rollout', title: () => 'Rollout', draw: rollout },
  { id: 'notes', title: () => 'Notes', draw: notes },
]

const architectures = /^(amd64|arm64|s390x|riscv64|ppc64le|loongarch64)$/

// layerClass returns the class for the colour of a layer.
function layerClass(layer) {
  const [first, second] = layer.split('/')
  for (const name of ['instancetype', 'preference', 'site', 'base', 'finalize']) if (first === name) return `layer-${name}`
  if (architectures.test(layer)) return 'layer-architecture'
  if ((second === undefined && /^(kvm|mshv)$/.test(first)) || architectures.test(second ?? '')) return 'layer-hypervisor'
  return 'layer-other'
}

function findingsOf(answer) {
  return answer.platforms.flatMap((p) => p.machines.flatMap((m) => m.explanation.findings.map((f) => ({ f, m, p }))))
}

function findingElement(f, m, go) {
  const children = [element('span', { class: 'word' }, f.exempted ? 'exempted' : severityWords[f.severity] ?? f.severity), ' ']
  if (f.line && go) {
    const place = element('button', { type: 'button', class: 'place' }, `${m.file}:${f.line}`)
    place.addEventListener('click', () => go({ file: m.file, line: f.line, column: f.column }))
    children.push(place, ' ')
  }
  children.push(f.field ? `${f.field}: ` : '', f.message, ` [${f.rule}]`)
  if (f.layer) children.push(` The value is from ${f.layer}.`)
  if (f.exempted) children.push(` Exempted by ${f.exempted.exception} until ${f.exempted.until}: ${f.exempted.reason}`)
  if (f.remedy) children.push(element('span', { class: 'remedy' }, f.remedy))
  return element('div', { class: `finding ${f.exempted ? 'note-item' : severityItems[f.severity] ?? 'warn-item'}` }, ...children)
}

function effective(answer, { state, go, redraw }) {
  const several = answer.platforms.length > 1
  const choices = [['all', 'all fields'], ['set', 'fields that a layer set'], ...(several ? [['different', 'fields that differ']] : [])]
  if (!choices.some(([value]) => value === state.shown)) state.shown = 'all'
  const select = element('select', {}, ...choices.map(([value, text]) => element('option', { value, selected: value === state.shown }, text)))
  select.addEventListener('change', () => {
    state.shown = select.value
    redraw()
    document.querySelector('#view select')?.focus()
  })
  const machines = new Map() // the lines of a machine on each platform, by the text with its layer
  answer.platforms.forEach((p, i) => p.machines.forEach((m) => {
    const key = objectName(m)
    const lines = machines.get(key) ?? new Map()
    for (const l of keyed(m.lines)) lines.set(l.key, (lines.get(l.key) ?? new Set()).add(i))
    machines.set(key, lines)
  }))
  const differs = (m, key) => several && machines.get(objectName(m)).get(key)?.size !== answer.platforms.filter((p) => p.machines.some((o) => objectName(o) === objectName(m))).length
  const columns = answer.platforms.map((p) => {
    const title = element('h3', {}, platformName(p, p.machines[0]))
    const column = element('section', { 'aria-label': platformName(p, p.machines[0]) }, title)
    if (p.error) column.append(element('p', { class: 'finding deny-item' }, p.error))
    if (p.machines.length === 0 && !p.error) column.append(element('p', {}, 'No virtual machine is in the files, or none can be read: see the problems.'))
    for (const m of p.machines) column.append(...machine(m, state.shown, (key) => differs(m, key), go))
    return column
  })
  return [element('p', {}, element('label', {}, 'Show ', select)), element('div', { class: 'columns' }, ...columns)]
}

function objectName(m) { return `${m.explanation.object.kind} ${m.explanation.object.namespace}/${m.explanation.object.name}` }

// keyed returns lines with a key: the lines around them, the text and the layer, so that equal ones of two platforms are found.
function keyed(lines) {
  const around = []
  return lines.map((line) => {
    const indent = line.text.search(/\S/)
    while (around.length && around.at(-1).indent >= indent) around.pop()
    const key = JSON.stringify([around.map((a) => a.text), line.text, line.layer])
    around.push({ indent, text: line.text.trim() })
    return { ...line, key, parents: around.length - 1, indent }
  })
}

function machine(m, shown, differs, go) {
  const e = m.explanation
  const title = element('p', {}, element('strong', {}, objectName(m)), ' ', element('span', { class: `verdict ${e.allowed ? 'good' : 'deny'}` }, e.allowed ? 'admitted' : 'rejected'))
  const lines = keyed(m.lines)
  const wanted = (l) => shown === 'all' || (shown === 'set' ? Boolean(l.layer) : differs(l.key)) || (shown !== 'different' && l.findings)
  const keep = new Set()
  const around = []
  lines.forEach((l, i) => { // a line is shown with those around it
    while (around.length && lines[around.at(-1)].indent >= l.indent) around.pop()
    around.push(i)
    if (wanted(l)) for (const a of around) keep.add(a)
  })
  const rows = []
  const told = new Set()
  for (const [i, l] of lines.entries()) {
    if (!keep.has(i)) continue
    if (rows.length > maxLines) {
      rows.push(element('tr', {}, element('td', { colspan: '2' }, 'The other lines are not shown.')))
      break
    }
    const layer = l.layer ? element('span', { class: `layer ${layerClass(l.layer)}`, title: `set by ${l.layer}` }, l.layer) : ''
    rows.push(element('tr', { class: [l.layer && 'set', differs(l.key) && 'differs'].filter(Boolean).join(' ') || undefined }, element('td', {}, element('code', {}, l.text)), element('td', {}, layer)))
    for (const f of l.findings ?? []) {
      if (told.has(f)) continue
      told.add(f)
      rows.push(element('tr', { class: 'finding-row' }, element('td', { colspan: '2' }, findingElement(e.findings[f], m, go))))
    }
  }
  const own = [...e.warnings.map((w) => element('div', { class: 'finding warn-item' }, element('span', { class: 'word' }, 'warning'), ' ', w))]
  const table = element('table', { class: 'lines' }, element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'Field'), element('th', { scope: 'col' }, 'Set by'))), element('tbody', {}, ...rows))
  if (rows.length === 0) return [title, ...own, element('p', {}, shown === 'different' ? 'No field differs.' : 'No field was set by a layer.')]
  return [title, ...own, table]
}

function findings(answer, { go }) {
  if (findingsOf(answer).length === 0) return [element('p', {}, 'No rule and no policy has a finding.')]
  return [element('div', { class: 'columns' }, ...answer.platforms.map((p) => element('section', {},
    element('h3', {}, platformName(p, p.machines[0])),
    ...p.machines.flatMap((m) => [element('p', {}, element('strong', {}, objectName(m))), ...(m.explanation.findings.length ? m.explanation.findings.map((f) => findingElement(f, m, go)) : [element('p', {}, 'No finding.')])]),
  )))]
}

const statusItems = { passed: 'good-item', failed: 'deny-item', broken: 'deny-item', skipped: 'note-item' }

function tests(answer, { go }) {
  if (!answer.tests) return [element('p', {}, 'No file has a suite: an object of the kind Suite.')]
  const parts = []
  for (const u of answer.tests.unreadable ?? []) parts.push(element('div', { class: 'finding deny-item' }, element('span', { class: 'word' }, 'error'), ` ${u.file}${u.line ? `:${u.line}` : ''}: ${u.field ? `${u.field}: ` : ''}${u.message}`))
  for (const s of answer.tests.suites) {
    for (const t of s.tests) {
      const rows = t.cases.map((c) => {
        const place = element('button', { type: 'button', class: 'place' }, c.name)
        place.addEventListener('click', () => go({ file: s.file, line: c.line, column: 1 }))
        const why = [...(c.reasons ?? []), ...(c.notes ?? [])]
        const found = (c.findings ?? []).map((f) => element('div', { class: 'finding note-item' }, typeof f === 'string' ? f : `${f.field ?? ''}: ${f.message ?? ''} [${f.rule ?? ''}]`))
        return element('tr', {}, element('td', { class: statusItems[c.status] }, element('span', { class: 'word' }, c.status)), element('td', {}, place), element('td', {}, c.verdict ?? '', ...why.map((w) => element('div', {}, w)), ...found))
      })
      parts.push(element('h3', {}, `${s.name}: ${t.name}`), element('table', { class: 'cases' }, element('thead', {}, element('tr', {}, ...['Result', 'Case', 'Verdict'].map((h) => element('th', { scope: 'col' }, h)))), element('tbody', {}, ...rows)))
    }
  }
  for (const c of answer.tests.coverage ?? []) {
    const missing = (c.expressions ?? []).flatMap((e) => {
      const never = e.texts || e.field.endsWith('messageExpression') ? (e.texts ? [] : ['never made a message']) : [!e.true && 'never true', !e.false && 'never false'].filter(Boolean)
      return never.length ? [`${e.field}: ${never.join(', ')}`] : []
    })
    const lines = (c.lines ?? []).filter((l) => !l.reached).map((l) => `line ${l.line}`)
    if (lines.length) missing.push(`not evaluated: ${lines.join(', ')}`)
    parts.push(element('h3', {}, `Coverage of ${c.policy}`), missing.length ? element('ul', { class: 'plain' }, ...missing.map((t) => element('li', { class: 'finding warn-item' }, t))) : element('p', {}, 'The cases cover all expressions.'))
  }
  return parts
}

// trace shows what the policies do with each virtual machine, and in each case.
function trace(answer) {
  const columns = answer.platforms.map((p) => element('section', {}, element('h3', {}, platformName(p, p.machines[0])), ...p.machines.flatMap((m) => [
    element('p', {}, element('strong', {}, objectName(m))),
    ...(m.traces?.length ? m.traces.map((t) => policyTrace(t, true)) : [element('p', {}, 'There is no valid policy in the files.')]),
  ])))
  const cases = []
  for (const s of answer.tests?.suites ?? []) {
    for (const t of s.tests) for (const c of t.cases) if (c.traces?.length) cases.push(element('h4', {}, `${t.name} / ${c.name}: ${c.verdict ?? c.status}`), ...c.traces.map((one) => policyTrace(one, false)))
  }
  return [element('div', { class: 'columns' }, ...columns), ...(cases.length ? [element('h3', {}, 'Cases of the suites'), ...cases] : [])]
}

function policyTrace(t, open) {
  const title = element('summary', {}, element('code', {}, t.policy), t.evaluated ? '' : ' does not apply')
  const steps = (t.steps ?? []).map((s) => element('li', {}, element('div', { class: 'hint' }, s.field), valueLine(s), s.parts?.length ? element('ul', {}, ...s.parts.map((part) => element('li', {}, valueLine(part)))) : ''))
  return element('details', { open }, title, element('ul', { class: 'plain trace' }, ...steps), t.rego && element('pre', { class: 'rego', tabindex: '0' }, t.rego))
}

function valueLine(step) {
  const value = step.error ? element('span', { class: 'bad' }, `error: ${step.error}`) : element('code', { class: 'value' }, JSON.stringify(step.value))
  return element('div', {}, element('code', {}, step.expression ?? ''), ' = ', value)
}

const takesItems = { Live: 'good-item', LiveOnMigration: 'good-item', Restart: 'deny-item', NextStart: 'note-item', Blocked: 'warn-item', Never: 'deny-item' }
const takesWords = { Live: 'live', LiveOnMigration: 'by live migration', Restart: 'by a restart', NextStart: 'at the next start', Blocked: 'blocked', Never: 'never' }

// rollout shows what a change of the running version needs.
function rollout(answer, { state, take }) {
  const button = (text, before) => {
    const b = element('button', { type: 'button' }, text)
    b.addEventListener('click', () => take(before))
    return b
  }
  const buttons = element('div', { class: 'buttons' }, button('The present files run', true), state.before && button('Forget the version that runs', false))
  if (!state.before) return [element('p', {}, 'Take the present files as the version that runs, and then change them: here is what the change needs.'), buttons]
  const columns = answer.platforms.map((p) => element('section', {}, element('h3', {}, platformName(p, p.machines[0])),
    p.error && element('p', { class: 'finding deny-item' }, p.error),
    ...p.machines.filter((m) => m.plan).flatMap((m) => [element('p', {}, element('strong', {}, objectName(m))), ...plan(m.plan)])))
  return [buttons, element('p', {}, 'The plan is for an instance that was just started of this version, and can be migrated.'), element('div', { class: 'columns' }, ...columns)]
}

function plan(p) {
  if (p.missing) return [element('p', {}, `No plan: ${p.missing}.`)]
  if (p.changes.length === 0) return [element('p', {}, 'Nothing changes for the running virtual machine.')]
  const rows = p.changes.map((c) => element('tr', {},
    element('td', { class: takesItems[c.takes] }, element('span', { class: 'word' }, takesWords[c.takes] ?? c.takes)),
    element('td', {}, element('code', {}, c.field), c.layer && ' ', c.layer && element('span', { class: `layer ${layerClass(c.layer)}` }, c.layer), element('div', {}, `${c.old || '(none)'} → ${c.new || '(none)'}`),
      c.reason, c.wayOut && element('span', { class: 'remedy' }, c.wayOut), element('span', { class: 'hint' }, ` [${c.rule}]`))))
  const heads = element('tr', {}, ...['It changes', 'Field and reason'].map((h) => element('th', { scope: 'col' }, h)))
  return [element('table', { class: 'cases plan' }, element('thead', {}, heads), element('tbody', {}, ...rows)), p.omitted && element('p', {}, `${p.omitted} more changes are not shown.`)].filter(Boolean)
}

function notes(answer, { start }) {
  const all = new Set((start.notes ?? []).map((n) => `Cluster: ${n}`))
  for (const p of answer.platforms) {
    for (const n of [...p.notes, ...p.warnings, ...p.machines.flatMap((m) => m.explanation.notes)]) all.add(n)
    for (const m of p.machines) all.add(`Facts: ${m.explanation.facts.source}`)
  }
  return all.size === 0 ? [element('p', {}, 'None.')] : [element('ul', { class: 'plain' }, ...[...all].map((n) => element('li', { class: 'finding note-item' }, n)))]
}
