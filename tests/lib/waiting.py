"""Waiting for what happens: tests wait for a condition, never for a time (CONTRIBUTING.md)."""
import time


def wait_for(condition, seconds=60, what="the condition"):
    """The first true value of condition()."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come true in {seconds} s"
        time.sleep(0.02)
