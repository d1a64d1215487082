#!/bin/busybox sh
# Checks of `brig serve` inside the test machine: guest-serve.sh ROLE. root: in a plain group below one with controllers;
# user: in a delegated subtree.
role=$1
out=/tmp/serve.$role
state=/tmp/state.$role
cd /tmp || exit 1

ok() { echo "ok $role: $1"; }
not_ok()
{
    echo "not ok $role: $1"
    head -c 1500 "$out" | sed 's/^/# /'
    head -c 600 "$out.err" | sed 's/^/# stderr: /'
    tail -c 1500 "$out.serve" | sed 's/^/# serve: /'
}
verdict() { if [ $? = 0 ]; then ok "$1"; else not_ok "$1"; fi; } # NAME: by the status of the command before it
run() { timeout 120 "$@" >"$out" 2>"$out.err" </dev/null; }
said() { grep -Eq -- "$1" "$out"; }
groups() { find /sys/fs/cgroup -type d -name 'brig-*' 2>/dev/null; }
# until SECONDS COMMAND...: it succeeds within that time
until_true()
{
    seconds=$1
    shift
    while ! "$@"; do
        [ "$seconds" -gt 0 ] || return 1
        seconds=$((seconds - 1))
        sleep 1
    done
}
no_groups() { [ -z "$(groups)" ]; }
post() # PORT BODY PATH
{
    run wget -q -O - --header "X-API-KEY: $key" --header "E2b-Sandbox-Id: $id" --header "E2b-Sandbox-Port: $1" \
        --header 'Content-Type: application/json' --post-data "$2" "$url$3"
}
frozen() { cat $(groups | sed 's,$,/cgroup.events,') 2>/dev/null | grep -q '^frozen 1'; }
not_frozen() { ! frozen; }

brig serve --listen 127.0.0.1:0 --state "$state" >"$out.serve" 2>&1 </dev/null &
daemon=$!
ready() { [ -s "$state/address" ]; }
until_true 90 ready
verdict "the daemon starts"
key=$(cat "$state/key")
url=$(grep ^http "$state/address")

run brig create --state "$state" --template python
id=$(head -n 1 "$out")
[ "${#id}" = 20 ]
verdict "a sandbox is created"
run brig exec --state "$state" "$id" -- echo inside && said '^inside$'
verdict "a command runs in it"
post 49999 '{"code":"x = 6\nprint(x * 7)"}' /execute && said '"text": *"42'
verdict "a cell runs in it"
post 49999 '{"code":"print(x + 1)"}' /execute && said '"text": *"7'
verdict "the context keeps its state"
groups | grep -q .
verdict "it has a group of cgroup v2"

not_frozen
verdict "control: nothing is frozen"
run brig pause --state "$state" "$id" && until_true 30 frozen
verdict "pause freezes its group"
run brig resume --state "$state" "$id" && until_true 30 not_frozen
verdict "resume thaws it"
post 49999 '{"code":"print(x + 2)"}' /execute && said '"text": *"8'
verdict "it goes on after that"
run brig pause --state "$state" "$id" && run brig rm --state "$state" "$id"
verdict "a frozen one can be ended"

run brig create --state "$state" --template python
id=$(head -n 1 "$out")
post 49999 '{"code":"b = bytearray(900 << 20)\nprint(len(b))"}' /execute
! said '943718400'
verdict "the memory limit holds"

kill -TERM $daemon
wait $daemon
verdict "the daemon ends in order"
until_true 30 no_groups
verdict "serve leaves no cgroup"

brig serve --listen 127.0.0.1:0 --state "$state" >"$out.serve" 2>&1 </dev/null &
daemon=$!
until_true 90 ready
run brig create --state "$state" --template python
verdict "control: it starts again"
kill -9 $daemon
until_true 30 no_groups
verdict "a killed daemon leaves no cgroup"
