import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { Sandbox } from 'e2b'
import { check, finish, rejects, until, withSandbox } from './check.mjs'

const hash = (data) => createHash('sha256').update(data).digest('hex')

await withSandbox(Sandbox, 'base', { timeoutMs: 600_000 }, async (sandbox) => {
  const files = sandbox.files

  await check('write and read', async () => {
    const info = await files.write('notes/a.txt', 'héllo\n')
    assert.equal(info.path, '/home/user/notes/a.txt')
    assert.equal(info.name, 'a.txt')
    assert.equal(info.type, 'file')
    assert.equal(await files.read('notes/a.txt'), 'héllo\n')
    assert.equal(await files.read('/home/user/notes/a.txt'), 'héllo\n')
    assert.equal((await sandbox.commands.run('cat notes/a.txt')).stdout, 'héllo\n')
    await files.write('notes/a.txt', 'shorter')
    assert.equal(await files.read('notes/a.txt'), 'shorter')
  })

  await check('the home folder by its sign', async () => {
    assert.equal((await files.write('~/by/sign', 'x')).path, '/home/user/by/sign')
    assert.equal(await files.read('/home/user/by/sign'), 'x')
    assert.equal((await files.getInfo('~//by')).path, '/home/user/by')
    assert.ok((await files.list('~')).some((e) => e.path === '/home/user/by'))
    assert.equal((await files.rename('~/by/sign', '~/moved')).path, '/home/user/moved')
    assert.equal((await files.write('~name', 'y')).path, '/home/user/~name')
    assert.equal((await sandbox.commands.run('cat ./~name; rm -r by moved ./~name; ls -A')).stdout.trim(), 'ynotes')
  })

  await check('nothing in it', async () => {
    await files.write('empty', '')
    assert.equal(await files.read('empty'), '')
    assert.equal((await files.read('empty', { format: 'bytes' })).length, 0)
  })

  await check('bytes, blobs, streams', async () => {
    const data = randomBytes(300_000)
    await files.write('bytes', data.buffer.slice(data.byteOffset, data.byteOffset + data.length))
    assert.equal(hash(await files.read('bytes', { format: 'bytes' })), hash(data))
    const blob = await files.read('bytes', { format: 'blob' })
    assert.equal(hash(Buffer.from(await blob.arrayBuffer())), hash(data))
    const stream = await files.read('bytes', { format: 'stream' })
    const pieces = []
    for await (const piece of stream) pieces.push(piece)
    assert.equal(hash(Buffer.concat(pieces)), hash(data))
    await files.write('streamed', new Blob([data]).stream())
    assert.equal(hash(await files.read('streamed', { format: 'bytes' })), hash(data))
    await files.write('octets', new Blob([data]), { useOctetStream: true })
    assert.equal(hash(await files.read('octets', { format: 'bytes' })), hash(data))
  })

  await check('packed on the way', async () => {
    const data = Buffer.concat([randomBytes(200_000), Buffer.alloc(5 << 20, 'brig')])
    await files.write('packed', new Blob([data]), { gzip: true })
    assert.equal(hash(await files.read('packed', { format: 'bytes', gzip: true })), hash(data))
  })

  await check('many files in one request, with odd names', async () => {
    const names = ['many/one', 'many/two three', 'many/d/é😀', 'many/"q"', "many/it's", 'many/50%', 'many/back\\slash']
    const written = await files.write(names.map((path, i) => ({ path, data: `file ${i}` })))
    assert.deepEqual(written.map((f) => f.path), names.map((n) => `/home/user/${n}`))
    for (const [i, name] of names.entries()) assert.equal(await files.read(name), `file ${i}`)
  })

  await check('sixty-four megabytes', async () => {
    const data = Buffer.alloc(64 << 20, randomBytes(4093))
    await files.write('/tmp/large', new Blob([data]), { requestTimeoutMs: 120_000 })
    const { stdout } = await sandbox.commands.run('sha256sum < /tmp/large', { timeoutMs: 0 })
    assert.equal(stdout.split(' ')[0], hash(data))
    const stream = await files.read('/tmp/large', { format: 'stream' })
    const sum = createHash('sha256')
    for await (const piece of stream) sum.update(piece)
    assert.equal(sum.digest('hex'), hash(data))
    await files.remove('/tmp/large')
  })

  await check('metadata of a file', async () => {
    const info = await files.write('meta', 'x', { metadata: { author: 'me', Kind: 'a b' } })
    assert.deepEqual(info.metadata, { author: 'me', kind: 'a b' })
    assert.deepEqual((await files.getInfo('meta')).metadata, { author: 'me', kind: 'a b' })
    await files.write('meta', 'y')
    assert.equal((await files.getInfo('meta')).metadata, undefined)
  })

  await check('list, depth, kinds', async () => {
    await sandbox.commands.run('mkdir -p tree/a/b; echo 1 > tree/f; echo 22 > tree/a/g; ln -s f tree/link; chmod 640 tree/f')
    const top = await files.list('tree')
    assert.deepEqual(top.map((e) => [e.name, e.type]), [['a', 'dir'], ['f', 'file'], ['link', 'file']])
    const f = top.find((e) => e.name === 'f')
    assert.equal(f.path, '/home/user/tree/f')
    assert.equal(f.size, 2)
    assert.equal(f.permissions, '-rw-r-----')
    assert.equal(f.mode & 0o777, 0o640)
    assert.equal(f.owner, 'user')
    assert.ok(Math.abs(f.modifiedTime - Date.now()) < 300_000)
    const link = top.find((e) => e.name === 'link')
    assert.equal(link.symlinkTarget, '/home/user/tree/f')
    assert.equal(link.mode & 0o777, 0o640)
    assert.equal(link.permissions, 'Lrwxrwxrwx')
    const deep = await files.list('tree', { depth: 3 })
    assert.deepEqual(deep.map((e) => e.path.replace('/home/user/tree/', '')), ['a', 'a/b', 'a/g', 'f', 'link'])
    await rejects(files.list('tree/nothing'), (e) => assert.equal(e.name, 'FileNotFoundError'))
    await rejects(files.list('tree/f'))
  })

  await check('folders: make, exists, rename, remove', async () => {
    assert.equal(await files.makeDir('d/e/f'), true)
    assert.equal(await files.makeDir('d/e/f'), false)
    assert.equal(await files.exists('d/e/f'), true)
    await files.write('d/plain', 'x')
    await rejects(files.makeDir('d/plain'), (e) => assert.equal(e.name, 'InvalidArgumentError'))
    await files.write('d/e/f/file', 'x')
    const moved = await files.rename('d/e', 'd/moved')
    assert.equal(moved.path, '/home/user/d/moved')
    assert.equal(moved.type, 'dir')
    assert.equal(await files.read('d/moved/f/file'), 'x')
    assert.equal(await files.exists('d/e'), false)
    await files.remove('d')
    assert.equal(await files.exists('d'), false)
    await files.remove('d') // what is not there is removed
    await files.remove('nowhere/at/all')
    await rejects(files.remove('notes/a.txt/below'))
    await rejects(files.rename('nothing', 'else'), (e) => assert.equal(e.name, 'FileNotFoundError'))
  })

  await check('rename from /tmp, which is another file system', async () => {
    await files.write('/tmp/page.part', 'x'.repeat(100000))
    assert.equal((await files.rename('/tmp/page.part', 'page')).path, '/home/user/page')
    assert.equal((await files.read('page')).length, 100000)
    assert.equal(await files.exists('/tmp/page.part'), false)
    await files.write('/tmp/folder/f', 'x')
    await rejects(files.rename('/tmp/folder', 'folder'), (e) => assert.match(e.message, /mv/))
    assert.equal(await files.exists('/tmp/folder/f'), true)
    await files.remove('page')
    await files.remove('/tmp/folder')
  })

  await check('what cannot be read or written', async () => {
    await rejects(files.read('nothing'), (e) => assert.equal(e.name, 'FileNotFoundError'))
    await rejects(files.read('/tmp'), (e) => assert.equal(e.name, 'InvalidArgumentError'))
    await rejects(files.write('/usr/x', 'x'))
    await rejects(files.read('/proc/1/environ'))
    await sandbox.commands.run('mkfifo /tmp/fifo; ln -s /proc/self/root/etc/shadow magic')
    const begin = Date.now()
    await rejects(files.read('/tmp/fifo'))
    await rejects(files.read('magic'))
    assert.ok(Date.now() - begin < 120_000, 'special files hold nobody up')
  })

  await check('signed addresses', async () => {
    const up = await sandbox.uploadUrl('signed/up.txt', { useSignatureExpiration: 60 })
    const form = new FormData()
    form.append('file', new Blob(['by address']), 'ignored')
    assert.equal((await fetch(up, { method: 'POST', body: form })).status, 200)
    assert.equal(await files.read('signed/up.txt'), 'by address')
    const down = await sandbox.downloadUrl('signed/up.txt')
    assert.equal(await (await fetch(down)).text(), 'by address')
    // Another path, another direction, no signature, an old one: nobody.
    const other = new URL(down)
    other.searchParams.set('path', 'notes/a.txt')
    assert.equal((await fetch(other)).status, 401)
    assert.equal((await fetch(down, { method: 'POST', body: form })).status, 401)
    const bare = new URL(down)
    bare.searchParams.delete('signature')
    assert.equal((await fetch(bare)).status, 401)
    const expired = await sandbox.downloadUrl('signed/up.txt', { useSignatureExpiration: -5 })
    const late = await fetch(expired)
    assert.equal(late.status, 401)
    assert.equal((await late.json()).message, 'signature is already expired')
    const forged = new URL(expired)
    forged.searchParams.set('signature_expiration', '1')
    assert.equal((await (await fetch(forged)).json()).message, 'invalid signature')
    const named = await sandbox.uploadUrl()
    const two = new FormData()
    two.append('file', new Blob(['1']), '/tmp/named1')
    two.append('file', new Blob(['2']), '/tmp/named2')
    assert.equal((await fetch(named, { method: 'POST', body: two })).status, 200)
    assert.equal(await files.read('/tmp/named2'), '2')
    // A part without a name of a file, where the address has one; what is no file is passed over.
    const nameless = new FormData()
    nameless.append('comment', 'not a file')
    nameless.append('file', 'without a name')
    assert.equal((await fetch(await sandbox.uploadUrl('signed/nameless'), { method: 'POST', body: nameless })).status, 200)
    assert.equal(await files.read('signed/nameless'), 'without a name')
    assert.equal((await fetch(named, { method: 'POST', body: nameless })).status, 400)
  })

  await check('an upload that breaks off leaves nothing', async () => {
    await files.write('/tmp/kept', 'before')
    const control = new AbortController()
    const slow = new ReadableStream({
      async pull(c) {
        c.enqueue(new Uint8Array(1000))
        await new Promise((done) => setTimeout(done, 20))
      },
    })
    setTimeout(() => control.abort(), 500)
    await rejects(files.write('/tmp/kept', slow, { signal: control.signal }))
    await until('the worker is gone', async () =>
      (await files.list('/tmp')).filter((e) => e.name !== 'kept' && /kept|\.brig|tmp/.test(e.name)).length === 0)
    assert.equal(await files.read('/tmp/kept'), 'before')
  })

  await check('watching a folder', async () => {
    await files.makeDir('watched')
    const seen = []
    const handle = await files.watchDir('watched', (e) => seen.push(e), { timeoutMs: 0 })
    await files.write('watched/new', '1')
    await until('the new file', () => seen.some((e) => e.name === 'new' && e.type === 'write'))
    assert.deepEqual(seen.map((e) => e.type), ['create', 'chmod', 'write'])
    await files.write('watched/new', '22')
    await files.write('watched/empty', '')
    await until('the empty file', () => seen.some((e) => e.name === 'empty' && e.type === 'chmod'))
    assert.deepEqual(seen.map((e) => `${e.name} ${e.type}`).slice(3), ['new chmod', 'new write', 'empty create', 'empty chmod'])
    await sandbox.commands.run('cd watched; echo x >> new; chmod 600 new; rm new')
    await until('its removal', () => seen.some((e) => e.name === 'new' && e.type === 'remove'))
    for (const type of ['write', 'chmod']) assert.ok(seen.some((e) => e.name === 'new' && e.type === type), type)
    await handle.stop()
    const count = seen.length
    await files.write('watched/unseen', '2')
    assert.equal(seen.length, count)
    await rejects(files.watchDir('nothing', () => {}), (e) => assert.equal(e.name, 'FileNotFoundError'))
  })

  await check('watching below a folder, with entries', async () => {
    await files.makeDir('deep/er')
    const seen = []
    const handle = await files.watchDir('deep', (e) => seen.push(e), { recursive: true, includeEntry: true, timeoutMs: 0 })
    await sandbox.commands.run('echo 12345 > deep/er/file')
    const event = await until('the file below', () => seen.find((e) => e.name === 'er/file' && e.entry))
    assert.equal(event.entry.path, '/home/user/deep/er/file')
    await handle.stop()
  })
})

// Its disk is small.
await withSandbox(Sandbox, 'small', {}, async (sandbox) => {
  await check('a full disk is said as such', async () => {
    const data = new Blob([Buffer.alloc(80 << 20)])
    await rejects(sandbox.files.write('full', data, { useOctetStream: true, requestTimeoutMs: 120_000 }), (e) =>
      assert.equal(e.name, 'NotEnoughSpaceError', e.message))
    assert.equal(await sandbox.files.exists('full'), false)
    await sandbox.files.write('after', 'still works')
    assert.equal(await sandbox.files.read('after'), 'still works')
  })
})

finish()
