// MCP_KIND is "http" (MCP_URL, MCP_KEY) or "stdio" (MCP_COMMAND, a JSON array): both packages, both eras.
import assert from 'node:assert/strict'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client'
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio'
import { check, finish } from './check.mjs'
import { short, whole } from './suite.mjs'

const info = { name: 'brig-test', version: '1' }
const kind = process.env.MCP_KIND
const timeout = 300_000

function transport(Http, Stdio) {
  if (kind === 'http')
    return new Http(new URL(process.env.MCP_URL), { requestInit: { headers: { Authorization: `Bearer ${process.env.MCP_KEY}` } } })
  const [command, ...args] = JSON.parse(process.env.MCP_COMMAND)
  return new Stdio({ command, args, env: process.env, stderr: 'inherit' })
}

function face(client, call) {
  return {
    call,
    list: () => client.listTools(),
    resources: () => client.listResources(),
    templates: () => client.listResourceTemplates(),
    read: (uri) => client.readResource({ uri }),
    close: () => client.close(),
  }
}

async function first() {
  const client = new Client1(info)
  await client.connect(transport(Http1, Stdio1))
  return [client, face(client, (name, args, options) => client.callTool({ name, arguments: args }, undefined, { timeout, ...options }))]
}

async function second(mode) {
  const client = new Client2(info, mode ? { versionNegotiation: { mode } } : undefined)
  await client.connect(transport(Http2, Stdio2))
  return [client, face(client, (name, args, options) => client.callTool({ name, arguments: args }, { timeout, ...options }))]
}

async function go(name, version, suite, open) {
  await check(`${name}: connects`, async () => {
    const [client, c] = await open()
    try {
      await suite(name, c)
      await check(`${name}: version`, async () => {
        const got = client.getNegotiatedProtocolVersion?.() ?? client.transport.protocolVersion
        if (got) assert.equal(got, version)
      })
    } finally {
      await c.close()
    }
  })
}

await go('sdk 1', '2025-11-25', whole, () => first())
await go('client 2, pinned', '2026-07-28', whole, () => second({ pin: '2026-07-28' }))
await go('client 2, auto', '2026-07-28', short, () => second('auto'))
await go('client 2', '2025-11-25', short, () => second())
finish()
