#!/bin/busybox sh
# Checks of brig inside the test machine: guest.sh ROLE. root: in a plain group below one with controllers;
# user: in a delegated subtree; stranger: a user without any cgroup of their own, so limits are kept by sampling.
# Each run that must be stopped has a control run in which the same thing succeeds outside.
# On its own architecture brig's endings, files and network are what the whole suite is about: they are tried in a machine of
# the other one, and only in the full form here. An emulated machine is slow, and what a tier does for a user it does for root:
# the process tier as root, and the Sentry as root, are for the full form.
. /guest/config
role=$1
box=/usr/bin/busybox
out=/tmp/out.$role
cd /tmp || exit 1

ok() { echo "ok $role: $1"; }
not_ok()
{
    echo "not ok $role: $1"
    head -c 1500 "$out" | sed 's/^/# /'
    head -c 600 "$out.err" | sed 's/^/# stderr: /'
}
# verdict NAME: by the status of the command before it
verdict() { if [ $? = 0 ]; then ok "$1"; else not_ok "$1"; fi; }
run() { timeout 120 "$@" >"$out" 2>"$out.err" </dev/null; }
status() # NAME WANTED COMMAND...
{
    name=$1 want=$2
    shift 2
    run "$@"
    got=$?
    [ $got = "$want" ] || echo "# status $got instead of $want" >>"$out"
    [ $got = "$want" ]
    verdict "$name"
}
said() { grep -Eq -- "$1" "$out"; } # PATTERN in the output of the last run
groups() { find /sys/fs/cgroup -type d -name 'brig-*' 2>/dev/null; }
# Processes by their arguments, without this script's own pipeline.
alive() { ps -o pid,args | grep -v grep | grep -q -- "$1"; }
until_true() # SECONDS COMMAND...: it succeeds within that time
{
    tenths=$(($1 * 10))
    shift
    while ! "$@"; do
        [ "$tenths" -gt 0 ] || return 1
        tenths=$((tenths - 1))
        sleep 0.1
    done
}
not_alive() { ! alive "$1"; }
gone() { until_true 10 not_alive "$1"; } # PATTERN
all() { [ -z "$OWN" ] || [ -n "$FULL" ]; }
no_groups() { [ -z "$(groups)" ]; }
no_folders() { [ -z "$(ls -d /tmp/brig-* 2>/dev/null)" ]; }
same_mounts() { [ "$(wc -l </proc/mounts)" = "$mounts_before" ]; }

mounts_before=$(wc -l </proc/mounts)

mkdir -p "/tmp/www.$role" && echo served >"/tmp/www.$role/word"
$box httpd -f -p 127.0.0.1:8099 -h "/tmp/www.$role" &
server=$!

# One block of 100 MB that dd really writes to.
bomb="$box dd if=/dev/zero of=/dev/null bs=100M count=1"
run $bomb; verdict "control: the memory bomb fits outside"

# A program in core_pattern is started as root, out here, for every crash: no limit of core files keeps it from that but one of one byte.
crashes() # TIER
{
    pattern=$(cat /proc/sys/kernel/core_pattern)
    printf '#!/bin/busybox sh\necho "$1" >>/tmp/crashed\n' >/tmp/on-crash
    chmod 755 /tmp/on-crash
    echo '|/tmp/on-crash %e' >/proc/sys/kernel/core_pattern
    crash='ulimit -c 0; kill -SEGV $$; sleep 10'
    run $box sh -c "$crash"
    until_true 10 test -s /tmp/crashed; verdict "control: a crash starts a program, and $1 is next"
    rm -f /tmp/crashed
    run brig run --tier "$1" -- $box sh -c "echo tried; $crash"
    sleep 1
    said '^tried$' && ! [ -e /tmp/crashed ]; verdict "$1 starts no program out here when it crashes"
    rm -f /tmp/crashed
    echo "$pattern" >/proc/sys/kernel/core_pattern
}
[ "$role" != root ] || { crashes container; crashes process; }

