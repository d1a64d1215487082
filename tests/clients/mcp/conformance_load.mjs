// For `node --import`: the conformance runner sends no key, so that each of its requests gets MCP_KEY here; and it wants
// fs.globSync, which Node.js has since version 22 and which it does not need for this.
import diagnostics from 'node:diagnostics_channel'
import http from 'node:http'
import { register, syncBuiltinESMExports } from 'node:module'

register('./conformance_resolve.mjs', import.meta.url)
const key = `Bearer ${process.env.MCP_KEY}`
diagnostics.channel('undici:request:create').subscribe(({ request }) => request.addHeader('authorization', key))
const plain = http.request
http.request = (...args) => {
  const request = plain(...args)
  request.setHeader('authorization', key)
  return request
}
syncBuiltinESMExports()
