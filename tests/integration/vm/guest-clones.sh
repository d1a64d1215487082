#!/bin/busybox sh
# Clones of a parked machine in `brig serve`: guest-clones.sh ROLE, in a machine that can run virtual machines.
role=$1
. /guest/config
out=/tmp/clones.$role
cd /tmp || exit 1
export XDG_STATE_HOME=/tmp/state.$role API_KEY=value-of-the-secret
mkdir -p -m 700 "$XDG_STATE_HOME"
[ -n "$COUNTED" ] || export BRIG_VM_BOOT_SECONDS=1200 # how busy the host is must not matter
[ -n "$CLONES" ] || CLONES=${FULL:+20}
[ -n "$CLONES" ] || CLONES=5
python3 /guest/guest-network-server.py >/tmp/server.$role 2>&1 &
server=$!
until grep -q '^ready$' /tmp/server.$role; do sleep 1; done
timeout -s INT -k 60 2400 python3 /guest/guest-serve-clones.py "$CLONES" 2>"$out.err" </dev/null | while read -r verdict what; do
    case $verdict in
    yes) echo "ok $role: clones: $what" ;;
    no) echo "not ok $role: clones: $what" ;;
    parked) echo "# a parked machine takes $what" ;;
    esac
done
tail -c 3000 "$out.err" | sed 's/^/# stderr: /'
kill $server