tiers="container process"
[ "$role" != root ] || [ -n "$FULL" ] || tiers=container
for tier in $tiers; do
    t="--tier $tier"
    [ "$role" != stranger ] || t="$t --sampling accept"
    run brig run $t -- $box echo hi && said '^hi$'
    verdict "$tier runs"
    if all; then
        status "$tier passes the exit status on" 42 brig run $t -- $box sh -c 'exit 42'
        status "$tier reports a signal" 143 brig run $t -- $box sh -c 'kill -TERM $$; sleep 5'
        status "$tier says 127" 127 brig run $t -- /no/such/command
        status "$tier says 126" 126 brig run $t -- /etc/passwd
    fi
    status "$tier says 124" 124 brig run $t --timeout 1s -- $box sleep 99
    gone 'sleep 99'; verdict "$tier leaves no sleeper"
    run brig run $t -- $box sh -c 'cd ${TMPDIR:-/tmp}; mkdir -p a/b; chmod 0 a; setsid sleep 66 & exit 0'
    gone 'sleep 66'; verdict "$tier leaves no straggler of a normal end"

    run brig run $t --json -m 64M --pids 32 -- $box true
    said '"receipt"'; verdict "$tier has a receipt"
    if [ "$role" != stranger ]; then
        said '"cgroup[^,}]*(v2|: *2)'; verdict "$tier says cgroup v2"
    else
        said '"receipt"' && ! said '"cgroup[^,}]*(v2|: *2)'; verdict "$tier claims no cgroup"
    fi

    run brig run $t --json -m 64M --timeout 60s -- $bomb
    if [ "$role" != stranger ]; then
        said '"oom_killed": *true'; verdict "$tier kills the memory bomb"
    else
        said '"oom_killed": *true|"limit_hit": *"memory"|"exit_code": *1'
        verdict "$tier stops the memory bomb without cgroups"
    fi
    run brig run $t --json -m 64M -- $box true
    said '"oom_killed": *false'; verdict "$tier kills no modest program"

    run brig run $t --json --pids 24 -m 128M --timeout 1s -- $box sh -c 'bomb() { bomb | bomb & }; bomb; sleep 77'
    [ $? != 125 ]; verdict "$tier survives the fork bomb"
    said '"limit_hit": *"pids"|"timed_out": *true'; verdict "$tier has a verdict on the fork bomb"
    gone 'sleep 77' && gone 'bomb | bomb'; verdict "$tier leaves nothing of the fork bomb"

    if all; then
        get="$box wget -q -O - http://www.test:8099/word"
        run brig run $t --allow 'http://www.test:8099=127.0.0.1' -- $get && said '^served$'
        verdict "$tier reaches the host that is allowed"
        run $box wget -q -O - http://127.0.0.1:8099/word && said '^served$'
        verdict "control: the server can be reached outside"
        run brig run $t --allow 'http://other.test:8099=127.0.0.1' -- $get
        [ $? != 0 ] && ! said '^served$'; verdict "$tier reaches no other host"
        run brig run $t --allow 'http://other.test:8099=127.0.0.1' -- $box wget -q -O - http://127.0.0.1:8099/word
        [ $? != 0 ] && ! said '^served$'; verdict "$tier reaches no server of the host's"

        echo "$role" >"/tmp/private.$role"
        run $box cat "/tmp/private.$role"; verdict "control: a file of /tmp can be read outside"
        run brig run $t -- $box sh -c "cat /tmp/private.$role; echo tried"
        said '^tried$' && ! said "^$role$"; verdict "$tier hides the files of /tmp"
        if [ "$role" = root ]; then
            run $box cat /root/secret; verdict "control: root reads its secret"
            run brig run $t -- $box sh -c 'cat /root/secret; echo tried'
            said '^tried$' && ! said '^secret$'; verdict "$tier hides root's secret"
        fi
    fi

    brig run $t -- $box sleep 88 >"$out" 2>"$out.err" </dev/null &
    supervisor=$!
    # The supervisor has these words among its arguments, too: only the program itself begins with them.
    until_true 60 alive "^ *[0-9]* $box sleep 88"; verdict "control: $tier is running"
    kill -9 $supervisor
    gone 'sleep 88'; verdict "$tier dies with its supervisor"
    # At each of its own kill(2), too. Here nothing else ends a sandbox: no cgroup, no pid namespace, no scope of signals.
    if [ "$role" = stranger ] && [ $tier = process ]; then
        each=3 number=62
        [ -z "$FULL" ] || each=1
        [ "$(uname -m)" = x86_64 ] || number=129
        n=$((1 - each)) left=
        while [ $n -lt 60 ]; do
            n=$((n + each))
            run tracer kill-call $number $n -- brig run $t -- $box sh -c 'setsid sleep 55 & exit 0'
            got=$?
            gone 'sleep 55' || left="$left $n"
            [ $got != 99 ] || break
        done
        [ $n -gt 2 ] && [ $got = 99 ] && [ -z "$left" ]
        verdict "$tier dies with a supervisor that was about to kill it${left:+ (not at$left)}"
    fi
    until_true 10 no_groups; verdict "$tier leaves no cgroup"
    until_true 10 no_folders; verdict "$tier leaves no folder"
    until_true 10 same_mounts; verdict "$tier leaves no mount"
