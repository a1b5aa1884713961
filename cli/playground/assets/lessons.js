// The lessons: a text, files to begin with, and requirements that the answers check.
import { element } from './element.js'

const stored = 'virtward-playground-solved'
const $ = (id) => document.getElementById(id)

// solved are the names of the lessons that were solved in this browser.
function solved() {
  try {
    return new Set(JSON.parse(localStorage.getItem(stored)) ?? [])
  } catch {
    return new Set()
  }
}

function remember(name) {
  try {
    localStorage.setItem(stored, JSON.stringify([...solved().add(name)]))
  } catch {
    // the browser keeps nothing
  }
}

// paragraph makes an element of a text with code in backquotes.
function paragraph(text) {
  return element('p', {}, ...text.split('`').map((part, i) => (i % 2 ? element('code', {}, part) : part)))
}

// fillLessons fills the choice of lessons. choose gets the name of the lesson that was chosen, or ''.
export function fillLessons(lessons, choose) {
  const after = (name) => lessons[lessons.findIndex((l) => l.name === name) + 1]
  $('lessons').addEventListener('change', (e) => choose(e.target.value))
  $('lesson-next').addEventListener('click', () => {
    choose(after($('lessons').value).name)
    $('lesson').focus()
  })
  $('lesson-again').addEventListener('click', () => choose($('lessons').value))
  $('lesson-leave').addEventListener('click', () => {
    choose('')
    $('lessons').focus()
  })
}

// showLesson shows the lesson with a name, and whether the files solve it. Without the name, it shows none.
export function showLesson(lessons, name, answer) {
  if (answer?.solved) remember(name)
  const done = solved()
  $('lessons').replaceChildren(element('option', { value: '' }, 'Choose …'), ...lessons.map((l, i) => element('option', { value: l.name, selected: l.name === name }, `${i + 1}. ${l.title}${done.has(l.name) ? ' ✓' : ''}`)))
  $('lessons').value = name
  const at = lessons.findIndex((l) => l.name === name)
  $('lesson').hidden = at < 0
  if (at < 0) return
  const lesson = lessons[at]
  if ($('lesson').dataset.name !== name) {
    $('lesson').dataset.name = name
    $('lesson-hint').open = false
    $('lesson-title').textContent = `Lesson ${at + 1} of ${lessons.length}: ${lesson.title}`
    $('lesson-text').replaceChildren(...lesson.text.map(paragraph))
    $('lesson-hint').querySelector('div').replaceChildren(...lesson.hint.map(paragraph))
  }
  $('lesson-next').disabled = at === lessons.length - 1
  $('lesson').classList.toggle('solved', Boolean(answer?.solved))
  if (!answer) {
    $('lesson-state').textContent = ''
    $('requirements').replaceChildren()
    return
  }
  const count = answer.passed.length + answer.missing.length
  $('lesson-state').textContent = answer.solved ? 'Solved' : `${answer.passed.length} of ${count} requirements are met`
  $('requirements').replaceChildren(
    ...answer.missing.map((m) => element('li', { class: 'deny-item' }, element('span', { class: 'word' }, 'missing'), ` ${m.requirement}`, ...(m.reasons ?? []).map((r) => element('span', { class: 'remedy' }, r)))),
    ...answer.passed.map((p) => element('li', { class: 'good-item' }, element('span', { class: 'word' }, 'met'), ` ${p}`)),
  )
}
