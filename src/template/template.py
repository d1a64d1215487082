"""The template process of a Python template: an interpreter with its modules loaded that has never seen anybody's data
and never will. It is cloned (template/clone.h); each clone wakes up behind all boundaries of its own sandbox,
makes anew what must not be the same in two of them, and serves cells like any other interpreter.

/.brig/template.json: {"modules": […], "environ": {…}}; descriptor 3 is the door: this process says on it, once, whether
it is ready, and takes requests from it. The standard library only.
"""
import ctypes
import gc
import importlib.util
import json
import locale
import os
import platform
import random
import site
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__)) + "/"
DOOR = 3
CHANNEL = 3, 4
REHEARSALS = 20  # the interpreter specialises code that it has run some times
# Read once, when the libraries are loaded. A process with more than one thread cannot be cloned.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS",
           "VECLIB_MAXIMUM_THREADS")
FILLERS_MAX = 20000
# Whose wishes for a forked process are about other threads only.
THREADING = ("threading", "logging", "concurrent.futures.thread", "concurrent.futures._base")


def say(message):
    os.write(DOOR, json.dumps(message).encode()[:60000])


def load_driver():
    spec = importlib.util.spec_from_file_location("brig_driver", HERE + "python.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_library():
    library = ctypes.PyDLL(HERE + "template.so")
    library.template_environ.restype = ctypes.POINTER(ctypes.c_char_p)
    library.template_random.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library


def take_place(config):
    """As if it had been started with the environment that its clones have."""
    sys._xoptions.clear()
    os.environ.clear()
    os.environ.update(config["environ"])
    try:
        locale.setlocale(locale.LC_CTYPE, "")
    except locale.Error:
        pass
    time.tzset()
    site.USER_BASE = site.USER_SITE = None
    site.getusersitepackages()


def load_modules(driver, library, config):
    given = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    loaded = driver.warm(config["modules"])
    for name, value in given.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    library.template_remember()
    return loaded


def rehearse(driver):
    """What is done once, at the first use, is done here and shared by all clones; what was guessed or counted so far is
    forgotten."""
    modules = sys.modules
    if "ssl" in modules:
        modules["ssl"].RAND_bytes(1)
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = modules["tempfile"].tempdir = None
    if "uuid" in modules:
        modules["uuid"]._node = modules["uuid"]._last_timestamp = None
    if hasattr(platform, "_uname_cache"):
        platform._uname_cache = None
    driver.prepare(*CHANNEL)
    # A clone has none of our descriptors; its own 0 is as empty.
    sys.stdin.close()
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)
    driver.rehearse_often(REHEARSALS)


def fresh(make, size):
    """Objects of one size, until one of them is the first in its pool."""
    pool = 16384 if sys.version_info >= (3, 10) else 4096
    made = [make(size)]
    while id(made[-1]) % pool >= 64 and len(made) < FILLERS_MAX:
        made.append(make(size))
    return made


def tidy(kept):
    """A clone makes the pages that it writes to its own. What it allocates goes, of each size, where there is room first:
    into holes all over the memory of this process, so they are filled. It goes into new pools then, which begin with
    their own head. (A full collection empties the lists of free objects as well, which lie scattered, too.)"""
    gc.collect()
    gc.freeze()
    kept.append(fresh(lambda size: object(), 16))
    kept.append(fresh(lambda size: size << 40, 32))
    for size in range(48, 513, 16):
        kept.append(fresh(lambda size: bytes(size - 33), size))


def held_open():
    """What modules keep open: a clone would find it closed."""
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            if int(fd) > DOOR:
                names.append(os.readlink("/proc/self/fd/" + fd))
        except FileNotFoundError:
            pass  # the list itself
    return names


def shared_memory():
    """What modules have mapped so that a copy of this process would not be one of it (an anonymous mapping, the file behind
    a semaphore): T-4, all clones would write into the same pages, and so would those of other tenants. A mapping of a file
    that was opened to be read is no such one, whatever was asked for; the kernel says "sh" of the others."""
    names, name = [], ""
    with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if words[0] == "VmFlags:":
                names += [name] * ("sh" in words)
            elif not words[0].endswith(":"):
                name = words[5] if len(words) > 5 else "anonymous"
    return names


