// Evaluates the first example with the evaluator of a folder, and writes start.json: the page shows this result while the evaluator is
// loaded. The question is the page's: the same text has the same answer.
import fs from 'node:fs'
import path from 'node:path'
import { webcrypto } from 'node:crypto'
import { pathToFileURL } from 'node:url'

const [, , folder, evaluator] = process.argv
globalThis.crypto ??= webcrypto
await import(pathToFileURL(path.resolve(folder, 'wasm_exec.js')))
const go = new globalThis.Go()
const ready = new Promise((resolve) => { globalThis.virtwardReady = resolve })
const { instance } = await WebAssembly.instantiate(fs.readFileSync(evaluator), go.importObject)
go.run(instance)
await ready
const start = JSON.parse(globalThis.virtwardStart())
const question = JSON.stringify({ files: start.files, platforms: [{ hypervisor: '', architecture: '' }], kubeVirtVersion: '', trace: false, values: {}, lesson: '' })
const answer = JSON.parse(await new Promise((resolve) => globalThis.virtwardAnswer(question, resolve)))
if (answer.error) throw new Error(answer.error)
fs.writeFileSync(path.join(folder, 'start.json'), JSON.stringify({ start, question, answer }))
process.exit()
