// A text area with line numbers, marks at lines, and colours for YAML. Only the visible lines are drawn.
import { element } from './element.js'

const lineHeight = 20
const maxDrawn = 2000 // characters of a line

export class Editor {
  // onChange is called with the text after each change, and onLarge if a text that is pasted has no place.
  constructor(parent, maxLength, onChange, onLarge) {
    this.numbers = element('div')
    this.colours = element('pre', { 'aria-hidden': 'true' })
    this.input = element('textarea', { spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', wrap: 'off', maxlength: maxLength, 'aria-describedby': 'problems-title' })
    this.gutter = element('div', { class: 'gutter', 'aria-hidden': 'true' }, this.numbers)
    const area = element('div', { class: 'area' }, this.colours, this.input)
    parent.append(element('div', { class: 'editor' }, this.gutter, area))
    this.marks = new Map()
    this.lines = ['']
    this.input.addEventListener('input', () => { this.read(); onChange(this.input.value) })
    this.input.addEventListener('paste', (e) => { // browsers need minutes to cut a text of many lines to the length
      const { value, selectionStart, selectionEnd } = this.input
      if (value.length - (selectionEnd - selectionStart) + (e.clipboardData?.getData('text/plain').length ?? 0) <= maxLength) return
      e.preventDefault()
      onLarge()
    })
    this.input.addEventListener('scroll', () => this.draw())
    this.input.addEventListener('keydown', (e) => this.key(e))
    new ResizeObserver(() => this.draw()).observe(this.input)
  }

  // show shows a text, which a label names.
  show(text, label) {
    this.input.setAttribute('aria-label', label)
    if (this.input.value !== text) {
      this.input.value = text
      this.input.scrollTop = 0
    }
    this.read()
  }

  read() {
    this.lines = this.input.value.split('\n')
    this.draw()
  }

  // mark marks lines: problems have a line, a severity and a text.
  mark(problems) {
    this.marks = new Map()
    for (const p of problems) {
      const known = this.marks.get(p.line)
      this.marks.set(p.line, { severity: known?.severity === 'deny' ? 'deny' : p.severity, text: known ? known.text + '\n' + p.text : p.text })
    }
    this.draw()
  }

  draw() {
    const top = this.input.scrollTop
    const first = Math.max(0, Math.floor(top / lineHeight) - 2)
    const last = Math.min(this.lines.length, first + Math.ceil(this.input.clientHeight / lineHeight) + 6)
    const numbers = []
    const rows = []
    for (let i = first; i < last; i++) {
      const mark = this.marks.get(i + 1)
      const number = element('span', mark ? { class: mark.severity, title: mark.text } : {}, (mark ? (mark.severity === 'deny' ? '✖ ' : '⚠ ') : '') + (i + 1))
      const row = element('span', { class: 'row' + (mark ? ' ' + mark.severity : '') }, ...colours(this.lines[i]))
      numbers.push(number)
      rows.push(row)
    }
    this.numbers.replaceChildren(...numbers)
    this.colours.replaceChildren(...rows)
    const y = first * lineHeight - top
    this.numbers.style.transform = `translateY(${y}px)`
    this.colours.style.transform = `translate(${-this.input.scrollLeft}px, ${y}px)`
  }

  key(e) {
    if (e.key === 'Enter' && !e.ctrlKey && !e.metaKey && !e.altKey && !e.isComposing) {
      const at = this.input.selectionStart
      const line = this.input.value.slice(0, at).split('\n').pop()
      const indent = line.match(/^ */)[0] + (/^\s*- /.test(line) && line.trimEnd().endsWith(':') ? '  ' : '') + (line.trimEnd().endsWith(':') ? '  ' : '')
      e.preventDefault()
      document.execCommand('insertText', false, '\n' + indent) // it keeps the history of undo
    }
  }

  // go moves the cursor to a line and a column.
  go(line, column) {
    let at = 0
    for (let i = 0; i < line - 1 && i < this.lines.length; i++) at += this.lines[i].length + 1
    const end = at + (this.lines[line - 1] ?? '').length
    this.input.focus()
    this.input.setSelectionRange(Math.min(end, at + Math.max(0, column - 1)), end)
    this.input.scrollTop = Math.max(0, (line - 4) * lineHeight)
    this.input.scrollLeft = 0
    this.draw()
  }

  get line() { return this.input.value.slice(0, this.input.selectionStart).split('\n').length }
}

// colours returns the parts of a line of YAML.
function colours(line) {
  if (line.length > maxDrawn) return [line.slice(0, maxDrawn)]
  const parts = []
  const found = /^(\s*(?:- )*)(["']?[\w./$-]+["']?)(:)(?=\s|$)/.exec(line)
  let rest = line
  if (found) {
    parts.push(found[1], element('span', { class: 'key' }, found[2]), found[3])
    rest = line.slice(found[0].length)
  }
  const comment = /(^|\s)#.*$/.exec(rest)
  if (comment && !/["'][^"']*#[^"']*["']/.test(rest)) {
    const at = comment.index + comment[1].length
    parts.push(...values(rest.slice(0, at)), element('span', { class: 'comment' }, rest.slice(at)))
  } else {
    parts.push(...values(rest))
  }
  return parts
}

function values(text) {
  const quoted = /^(\s*)("(?:[^"\\]|\\.)*"|'[^']*')(\s*)$/.exec(text)
  return quoted ? [quoted[1], element('span', { class: 'string' }, quoted[2]), quoted[3]] : [text]
}