# ---- what must differ from clone to clone ----

def is_state(address, words):
    """Is this what lies there?"""
    return list((ctypes.c_uint32 * len(words)).from_address(address)) == [int(word) for word in words]


def states():
    """(address, words) of random states that are plain memory, and a way to seed each where they are not."""
    words = random.getstate()[1][:-1]
    # struct RandomObject: the head of every object, an index, the words
    yield id(random._inst) + object.__basicsize__ + 4, words, random.seed
    if "numpy.random" in sys.modules:
        numpy_random = sys.modules["numpy.random"]
        generator = numpy_random.mtrand._rand._bit_generator
        yield generator.ctypes.state_address, numpy_random.get_state()[1], numpy_random.seed


def own_entropy(library):
    """The library fills the states of a clone before its interpreter runs, which costs no memory but their own. Returns
    what is left to be done by the interpreter."""
    left = []
    for address, words, seed in states():
        if len(words) != 624 or not is_state(address, words) or library.template_random(address, 4 * len(words)):
            left.append(seed)
    return left


def watch_forks():
    """Modules say what they want to be done in a forked process; a clone is one. What the standard library asks for is
    about threads and locks, of which there are none here, and would cost every clone half a megabyte."""
    hooks = []
    register = os.register_at_fork

    def remember(**kinds):
        if "after_in_child" in kinds and getattr(kinds["after_in_child"], "__module__", "") not in THREADING:
            hooks.append(kinds["after_in_child"])
        return register(**kinds)

    os.register_at_fork = remember
    return hooks, lambda: setattr(os, "register_at_fork", register)


def renew(hooks):
    """All else that was made in the template and is no library's business after a fork. (OpenSSL sees that the pid is
    another one, which is made sure of, and seeds itself. The seed of str hashes stays: it belongs to the interpreter's
    start.)"""
    modules = sys.modules
    for hook in hooks:
        hook()
    if "torch" in modules:
        modules["torch"].seed()
    if "multiprocessing.process" in modules:
        modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    if "logging" in modules:
        modules["logging"]._startTime = time.time()
    if "threading" in modules:
        modules["threading"].main_thread()._set_native_id()


def take_environment(driver, library):
    entries, fresh = library.template_environ(), {}
    while entries[len(fresh)]:
        name, _, value = entries[len(fresh)].partition(b"=")
        fresh[name] = value
    os.environb.clear()
    os.environb.update(fresh)
    driver.default_environment()
    time.tzset()


def become_template():
    with open(HERE + "template.json", encoding="utf-8") as file:
        config = json.load(file)
    take_place(config)
    driver = load_driver()
    library = load_library()
    hooks, unwatch = watch_forks()
    loaded = load_modules(driver, library, config)
    unwatch()
    rehearse(driver)
    hooks += own_entropy(library)
    threads, files, shared = len(os.listdir("/proc/self/task")), held_open(), shared_memory()
    if threads != 1:
        raise RuntimeError("its modules start threads")
    if files:
        raise RuntimeError("its modules keep open: " + ", ".join(files)[:200])
    if shared:
        raise RuntimeError("its modules share memory with their children: " + ", ".join(shared)[:200])
    say({"ready": True, "version": "%d.%d.%d" % sys.version_info[:3], "loaded": loaded,
         "missing": [name for name in config["modules"] if name not in loaded]})
    kept = []
    tidy(kept)
    return driver, library, hooks, kept


def main():
    try:
        driver, library, hooks, _kept = become_template()
    except Exception as error:
        say({"ready": False, "error": f"it cannot be cloned: {type(error).__name__}: {error}"})
        os._exit(1)
    # One thread, no lock held, and the clone is an exact copy of it: there is nothing to repair in the interpreter.
    clone = library.template_serve(DOOR)
    if clone <= 0:
        os._exit(0)
    if clone > 1:
        take_environment(driver, library)
    renew(hooks)
    driver.rehearse()
    driver.run()


main()
