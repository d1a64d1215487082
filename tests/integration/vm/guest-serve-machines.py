"""Sandboxes of `brig serve` that are virtual machines: guest-serve-machines.py; prints "yes WHAT" or "no WHAT".

One machine for nearly all of it: a boot is dear here."""
import sys

import guest_serve as serve
from guest_serve import LOG, brig, monitors, run, said

TEMPLATE = """description: a machine
pool: {min: 0, max: 0}
policy:
  kernel: {tier: vm}
  lifecycle: {memory: 512M, disk: 64M}
  network: {allow: ["https://api.test:8443=127.0.0.1"]}
  credentials: {secrets: ["API_KEY=env:API_KEY@https://api.test:8443"]}
"""
SMALL = "description: too small\npool: {min: 0, max: 0}\npolicy: {kernel: {tier: vm}, lifecycle: {memory: 200M, disk: 64M}}\n"

serve.add_template("machine", TEMPLATE)
serve.add_template("small", SMALL)
serve.start_daemon()
said("a sandbox is a machine", lambda: serve.create() and run("cat", "/proc/1/cmdline").stdout == b"/init\0guest\0")
if not serve.box:
    print(LOG.read_text(), file=sys.stderr)
    serve.daemon.kill()
    sys.exit(1)
serve.everything()
said("too little memory is refused", lambda: b"needs at least 192 MiB" in brig("create", "--template", "small").stderr)
said("control: a monitor is there", lambda: monitors("serve"))
brig("rm", serve.box)
serve.end_daemon()
