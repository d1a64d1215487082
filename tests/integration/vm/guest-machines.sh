#!/bin/busybox sh
# The vm tier in a machine that can run virtual machines: guest-machines.sh ROLE.
role=$1
. /guest/config
out=/tmp/machines.$role
cd /tmp || exit 1
export XDG_STATE_HOME=/tmp/state.$role
mkdir -p -m 700 "$XDG_STATE_HOME"

check() # NAME: by the status of the command before it
{
    if [ $? = 0 ]; then echo "ok $role: $1"; return; fi
    echo "not ok $role: $1"
    head -c 1500 "$out" | sed 's/^/# stdout: /'
    head -c 1500 "$out.err" | sed 's/^/# stderr: /'
}
# Where the clock is the host's, how busy that is must not matter.
limit=
[ -n "$COUNTED" ] || { limit="--timeout 25m"; export BRIG_VM_BOOT_SECONDS=1200; }
vm() { timeout 1800 brig run --tier vm $limit "$@" >"$out" 2>"$out.err" <"${input:-/dev/null}"; }
has() { grep -q -- "$1" "$out"; }
complains() { grep -q -- "$1" "$out.err"; }

if [ "$role" = stranger ]; then
    vm -- true
    [ $? = 125 ] && complains 'not for this user' && complains usermod
    check "without access to /dev/kvm it is refused, with what helps"
    exit
fi

brig doctor >"$out" 2>"$out.err"
has 'ok  *vm' && has 'ok  *critical'
check "doctor finds the tier"
brig kernel list >"$out" 2>"$out.err" && has "$(uname -r)"
check "the kernel in /boot is found"

# Everything else has one of this machine's two processors to run on, and so guests with one. On x86-64 there is one: see run-vm.
two_processors()
{
    taskset 3 timeout 1800 brig run --tier vm $limit --cpus 2 --ro /guest/guest-processors.py:/two.py -- python3 /two.py >"$out" 2>"$out.err" </dev/null
    [ $? = 7 ] && has '^woken 0 processors 2 2$'
    check "two processors, which wake each other and end while both are busy"
}

endings()
{
    if [ -n "$COUNTED$FULL" ]; then # by the host's clock a limit that no boot reaches is a long wait
        vm -- /nonexistent/program
        [ $? = 127 ] && complains 'command not found'
        check "a command that is not there is 127"
        whole=$limit limit="--timeout 15s"
        [ -n "$COUNTED" ] || limit="--timeout 120s"
        vm -- sh -c 'echo spinning; while :; do :; done'
        [ $? = 124 ] && has '^spinning$'
        check "a guest that spins is ended by the time limit"
        limit=$whole
        spins=10s
        [ -n "$COUNTED" ] || spins=120s
        vm --cpu-time $spins -- sh -c 'echo spinning; while :; do :; done'
        [ $? = 124 ] && has '^spinning$' && complains 'of CPU time used up'
        check "a guest that spins is ended by the limit of CPU time"
        vm --disk 8M -- sh -c 'head -c 20000000 /dev/zero >/tmp/x; echo "status $?"'
        has '^status 1$' && complains 'disk limit 8M reached'
        check "a disk that is full is told of"
    fi
    timeout 1800 python3 /guest/guest-terminal.py $limit >"$out" 2>"$out.err"
    for what in "^C ends a boot" "its size, its name, its kind" "what is typed shows once" "a change of the size" \
        "^C ends a command and not the shell" "jobs, and the terminal's own name" "lines end at the left" "left as it was"; do
        has "^yes $(echo "$what" | sed 's/\^/\\^/')\$"
        check "terminal: $what"
    done
    has '^yes a signal that ends the code'
    check "a signal that ends the code ends the run"
    has '^yes memory$'
    check "a guest that runs out of memory is told of"
    [ "$(uname -m)" = x86_64 ] || two_processors
    vm --cpus 9 -- true
    [ $? = 125 ] && complains 'at most 8 processors'
    check "more processors than a guest can have are refused"
    vm --report-files -- true
    [ $? = 125 ] && complains 'report of refused files'
    check "what is not there yet is refused: reports of files"
    (export BRIG_VM_BOOT_SECONDS=0; vm -- true)
    [ $? = 125 ] && complains 'BRIG_VM_BOOT_SECONDS is not a number of seconds'
    check "a time to come up that is none is refused"
    left=$(ps | grep -v grep | grep -c 'brig-vmm')
    [ "$left" = 0 ]
    check "no monitor is left"
    left=$(find /sys/fs/cgroup -type d -name 'brig-*')
    [ -z "$left" ]
    check "no group is left"
}

