// The client's own addresses, https://api.DOMAIN and https://PORT-ID.DOMAIN, with nothing set but the domain and the key. Names below it lead to
// this machine, as a wildcard record does; the certificate's authority is Node's by NODE_EXTRA_CA_CERTS.
import assert from 'node:assert/strict'
import dns from 'node:dns'
import https from 'node:https'
import { Sandbox } from 'e2b'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'
import { check, finish, until, withSandbox } from './check.mjs'

const domain = process.env.E2B_DOMAIN
const below = '.' + domain.replace(/:.*/, '')
const lookup = dns.lookup
dns.lookup = (name, options, done) => {
  if (!name.endsWith(below)) return lookup(name, options, done)
  if (typeof options === 'function') return options(null, '127.0.0.1', 4)
  return options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)
}

await withSandbox(Sandbox, 'base', { network: { allowPublicTraffic: true } }, async (sandbox) => {
  await check('the domain of answers', async () => {
    assert.equal(sandbox.sandboxDomain, domain)
    assert.equal(sandbox.getHost(3000), `3000-${sandbox.sandboxId}.${domain}`)
  })
  await check('a command', async () => {
    assert.equal((await sandbox.commands.run('echo through TLS')).stdout, 'through TLS\n')
  })
  await check('files', async () => {
    const data = 'x'.repeat(3_000_000)
    await sandbox.files.write('large', data)
    assert.equal(await sandbox.files.read('large'), data)
  })
  await check('a port by its own address', async () => {
    await sandbox.commands.run('cd /tmp && echo from inside > page && python3 -m http.server 3000', { background: true, timeoutMs: 0 })
    const url = `https://${sandbox.getHost(3000)}/page`
    const answer = await until('the server inside', async () => {
      const got = await fetch(url)
      return got.status === 200 && got
    })
    assert.equal(await answer.text(), 'from inside\n')
  })
  await check('a list', async () => {
    const found = await Sandbox.list().nextItems()
    assert.ok(found.some((s) => s.sandboxId === sandbox.sandboxId))
  })
})

// A handshake as the protocol has it; behind it bytes go both ways, which is all that a proxy can see of it.
const echo = `
import base64, hashlib, socket
server = socket.create_server(("127.0.0.1", 3001))
while True:
    c, _ = server.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head: head += c.recv(4096)
    key = [l.split(b": ")[1] for l in head.split(b"\\r\\n") if l.lower().startswith(b"sec-websocket-key")][0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\n")
    while data := c.recv(65536): c.sendall(data)
`
await withSandbox(Interpreter, undefined, { network: { allowPublicTraffic: true } }, async (sandbox) => {
  await check('cells', async () => {
    const told = await sandbox.runCode('print("through TLS"); 6 * 7')
    assert.deepEqual([told.text, told.logs.stdout.join('')], ['42', 'through TLS\n'])
  })
  await check('a WebSocket by its own address', async () => {
    await sandbox.files.write('/tmp/echo.py', echo)
    await sandbox.commands.run('python3 /tmp/echo.py', { background: true, timeoutMs: 0 })
    const heard = await until('the server inside', () => new Promise((resolve) => {
      const request = https.request(`https://${sandbox.getHost(3001)}/`, {
        headers: { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' } })
      request.on('error', () => resolve(null))
      request.on('response', (response) => { response.resume(); resolve(null) })
      request.on('upgrade', (response, socket) => {
        socket.once('data', (data) => { socket.destroy(); resolve([response.headers['sec-websocket-accept'], String(data)]) })
        socket.write('frame')
      })
      request.end()
    }))
    assert.deepEqual(heard, ['s3pPLMBiTxaQ9kYGzzhZRbK+xOo=', 'frame'])
  })
})

finish()
