"""Runs in a guest with two processors: a task on each, which wake each other; then it ends while both are busy."""
import os
import sys

ROUNDS = 200


def start_on(cpu, action):
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {cpu})
        action()
        os._exit(0)
    return pid


def answer():
    for _ in range(ROUNDS):
        os.write(back[1], os.read(there[0], 1))


def spin():
    while True:
        pass


cpus = sorted(os.sched_getaffinity(0))
there, back = os.pipe(), os.pipe()
other = start_on(cpus[1], answer)
os.sched_setaffinity(0, {cpus[0]})
for _ in range(ROUNDS):
    os.write(there[1], b"x")
    os.read(back[0], 1)
print("woken", os.waitpid(other, 0)[1], "processors", os.cpu_count(), len(cpus), flush=True)
for cpu in cpus:
    start_on(cpu, spin)
sys.exit(7)
