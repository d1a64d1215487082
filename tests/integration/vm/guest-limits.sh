#!/bin/busybox sh
# Which limits are kept inside the test machine: guest-limits.sh ROLE. root and user: by a group of cgroup v2, without a word
# about sampling; stranger: a user without a group, whose limits are refused or, where that is accepted, watched; bare: in a
# group of the user's own without controllers; part: with memory and pids, without cpu.
# What must be stopped is shown to work, too: outside, or under a limit that is large enough.
. /guest/config
role=$1
hold=/usr/bin/hold
out=/tmp/limits.$role
cd /tmp || exit 1

not_ok()
{
    echo "not ok $role: $1"
    head -c 2500 "$out" | sed 's/^/# /'
    head -c 600 "$out.err" | sed 's/^/# stderr: /'
}
verdict() { if [ $? = 0 ]; then echo "ok $role: $1"; else not_ok "$1"; fi; } # NAME: by the status of the command before it
run() { timeout 120 "$@" >"$out" 2>"$out.err" </dev/null; }
said() { grep -Eq -- "$1" "$out"; } # PATTERN in the output of the last run
held() { got=$(sed -n 's/^.*"stdout":"held \([0-9]*\).*/\1/p' "$out"); [ -n "$got" ]; } # sets $got
limit() { said "\"limit_hit\": *\"$1\""; }
no_limit() { said '"limit_hit": *null'; }
inside() { run brig run -q --json --open-files 3000 --timeout 60s "$@"; } # OPTION... -- COMMAND...
refused() # FIELD OPTION...: by its name, with the hint, and nothing ran
{
    field=$1
    shift
    run brig run "$@" -- /usr/bin/busybox echo ran
    [ $? = 125 ] && ! said ran && grep -q "lifecycle.$field of .* cannot be kept here" "$out.err" &&
        grep -q -- '--sampling accept' "$out.err"
}

# memory WAY TIER OPTION...: 30 MiB of it are too much for 16
memory()
{
    way=$1 tier=$2
    shift 2
    inside --tier "$tier" -m 900M "$@" -- $hold "$way" 30 0
    held && [ "$got" = 30 ] && no_limit
    verdict "control: $tier has 30 MiB in $way"
    inside --tier "$tier" -m 16M "$@" -- $hold "$way" 30 30
    limit memory || { held && [ "$got" -lt 16 ]; }
    verdict "$tier holds $way to the memory limit"
}

# cpu_time OPTION...: children that nobody waits for
cpu_time()
{
    run $hold unwaited 600 0
    [ "$(sed -n 's/^told of //p' "$out")" -lt 400 ] && said '^held 600$'
    verdict "control: the time of such children is nobody's"
    inside --cpu-time 1s "$@" -- $hold unwaited 20000 0
    limit cpu_time
    verdict "the time of children that nobody waits for is limited"
}

# disk TIER OPTION...: 24 MiB in deleted files are too much for 8
disk()
{
    tier=$1
    shift
    inside --tier "$tier" --disk 64M "$@" -- $hold deleted 24 0
    held && [ "$got" = 24 ] && no_limit
    verdict "control: $tier has 24 MiB in deleted files"
    inside --tier "$tier" --disk 8M "$@" -- $hold deleted 24 2
    limit disk
    verdict "$tier holds deleted files to the disk limit"
}

# The kernel counts for one user as for the other: once will do for most, but in the full form.
once() { [ "$role" = user ] && [ -z "$FULL" ] || "$@"; }

case $role in
root | user)
    once memory pipes container
    once memory shared container
    memory socketpairs container
    memory tcp container
    said '"memory": *"16777216 by cgroup, swap off"' && ! said 'memory_overrun'
    verdict "the receipt says that the memory limit is kept"
    once memory shared process
    cpu_time
    said '"cpu_time_ms": *"1000 by cgroup' && ! said 'cpu_time_ms_overrun'
    verdict "the receipt says that the time limit is kept"
    inside --cpus 0.5 --pids 40 -- /usr/bin/busybox true
    said '"cpus_milli": *"500 by cgroup"' && said '"pids": *"40 by cgroup"'
    verdict "and those of processors and tasks"
    once disk container
    refused disk --tier process --disk 8M
    verdict "process: a disk limit that is only watched is refused"
    once disk process --sampling accept
    ;;
stranger)
    refused memory -m 32M && refused cpu_time --cpu-time 1s && refused cpus --cpus 0.5
    verdict "what no group keeps is refused"
    # tests/integration/test_watched.py knows more of them, pipes as well.
    for way in socketpairs ${FULL:+pipes} tcp; do
        memory $way container --sampling accept
    done
    said 'memory_overrun'
    verdict "the receipt says what can be overrun"
    inside --sampling accept -m 16M -- $hold shared 30 0
    held && [ "$got" = 0 ]
    verdict "memory that no look would find is refused"
    cpu_time --sampling accept
    disk container
    ;;
bare)
    refused memory -m 32M && grep -q 'memory and pids are not delegated to' "$out.err"
    verdict "a group without controllers keeps nothing, and that is said"
    ;;
part)
    inside -m 32M -- /usr/bin/busybox true
    said '"memory": *"33554432 by cgroup, swap off"'
    verdict "memory is kept"
    refused cpus --cpus 0.5
    verdict "processors are refused"
    ;;
esac
