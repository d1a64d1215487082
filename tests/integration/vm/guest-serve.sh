#!/bin/busybox sh
# Checks of `brig serve` inside the test machine: guest-serve.sh ROLE. root: in a plain group below one with controllers;
# user: in a delegated subtree.
. /guest/config
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
get() { run wget -q -O - --header "X-API-KEY: $key" "$url$1"; } # PATH
tool() # NAME ARGUMENTS: a tool of MCP
{
    run wget -q -O - --header "X-API-KEY: $key" --header 'Content-Type: application/json' \
        --header 'Accept: application/json, text/event-stream' --post-data \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"$1\",\"arguments\":$2}}" "$url/mcp"
}
tight() # FILE: of the groups with little memory (the sandbox's, and what may be kept ready for the next)
{
    for group in $(groups); do
        [ "$(cat $group/memory.max)" != 100663296 ] || cat "$group/$1"
    done
}
oom_kills() { tight memory.events | awk '$1 == "oom_kill" { n += $2 } END { print n }'; }
frozen() { cat $(groups | sed 's,$,/cgroup.events,') 2>/dev/null | grep -q '^frozen 1'; }
not_frozen() { ! frozen; }

mkdir -p "$state/templates"
chmod 700 "$state"
printf 'description: little memory\npolicy: {lifecycle: {memory: 96M}}\n' >"$state/templates/tight.yaml"
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

# Out of memory is the end of one process, which is told, and of nothing else.
short_of_memory()
{
    hog='b = bytearray(200 << 20)'
    told='oom_killed: .*limit 96M.*lifecycle.memory in template tight'
    tool create_session '{"template":"tight"}'
    id=$(sed -n 's/.*"session_id": *"\([^"]*\)".*/\1/p' "$out")
    [ "${#id}" = 20 ]
    verdict "a sandbox with little memory is created"
    tight memory.oom.group | grep -q '^0$' && ! tight memory.oom.group | grep -q '^1$' && [ "$(oom_kills)" = 0 ]
    verdict "its group kills one process, not all"
    post 49999 '{"code":"kept = 41"}' /execute
    run brig exec --state "$state" "$id" -- python3 -c "$hog"
    [ $? = 137 ] && grep -Eq "$told" "$out.err"
    verdict "a command that takes too much is killed and told"
    [ "$(oom_kills)" = 1 ]
    verdict "the group has counted one"
    post 49999 '{"code":"print(kept + 1)"}' /execute && said '"text": *"42'
    verdict "the interpreter keeps what it had"
    tool run_command "{\"session_id\":\"$id\",\"command\":\"python3\",\"args\":[\"-c\",\"$hog\"]}"
    said '"isError": *true' && said '"oom_killed": *true' && said '"memory_limit": *100663296' && said "$told|96M"
    verdict "over MCP it is told, too"
    post 49999 "{\"code\":\"$hog\"}" /execute
    said '"name": *"OutOfMemory"' && said "$told"
    verdict "a cell that takes too much loses its interpreter and is told"
    post 49999 '{"code":"print(6 * 7)"}' /execute && said '"text": *"42'
    verdict "a fresh interpreter takes its place"
    [ "$(oom_kills)" = 3 ]
    verdict "the group has counted three"
    run brig rm --state "$state" "$id"
    receipt() { get "/sandboxes/$id/receipt" && said '"oom_kills": *3'; }
    until_true 30 receipt && said '"limit_hit": *null' && said '"what": *"[^"]*oom_killed' && said '"memory": *"100663296 by cgroup'
    verdict "the receipt says three, and no limit that ended it"
}
# It is the dearest part, and the kernel counts for root as for the user.
[ "$role" = root ] && [ -z "$FULL" ] || short_of_memory

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
