#!/bin/busybox sh
# `brig doctor` and `brig verify` inside the test machine: guest-verify.sh ROLE. verify runs each of its attacks outside
# as well, and says "not applicable" of what does not work there: here are counted those that must have been tried.
. /guest/config
role=$1
out=/tmp/verify.$role
cd /tmp || exit 1

not_ok()
{
    echo "not ok $role: $1"
    # What was not held, and what follows the table.
    { grep FAILED "$out"; tail -n 40 "$out" | grep -v ' ok *$'; } | head -c 6000 | sed 's/^/# /'
    head -c 600 "$out.err" | sed 's/^/# stderr: /'
}
verdict() { if [ $? = 0 ]; then echo "ok $role: $1"; else not_ok "$1"; fi; } # NAME: by the status of the command before it
run() { timeout 900 "$@" >"$out" 2>"$out.err" </dev/null; }
said() { grep -Eq -- "$1" "$out"; } # PATTERN in the output of the last run
held() { said "^ *$1 .*[^ -]  +ok( +ok)* *\$"; } # ROW: in every sandbox, nowhere not applicable

run brig doctor
verdict "doctor looks at this machine"
said 'ok +container ' && said 'ok +process '
verdict "doctor finds both tiers"
run brig doctor --json && said '"tiers"'
verdict "doctor speaks JSON"

walls() # ATTACKS OPTION...: brig verify with these options tries at least so many attacks, and they are held
{
    least=$1
    shift
    what="verify${*:+ $*}"
    run brig verify "$@"
    verdict "$what finds every wall standing"
    said '^[0-9]+ held, 0 FAILED' && [ "$(sed -n 's/^\([0-9]*\) held, .*/\1/p' "$out")" -ge "$least" ]
    verdict "$what tried most of its attacks"
    for row in K-01.open K-07.user K-10.memory K-14 K-20.signal F-01.read F-20 N-01.tcp N-05.rule C-01.secret C-02 R-01 R-04 L-02 \
        $rows; do
        held "$row"
        verdict "$what: $row is held"
    done
}
rows=
[ "$(uname -m)" != x86_64 ] || rows="K-05.int80 K-23.ldt"
if [ "$role" = root ]; then
    rows="$rows K-17.identity"
    walls 90 --level high
    # All folders of this machine are on tmpfs, which Linux 6.1 cannot mount with other owners.
    said 'map the owner of /tmp/brig-verify-[0-9a-f]*/rw to the sandbox: Invalid argument'
    verdict "verify says why no folder can be granted"
    [ -z "$FULL" ] || walls 80 --level high --tier process
elif [ -z "$FULL" ]; then # each tier once: on root's the container's
    walls 80 --level high --tier process
else
    walls 350 # of every level, and of high on the process tier, too
fi