done

# Landlock takes a whiteout for a character device on some kernels and for a file on others, such as this one.
if [ "$role" != stranger ]; then
    run brig run --writable-root -- $box sh -c 'echo kept >/usr/new; cat /usr/new; mknod /usr/device c 1 3 || echo refused'
    said '^kept$' && said '^refused$'; verdict "container has a writable root"
fi

# The version is the Sentry's: the host's kernel is another one.
if [ -x /usr/bin/runsc ] && { [ "$role" = user ] || [ -n "$FULL" ]; }; then
    run env BRIG_RUNSC=/usr/bin/runsc brig run --tier gvisor -m 256M -- $box sh -c 'cat /proc/version; exit 3'
    [ $? = 3 ] && said '^Linux version 4\.4\.0'; verdict "gvisor runs"
    cat /proc/version >"$out" && ! said '^Linux version 4\.4\.0'; verdict "control: outside there is another kernel"
fi
if [ -x /usr/bin/runsc ] && [ -n "$FULL" ]; then # and in the daemon
    state=/tmp/gvisor.$role
    mkdir -p "$state/templates"
    chmod 700 "$state"
    printf 'policy: {kernel: {tier: gvisor}, lifecycle: {memory: 256M}}\npool: {min: 0, max: 0}\n' >"$state/templates/gv.yaml"
    BRIG_RUNSC=/usr/bin/runsc brig serve --foreground --listen 127.0.0.1:0 --state "$state" >"$out.serve" 2>&1 </dev/null &
    daemon=$!
    until_true 300 test -e "$state/address"
    run brig create --state "$state" --template gv
    name=$(cut -d ' ' -f 1 "$out" | head -n 1)
    run brig exec --state "$state" "$name" -- sh -c 'cat /proc/version; echo kept >/tmp/kept; exit 3'
    [ $? = 3 ] && said '^Linux version 4\.4\.0'; verdict "gvisor serves"
    run brig exec --state "$state" "$name" -- sh -c 'cat /tmp/kept' && said '^kept$'; verdict "gvisor keeps its files"
    run brig rm --state "$state" "$name"; verdict "gvisor's sandbox ends"
    kill $daemon
    wait $daemon; verdict "gvisor's daemon ends in order"
    until_true 60 no_groups; verdict "gvisor leaves no cgroup"
fi

run brig doctor
said 'ABI 2'; verdict "doctor sees Landlock ABI 2"
if [ "$role" = stranger ]; then
    said 'systemd-run --user --scope|writable'; verdict "doctor says how to get a cgroup"
fi
status "critical is refused" 125 brig run --level critical -- $box true
kill $server
