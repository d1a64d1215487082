#!/bin/busybox sh
# Checks of the units in dist/systemd, started by systemd itself.
. /guest/config
exec >$CONSOLE 2>&1 </dev/null
stty -F $CONSOLE -opost 2>/dev/null
echo
echo "guest: up Linux $(uname -r) $(/usr/lib/systemd/systemd --version | head -n 1)"
out=/tmp/out
cd /tmp || exit 1

not_ok()
{
    echo "not ok $role: $1"
    head -c 1500 $out | sed 's/^/# /'
    $ctl status brig.service brig.socket --no-pager -l 2>&1 | head -n 40 | sed 's/^/# /'
}
verdict() { if [ $? = 0 ]; then echo "ok $role: $1"; else not_ok "$1"; fi; } # NAME: by the status of the command before it
run() { timeout 120 "$@" >$out 2>&1 </dev/null; }
said() { grep -Eq -- "$1" $out; }
until_true() # SECONDS COMMAND...
{
    seconds=$1
    shift
    while ! "$@"; do
        [ "$seconds" -gt 0 ] || return 1
        seconds=$((seconds - 1))
        sleep 1
    done
}
groups() { find /sys/fs/cgroup -type d -name 'brig-*' 2>/dev/null; }
no_groups() { [ -z "$(groups)" ]; }
main_pid() { $ctl show -p MainPID --value brig.service; }

# unit_checks: the service, then the socket, of the manager that $ctl talks to; $as runs a command as its user
unit_checks()
{
    run $ctl start brig.service
    verdict "the service starts and says that it is ready"
    run $as brig create
    id=$(head -n 1 $out)
    [ "${#id}" = 20 ]
    verdict "a sandbox is created"
    run $as brig exec "$id" -- /usr/bin/busybox echo inside && said '^inside$'
    verdict "a command runs in it"
    groups >$out && said "$group"
    verdict "its group is below the unit's"
    before=$(main_pid)
    run $ctl reload brig.service && [ "$(main_pid)" = "$before" ] && run $as brig ps && said "$id"
    verdict "a reload keeps it"
    kill -9 "$before"
    changed() { [ "$(main_pid)" != "$before" ] && [ "$(main_pid)" != 0 ]; }
    until_true 60 changed
    verdict "a killed service is started again"
    ready() { run $as brig create; }
    until_true 60 ready
    verdict "and works"
    run $ctl stop brig.service && until_true 60 no_groups
    verdict "a stopped one leaves no cgroup"
    [ "$($ctl show -p Result --value brig.service)" = success ]
    verdict "and ends in order"

    run $ctl start brig.socket && ! $ctl is-active -q brig.service
    verdict "the socket waits, the service does not run"
    run $as brig create
    id=$(head -n 1 $out)
    [ "${#id}" = 20 ] && $ctl is-active -q brig.service
    verdict "the first client starts it"
    run $ctl stop brig.socket brig.service && until_true 60 no_groups
    verdict "the socket and the service stop"
}

# A container of an engine that leaves the groups to systemd.
container_checks()
{
    bundle=/tmp/bundle states=/tmp/states scope=libpod-one.scope
    mkdir -p $bundle/rootfs/bin $bundle/rootfs/proc
    cp /bin/busybox $bundle/rootfs/bin/
    cat >$bundle/config.json <<END
{"ociVersion": "1.0.2", "process": {"user": {"uid": 0, "gid": 0}, "args": ["/bin/busybox", "sleep", "1000000"], "cwd": "/"}, "root": {"path": "rootfs"},
 "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
 "linux": {"cgroupsPath": "machine-brig.slice:libpod:one", "resources": {"memory": {"limit": 67108864}, "pids": {"limit": 20}},
  "namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "user"}, {"type": "cgroup"}]}}
END
    oci() { run brig oci --systemd-cgroup --root $states "$@"; }
    limits() { cat $inside/memory.max $inside/pids.max >$out 2>&1 && [ "$(tr '\n' ' ' <$out)" = "67108864 20 " ]; }
    oci create --bundle $bundle one && oci start one
    verdict "a container starts in a scope"
    inside=$(find /sys/fs/cgroup -type d -path "*/machine.slice/machine-brig.slice/$scope/container")
    [ "$(wc -l <$inside/cgroup.procs)" = 1 ] && limits
    verdict "its group has its limits"
    run systemctl set-property --runtime $scope MemoryMax=infinity TasksMax=infinity && run systemctl daemon-reload && limits
    verdict "what the manager writes does not reach them"
    oci exec one /bin/busybox cat /proc/self/cgroup && said '^0::/$'
    verdict "exec is in the same group"
    oci delete --force one && ! systemctl is-active -q $scope && [ ! -e "$inside" ]
    verdict "a container that is deleted leaves no scope"
}

ifconfig lo up
chown -R 1000:1000 /home/user
mkdir -p /run/user/1000
chown 1000:1000 /run/user/1000
chmod 700 /run/user/1000

role=system ctl=systemctl as= group=/system.slice/brig.service/
unit_checks
container_checks

role=user
run systemctl start user-manager.service
verdict "control: the user has a manager"
ctl="setpriv_user systemctl --user" as=setpriv_user group=/user-manager.service/
setpriv_user() { XDG_RUNTIME_DIR=/run/user/1000 HOME=/home/user /usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups "$@"; }
timeout() { shift; "$@"; } # a function cannot be run by the program of that name
unit_checks
systemctl stop user-manager.service

echo "guest: done"
sleep 1
reboot -f
