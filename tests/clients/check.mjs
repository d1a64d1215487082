// A script is a list of checks. Each says what must hold; the first failure of each is printed, and the exit status
// says whether there was one.
import assert from 'node:assert/strict'

let failed = 0
const only = process.env.ONLY

export async function check(name, fn) {
  if (only && !name.includes(only)) return
  try {
    await fn()
    console.log(`ok ${name}`)
  } catch (error) {
    failed++
    console.log(`FAILED ${name}: ${error?.stack ?? error}`)
  }
}

export async function rejects(promise, test) {
  try {
    await promise
  } catch (error) {
    test?.(error)
    return error
  }
  assert.fail('it did not fail')
}

export async function until(what, fn, seconds = 120) {
  const end = Date.now() + seconds * 1000
  for (;;) {
    const value = await fn()
    if (value) return value
    assert.ok(Date.now() < end, `${what}: not within ${seconds} s`)
    await new Promise((done) => setTimeout(done, 30))
  }
}

export function sleep(ms) {
  return new Promise((done) => setTimeout(done, ms))
}

// A sandbox for the checks of a script; ends with it.
export async function withSandbox(Sandbox, template, opts, fn) {
  const sandbox = await (template ? Sandbox.create(template, opts) : Sandbox.create(opts))
  try {
    await fn(sandbox)
  } finally {
    await sandbox.kill().catch(() => {})
  }
}

export function finish() {
  process.exit(failed ? 1 : 0)
}
