"""Which form of the tests was asked for: `make test` has each promise once, `make test-full` every matrix whole."""
import os

FULL = os.environ.get("BRIG_TEST_FULL") == "1"
