// What a user serves inside: reached by the name that getHost gives, and by headers.
import assert from 'node:assert/strict'
import http from 'node:http'
import { createHash, randomBytes } from 'node:crypto'
import { Sandbox } from 'e2b'
import { check, finish, rejects, until, withSandbox } from './check.mjs'

const origin = new URL(process.env.E2B_API_URL)

// As a browser does it: the name in Host, the socket to the daemon.
function ask(host, { method = 'GET', path = '/', headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host: origin.hostname, port: origin.port, method, path, headers: { Host: host, ...headers } }, (response) => {
      const pieces = []
      response.on('data', (piece) => pieces.push(piece))
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(pieces) }))
      response.on('error', reject)
    })
    request.on('error', reject)
    if (body) for (const piece of [].concat(body)) request.write(piece)
    request.end()
  })
}

const server = `
import http.server, hashlib, json, socketserver, base64, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket": return self.ws()
        if self.path == "/none":
            self.send_response(204); self.end_headers(); return
        if self.path == "/chunked":
            self.send_response(200); self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
            for i in range(3): self.wfile.write(b"4\\r\\npart\\r\\n")
            self.wfile.write(b"0\\r\\n\\r\\n"); return
        if self.path == "/close":
            self.send_response(200); self.send_header("Connection", "close"); self.end_headers()
            self.wfile.write(b"until the end"); self.close_connection = True; return
        if self.path == "/large":
            data = b"z" * 5000000
            self.send_response(200); self.send_header("Content-Length", str(len(data))); self.end_headers()
            self.wfile.write(data); return
        data = json.dumps({"path": self.path, "headers": dict(self.headers)}).encode()
        self.send_response(200); self.send_header("X-Own", "yes"); self.send_header("Set-Cookie", "a=1"); self.send_header("Set-Cookie", "b=2")
        self.send_header("Content-Type", "application/json"); self.send_header("Content-Length", str(len(data))); self.end_headers()
        self.wfile.write(data)
    do_HEAD = do_GET
    def do_POST(self):
        h = hashlib.sha256(); n = 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while True:
                size = int(self.rfile.readline(), 16)
                data = self.rfile.read(size); self.rfile.readline()
                if not size: break
                h.update(data); n += size
        else:
            n = left = int(self.headers["Content-Length"])
            while left: # slower than it comes
                data = self.rfile.read(min(left, 30000)); h.update(data); left -= len(data); time.sleep(0.002)
        data = ("%s %d" % (h.hexdigest(), n)).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(data))); self.end_headers(); self.wfile.write(data)
    def ws(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101); self.send_header("Upgrade", "websocket"); self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()); self.end_headers()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8: break
            size = head[1] & 127
            if size == 126: size = int.from_bytes(self.rfile.read(2), "big")
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
            answer = b"echo:" + data
            self.wfile.write(bytes([0x81, len(answer)]) + answer if len(answer) < 126 else bytes([0x81, 126]) + len(answer).to_bytes(2, "big") + answer)
            self.wfile.flush()
        self.close_connection = True
class S(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
S(("127.0.0.1", 3000), H).serve_forever()
`

function frame(text) {
  const data = Buffer.from(text)
  const mask = randomBytes(4)
  return Buffer.concat([Buffer.from([0x81, 0x80 | data.length]), mask, Buffer.from(data.map((b, i) => b ^ mask[i % 4]))])
}

