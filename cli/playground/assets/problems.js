// What is wrong in the files, at their lines.

const severities = { Deny: 'deny', Warn: 'warn', Audit: 'note' }

// platformName returns the name of a column.
export function platformName(explained, machine) {
  const hypervisor = machine?.explanation.hypervisor ?? (explained.platform.hypervisor || 'of the cluster')
  const architecture = machine?.explanation.architecture ?? explained.platform.architecture
  return architecture ? `${hypervisor}/${architecture}` : hypervisor
}

// problemsOf returns the problems of all files: findings of virtual machines, documents that cannot be read, problems of policies
// and cases that do not pass. A finding of several platforms is there once.
export function problemsOf(answer) {
  const all = []
  const merged = new Map()
  const add = (p, platform) => {
    const key = JSON.stringify([p.file, p.line, p.severity, p.text])
    const known = merged.get(key)
    if (known) {
      if (platform) known.platforms.push(platform)
      return
    }
    p.platforms = platform ? [platform] : []
    merged.set(key, p)
    all.push(p)
  }
  for (const explained of answer.platforms) {
    const name = platformName(explained, explained.machines[0])
    if (explained.error) add({ file: '', line: 0, severity: 'deny', text: explained.error }, name)
    for (const m of explained.machines) {
      for (const f of m.explanation.findings) {
        const severity = f.exempted ? 'note' : severities[f.severity] ?? 'warn'
        add({ file: m.file, line: f.line ?? 0, column: f.column, severity, text: `${f.field}: ${f.message} [${f.rule}]`, remedy: f.remedy }, name)
      }
      for (const u of m.explanation.unknown ?? []) add({ file: m.file, line: 0, severity: 'warn', text: `${u} is not in the files` }, name)
    }
    for (const u of explained.unreadable) add({ file: u.file ?? '', line: u.line ?? 0, column: u.column, severity: 'deny', text: u.message }, name)
  }
  const unreadable = new Set(all.filter((p) => p.severity === 'deny').map((p) => `${p.file}:${p.line}`))
  for (const p of answer.problems) {
    const severity = p.warning ? 'warn' : 'deny'
    if (severity === 'deny' && unreadable.has(`${p.file}:${p.line ?? 0}`)) continue // explain has it too
    add({ file: p.file, line: p.line ?? 0, column: p.column, severity, text: (p.field ? `${p.field}: ` : '') + p.message + (p.rule ? ` [${p.rule}]` : '') })
  }
  for (const s of answer.tests?.suites ?? []) {
    for (const t of s.tests) {
      for (const c of t.cases) {
        if (c.status !== 'failed' && c.status !== 'broken') continue
        add({ file: s.file, line: c.line, column: 1, severity: 'deny', text: `${t.name} / ${c.name} ${c.status}: ${(c.reasons ?? []).join('; ')}` })
      }
    }
  }
  for (const p of all) {
    if (p.platforms.length > 0 && p.platforms.length < answer.platforms.length) p.on = `on ${p.platforms.join(', ')}`
  }
  const order = { deny: 0, warn: 1, note: 2 }
  return all.sort((a, b) => order[a.severity] - order[b.severity] || a.file.localeCompare(b.file) || a.line - b.line)
}
