"""Ordinary users whom nobody else on this machine is: several runs of the tests may go side by side."""
import os
import socket

FIRST, LAST = 43000, 59999
_claims = []


def _has_tasks(uid):
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                return True
        except OSError:
            pass
    return False


def claim_user():
    """The uid of a user of whom nothing runs, for this process alone: a name in the abstract namespace is the claim, and goes
    with the process, however that ends."""
    for uid in range(FIRST, LAST):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0test-brig-user-{uid}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        if not _has_tasks(uid):
            return uid
    raise RuntimeError("every user for tests is taken")


# The one that most tests are: claimed when the first of them asks.
USER_ID = claim_user()
