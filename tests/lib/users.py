"""Ordinary users whom nobody else on this machine is: several runs of the tests may go side by side."""
import os
import re
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


def _has_folders(uid):
    """Whether a test that was killed left folders of this user's: who looks for leftovers must find his own alone."""
    for top in ("/tmp", "/var/tmp"):
        for entry in os.scandir(top):
            try:
                if re.fullmatch(r"brig-(verify-)?[0-9a-f]{16,}", entry.name) and entry.stat(follow_symlinks=False).st_uid == uid:
                    return True
            except OSError:
                pass
    return False


def claim_user():
    """The uid of a user of whom nothing runs and nothing is left, for this process alone: a name in the abstract namespace is
    the claim, and goes with the process, however that ends."""
    for uid in range(FIRST, LAST):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0test-brig-user-{uid}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        if not _has_tasks(uid) and not _has_folders(uid):
            return uid
    raise RuntimeError("every user for tests is taken")


# The one that most tests are: claimed when the first of them asks.
USER_ID = claim_user()