await withSandbox(Sandbox, 'base', { timeoutMs: 600_000 }, async (sandbox) => {
  await sandbox.files.write('/tmp/server.py', server)
  await sandbox.commands.run('python3 /tmp/server.py', { background: true, timeoutMs: 0 })
  const host = sandbox.getHost(3000)
  const headers = { 'E2B-Traffic-Access-Token': sandbox.trafficAccessToken }
  await until('the server inside', async () => (await ask(host, { headers })).status === 200)

  await check('the name of a port', () => {
    assert.match(host, new RegExp(`^3000-${sandbox.sandboxId}\\.`))
  })

  await check('a request reaches the server, and no secret does', async () => {
    const { status, headers: got, body } = await ask(host, { path: '/a%20b?c=d&e', headers: { ...headers, 'X-Mine': '1', Authorization: 'Bearer theirs' } })
    assert.equal(status, 200)
    assert.equal(got['x-own'], 'yes')
    assert.deepEqual(got['set-cookie'], ['a=1', 'b=2'])
    assert.equal(got['content-type'], 'application/json')
    const seen = JSON.parse(body)
    assert.equal(seen.path, '/a%20b?c=d&e')
    assert.equal(seen.headers['X-Mine'], '1')
    assert.equal(seen.headers.Authorization, 'Bearer theirs')
    assert.equal(seen.headers.Host, host)
    assert.ok(!body.toString().includes(sandbox.trafficAccessToken))
    for (const secret of [{ 'X-API-KEY': process.env.E2B_API_KEY }, { Authorization: `Bearer ${process.env.E2B_API_KEY}` }, { 'X-Access-Token': sandbox.envdAccessToken }]) {
      const answer = await ask(host, { headers: secret })
      assert.equal(answer.status, 200)
      for (const value of Object.values(secret)) assert.ok(!answer.body.toString().includes(value.replace('Bearer ', '')), 'a secret got in')
    }
  })

  await check('by headers instead of a name', async () => {
    const answer = await fetch(`${origin.origin}/by-header`, {
      headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '3000', ...headers },
    })
    assert.equal((await answer.json()).path, '/by-header')
    // The same connection is still the daemon's own.
    const info = await fetch(`${origin.origin}/sandboxes/${sandbox.sandboxId}`, { headers: { 'X-API-KEY': process.env.E2B_API_KEY } })
    assert.equal((await info.json()).sandboxID, sandbox.sandboxId)
  })

  await check('nobody without a token', async () => {
    const said = async (headers) => {
      const { status, headers: got, body } = await ask(host, { headers })
      assert.equal(status, 403)
      assert.equal(got['content-type'], 'application/json; charset=utf-8')
      const told = JSON.parse(body)
      assert.deepEqual([told.sandboxId, told.code, told.port], [sandbox.sandboxId, 403, 3000])
      return told.message
    }
    assert.match(await said({}), /e2b-traffic-access-token.* missing/)
    assert.match(await said({ 'E2B-Traffic-Access-Token': 'x'.repeat(43) }), /e2b-traffic-access-token.* invalid/)
    await said({ 'X-API-KEY': 'brig_' + 'x'.repeat(43) })
    const open = await fetch(`${origin.origin}/`, { headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '3000' } })
    assert.equal(open.status, 403)
  })

  await check('the Host that a service sees', async () => {
    const masked = await Sandbox.create('base', { network: { allowPublicTraffic: true, maskRequestHost: 'localhost:${PORT}' } })
    await masked.files.write('/tmp/server.py', server)
    await masked.commands.run('python3 /tmp/server.py', { background: true, timeoutMs: 0 })
    const name = masked.getHost(3000)
    await until('the server inside', async () => (await ask(name)).status === 200)
    const seen = JSON.parse((await ask(name, { headers: { 'X-Forwarded-Host': 'forged' } })).body).headers
    assert.equal(seen.Host, 'localhost:3000')
    assert.equal(seen['X-Forwarded-Host'], name)
    assert.equal((await masked.getInfo()).network.maskRequestHost, 'localhost:${PORT}')
    await masked.kill()
    for (const bad of ['a b', 'a\r\nX: y', 'http://a/', '${PORT', '', 'x'.repeat(200)])
      await rejects(Sandbox.create('base', { network: { maskRequestHost: bad } }), (e) => assert.match(e.message, /400/))
  })

  await check('nobody needs a token where the owner said so', async () => {
    const open = await Sandbox.create('base', { network: { allowPublicTraffic: true } })
    await open.commands.run('python3 -m http.server 3000', { background: true, timeoutMs: 0 })
    await until('anybody reaches it', async () => (await ask(open.getHost(3000))).status === 200)
    assert.equal((await ask(open.getHost(49983), { path: '/files?path=/etc/passwd' })).status, 401)
    assert.equal((await ask(open.getHost(49999), { path: '/contexts' })).status, 401)
    assert.equal((await open.getInfo()).network.allowPublicTraffic, true)
    await open.kill()
  })

  await check('every kind of body', async () => {
    assert.equal((await ask(host, { headers, path: '/none' })).status, 204)
    assert.equal((await ask(host, { headers, path: '/chunked' })).body.toString(), 'partpartpart')
    assert.equal((await ask(host, { headers, path: '/close' })).body.toString(), 'until the end')
    assert.equal((await ask(host, { headers, path: '/large' })).body.length, 5_000_000)
    assert.equal((await ask(host, { headers, method: 'HEAD', path: '/large' })).headers['content-length'], '5000000')
    const data = randomBytes(3_000_000)
    const expected = `${createHash('sha256').update(data).digest('hex')} ${data.length}`
    const whole = await ask(host, { method: 'POST', headers: { ...headers, 'Content-Length': data.length }, body: data })
    assert.equal(whole.body.toString(), expected)
    const pieces = [data.subarray(0, 1_000_000), data.subarray(1_000_000)]
    const chunked = await ask(host, { method: 'POST', headers: { ...headers, 'Transfer-Encoding': 'chunked' }, body: pieces })
    assert.equal(chunked.body.toString(), expected)
  })

  await check('a port where nobody listens', async () => {
    const { status, body } = await ask(sandbox.getHost(3999), { headers })
    assert.equal(status, 502)
    assert.deepEqual(JSON.parse(body), { sandboxId: sandbox.sandboxId, message: 'The sandbox is running but port is not open', port: 3999, code: 502 })
  })

  await check('a WebSocket', async () => {
    await new Promise((resolve, reject) => {
      const request = http.request({
        host: origin.hostname, port: origin.port, path: '/ws',
        headers: { Host: host, ...headers, Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': randomBytes(16).toString('base64') },
      })
      request.on('error', reject)
      request.on('response', (r) => reject(new Error(`status ${r.statusCode}`)))
      request.on('upgrade', (response, socket) => {
        let seen = Buffer.alloc(0)
        assert.equal(response.statusCode, 101)
        socket.on('error', reject)
        socket.on('data', (data) => {
          seen = Buffer.concat([seen, data])
          if (seen.includes('echo:two')) socket.end(Buffer.from([0x88, 0x80, 1, 2, 3, 4]))
          else if (seen.includes('echo:one')) socket.write(frame('two'))
        })
        socket.on('close', () => (seen.includes('echo:two') ? resolve() : reject(new Error('closed early'))))
        socket.write(frame('one'))
      })
      request.end()
    })
  })

  await check('a sandbox that has ended', async () => {
    const other = await Sandbox.create('base')
    const name = other.getHost(3000)
    await other.kill()
    const { status, body } = await ask(name, { headers })
    assert.equal(status, 502)
    assert.deepEqual(JSON.parse(body), { sandboxId: other.sandboxId, message: 'The sandbox was not found', port: 3000, code: 502 })
  })
})

finish()