# Where nothing is counted, x86-64, root asks only what the user does not: a guest takes long there.
[ "$role$COUNTED$FULL" != root ] || { endings; exit; }

# One guest, many questions: a boot is dear here.
cat >/tmp/probe.$role.py <<'PY'
import ctypes, errno, os, socket, stat, subprocess, sys
def said(name, truth): print(("yes " if truth else "no ") + name)
def refused(call, *codes):
    try: call()
    except OSError as e: return e.errno in codes
    return False
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
said("answer", 6 * 7 == 42)
said("uid", os.getuid() == 1000 and os.getgid() == 1000 and os.getgroups() == [])
said("no capability", all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")))
said("no new privileges", status["NoNewPrivs"].strip() == "1")
said("filter", status["Seccomp"].strip() == "2")
said("mount refused", refused(lambda: os.mkfifo("/nowhere/x"), errno.ENOENT) and
     ctypes.CDLL(None, use_errno=True).mount(b"x", b"/tmp", b"tmpfs", 0, None) != 0 and ctypes.get_errno() == errno.EPERM)
said("no vsock", refused(lambda: socket.socket(40, socket.SOCK_STREAM), errno.EPERM, errno.EACCES))
said("no network", refused(lambda: socket.create_connection(("192.0.2.1", 80), 2), errno.ENETUNREACH))
try: socket.getaddrinfo("pypi.org", 443); said("no names", False)
except socket.gaierror as e: said("no names", e.errno == socket.EAI_NONAME)
said("loopback", True if socket.create_server(("127.0.0.1", 0)) else False)
said("host name", socket.gethostname() == "brig")
cpu = open("/proc/cpuinfo").read().split()
said("processor", "model" not in cpu or ("virtual" in cpu and "svm" not in cpu and "vmx" not in cpu)) # arm64's says no names
said("no secret of the host's", refused(lambda: os.listdir("/root"), errno.ENOENT, errno.EACCES, errno.EPERM))
said("read-only system", refused(lambda: open("/usr/x", "w"), errno.EROFS, errno.EACCES))
said("no kvm", not os.path.exists("/dev/kvm"))
said("clock", abs(os.stat("/tmp").st_mtime - __import__("time").time()) < 3600)
os.chdir("/tmp")
open("a", "w").write("x" * 100000)
os.rename("a", "b"); os.link("b", "c"); os.symlink("b", "d"); os.mkdir("e"); os.chmod("b", 0o640)
said("files", os.stat("d").st_size == 100000 and os.stat("c").st_nlink == 2 and stat.S_IMODE(os.stat("b").st_mode) == 0o640
     and sorted(os.listdir(".")) [:4] == ["b", "c", "d", "e"])
with open("b", "r+") as f: f.truncate(5); f.seek(1 << 20); f.write("end")
said("sparse", os.stat("b").st_size == (1 << 20) + 3 and os.stat("b").st_blocks < 2000)
said("no set-id bits", refused(lambda: os.chmod("c", 0o6755), errno.EPERM))
said("no special files", refused(lambda: os.mkfifo("/tmp/fifo"), errno.EPERM))
import mmap
with open("m", "wb") as f: f.write(b"\0" * 8192)
with open("m", "r+b") as f:
    with mmap.mmap(f.fileno(), 8192) as m: m[4096:4100] = b"mmap"
said("mmap", open("m", "rb").read()[4096:4100] == b"mmap")
for name in ("b", "c", "d", "m"): os.unlink(name)
os.rmdir("e")
said("removed", os.listdir("/tmp") == [])
said("processes", subprocess.run(["/bin/sh", "-c", "exit 3"]).returncode == 3)
said("descriptors", os.listdir("/proc/self/fd") <= ["0", "1", "2", "3"])
if os.path.isdir("/out"):
    open("/out/f", "w").write("from the guest\n"); os.mkdir("/out/d"); os.rename("/out/f", "/out/d/g")
said("stdin", sys.stdin.read() == "to the guest\n")
print("uptime", open("/proc/uptime").read().split()[0])
subprocess.Popen(["/bin/sleep", "1000"])
print("to stderr", file=sys.stderr)
sys.exit(7)
PY
echo 'to the guest' >/tmp/input.$role
input=/tmp/input.$role
set -- -m 512M --ro /tmp/probe.$role.py:/probe.py --receipt "/tmp/receipt.$role"
if [ "$role" = user ]; then # of this kernel's file systems none can map owners, which root would need
    mkdir /tmp/granted
    set -- "$@" --rw /tmp/granted:/out
fi
vm "$@" -- python3 /probe.py
[ $? = 7 ]
check "the code's exit status is the run's"
complains '^to stderr$'
check "stderr is stderr"
for what in answer uid "no capability" "no new privileges" filter "mount refused" "no vsock" "no network" "no names" loopback "host name" processor \
    "no secret of the host's" "read-only system" "no kvm" clock files sparse "no set-id bits" "no special files" mmap removed \
    processes descriptors stdin; do
    has "^yes $what\$"
    check "inside: $what"
done
complains 'look up pypi.org.*the sandbox has no network rules; add --allow pypi.org'
check "without rules a name is a denial with what would allow it"
sed -n 's/^uptime/# guest seconds/p' "$out"
hash=$(sha256sum /boot/vmlinuz-* | cut -d' ' -f1)
grep -q "$hash" "/tmp/receipt.$role"
check "the receipt names the kernel by its hash"
input=

# The network: a server outside, and one guest that reaches it, with rules and a secret.
python3 /guest/guest-network-server.py >/tmp/server.$role 2>&1 &
server=$!
until grep -q '^ready$' /tmp/server.$role; do sleep 1; done
wget -q -O - http://127.0.0.1:8099/word | grep -q '^served$'
check "control: the server can be reached outside"
export API_KEY=value-of-the-secret
set -- --allow 'http://www.test:8099=127.0.0.1' --allow 'raw.test:8098=127.0.0.1' --allow 'https://api.test:8443=127.0.0.1' \
    --secret API_KEY=env:API_KEY@https://api.test:8443 --ro /guest/guest-network.py:/probe.py
[ "$role" = user ] && stay=stay || stay=
vm "$@" -- python3 /probe.py $stay &
run=$!
until grep -q '^done$' "$out" || ! kill -0 $run 2>/dev/null; do sleep 1; done
for what in "name by UDP" "name from any server" "name by TCP" "no other name" "direct, IPv4" "direct, IPv6" "by the proxy" \
    "half-close" "no other host" "no address" "no other port" "upload" "many at once" "a line that is not read" "TLS" \
    "the secret stays outside" "own servers"; do
    [ "$what$stay" = "many at oncestay" ] || { has "^yes $what\$"; check "network: $what"; }
done
grep -q '^key: right$' /tmp/server.$role && ! grep -q '^key: wrong$' /tmp/server.$role
check "network: the server gets the secret"
! has "$API_KEY" && ! complains "$API_KEY"
check "network: the code does not"
if [ "$role" = user ]; then # in the middle of a transfer
    ps -o pid,args | sed -n 's/^ *\([0-9]*\) brig run --tier vm .*/\1/p' | while read -r pid; do kill -9 "$pid"; done
    tries=60 # the kernel ends them, when it gets to it
    while ps | grep -v grep | grep -q 'brig-vmm\|brig-proxy' && [ $((tries -= 1)) -gt 0 ]; do sleep 1; done
    [ $tries -gt 0 ]
    check "network: a killed supervisor leaves nothing"
fi
wait $run
if [ "$role" = user ]; then # sandboxes of brig serve: one machine for nearly all of it
    timeout -s INT -k 60 2400 python3 /guest/guest-serve-machines.py >"$out" 2>"$out.err"
    for what in "a sandbox is a machine" "a command's output and status" "its walls" "what is not there" "much in and out" \
        "what it leaves running is not waited for" "a signal" "files, as they are now" "a cell" "and the next one" "a terminal" \
        "rules and a secret" "a port" "no server" "control: what spins uses the processor" "paused, it stands still" "control: it spins again" "and goes on" \
        "too little memory is refused" "control: a monitor is there" "the daemon ends in order" "no monitor is left"; do
        has "^yes $what\$"
        check "serve: $what"
    done
    for processors in 1 ${FULL:+2}; do
        timeout -s INT -k 60 2400 python3 /guest/guest-park.py $processors 2 >"$out" 2>"$out.err"
        [ $? = 0 ]
        check "clones, $processors: all of it was tried"
        sed 's/^yes //' "$out" >"$out.names"
        while read -r what; do
            ! echo "$what" | grep -q '^no '
            check "clones, $processors: $what"
        done <"$out.names"
    done
fi
kill $server
if [ "$role" = user ]; then
    [ "$(cat /tmp/granted/d/g)" = 'from the guest' ]
    check "what it writes to a granted folder is there"
    mkdir /tmp/project
    echo one >/tmp/project/f
    python3 /guest/guest-image.py /tmp/image.tar
    brig image load /tmp/image.tar >"$out" 2>"$out.err"
    # shellcheck disable=SC2016 # $WHO is the image's
    vm --image tiny:1 --writable-root --review /tmp/project --output 64K -- \
        sh -c 'cat /etc/who; echo "$WHO"; echo new >/bin/new; cat /bin/new; mkdir d; mv f d/g; echo two >>d/g; yes | head -c 1000000'
    has '^the image$' && has "^the image's\$"
    check "an image is its root"
    has '^new$' && ! has cannot
    check "a root that can be written"
    [ "$(wc -c <"$out")" = 65536 ] && complains 'output cut off after 64K'
    check "output is cut off at the limit"
    [ "$(ls /tmp/project)" = f ] && brig apply "$(brig diff | cut -d ' ' -f 1)" >"$out" &&
        [ "$(ls /tmp/project)" = d ] && [ "$(cat /tmp/project/d/g)" = "$(printf 'one\ntwo')" ]
    check "what it changes in a project waits for a review"
    # One guest for most of it, and none for what is tried in the monitor's place. All of it is for the full form.
    set --
    [ -n "$FULL" ] || set -- --only K --only V-16 --only F-01 --only F-20 --only N-01 --only C-01.environment --only R-08
    timeout 1800 brig verify --tier vm --level critical "$@" >"$out" 2>"$out.err" </dev/null
    [ $? = 0 ] && has '^[0-9]* held, 0 FAILED'
    check "verify finds every wall standing"
    for row in V-16.place V-16.threads V-16.devices K-07.ns-pid K-08.mount K-10.memory K-14 K-17.capabilities K-17.filter K-20.signal K-23.clock K-30 \
        F-01.read F-01.write F-20 N-01.tcp C-01.environment R-08 ${FULL:+V-12 F-11.contents F-11.modes F-13.grant N-05.rule C-01.secret C-02 R-01 R-04 R-06.cpu R-07 R-09 R-11.bytes R-12 L-01 L-02}; do
        has "^ *$row .* ok *\$"
        check "verify: $row is held"
    done
    sed -n 's/^\([0-9]* held, .*\)/# verify: \1/p' "$out"
    exit 0
fi

endings
