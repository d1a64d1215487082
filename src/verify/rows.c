/* The suite, row by row. docs/verify.md shows this table; a test holds the two against each other,
 * and another leaves out each guard in turn and sees that the rows that name it fail, and no other.
 */
#include "verify/row.h"

#include "base/cleanup.h"

#define K       BOUNDARY_KERNEL
#define F       BOUNDARY_FILESYSTEM
#define N       BOUNDARY_NETWORK
#define C       BOUNDARY_CREDENTIALS
#define L       BOUNDARY_LIFECYCLE
#define BIT(id) GUARD_BIT(id)

/* {id, boundary, scene, flags, title, attack, look, check, process, container} */
#define TRY(id, boundary, flags, title, attack, process, container)                                \
    {                                                                                              \
        id, boundary, SCENE_PLAIN, flags, title, attack, NULL, NULL, process, container            \
    }
#define LOOK(id, boundary, flags, title, look, process, container)                                 \
    {                                                                                              \
        id, boundary, SCENE_PLAIN, flags, title, NULL, look, NULL, process, container              \
    }
#define SEEN(id, boundary, flags, title, attack, check, process, container)                        \
    {                                                                                              \
        id, boundary, SCENE_PLAIN, flags, title, attack, NULL, check, process, container           \
    }
#define AT(id, boundary, scene, flags, title, attack, check, process, container)                   \
    {                                                                                              \
        id, boundary, scene, flags, title, attack, NULL, check, process, container                 \
    }

/* A module's: of the wasm tier alone. */
#define MODULE(id, boundary, scene, flags, title, check, wasm)                                     \
    {                                                                                              \
        id, boundary, scene, ROW_MODULE | (flags), title, NULL, NULL, check, 0, wasm               \
    }

#define FILTER BIT(SECCOMP)

/* clang-format off */
const struct row rows[] = {
    /* ---- kernel ---- */
    TRY("K-01.inherited", K, 0, "a descriptor that the caller forgot open leads to the host", attack_inherited,
        0, 0),
    TRY("K-01.open", K, 0, "descriptors beyond 0, 1 and 2 are open", attack_descriptors,
        BIT(DESCRIPTORS), BIT(DESCRIPTORS)),
    TRY("K-02", K, 0, "the program that runs the sandbox, overwritten through /proc", attack_own_image, 0, 0),
    TRY("K-05.int80", K, ROW_ANSWERED, "system calls by the 32-bit entry", attack_int80, FILTER, FILTER),
    TRY("K-05.x32", K, 0, "system calls by their x32 numbers", attack_x32, FILTER, FILTER),
    TRY("K-07.user", K, ROW_ANSWERED, "a new user namespace (unshare)", attack_unshare_user, FILTER, 0),
    TRY("K-07.all", K, ROW_ANSWERED, "new namespaces of all kinds (unshare)", attack_unshare_all, FILTER, 0),
    TRY("K-07.clone3", K, ROW_ANSWERED, "new namespaces by clone3, whose flags no filter can see", attack_clone_mount, FILTER, 0),
    LOOK("K-07.ns-user", K, ROW_CONTAINER, "it has a user namespace of its own", look_ns_user, 0, BIT(NS_USER)),
    LOOK("K-07.ns-mount", K, ROW_CONTAINER, "it has a mount namespace of its own", look_ns_mnt, 0, BIT(NS_MOUNT)),
    LOOK("K-07.ns-pid", K, ROW_CONTAINER, "it has a pid namespace of its own", look_ns_pid, 0, BIT(NS_PID)),
    LOOK("K-07.ns-ipc", K, ROW_CONTAINER, "it has an ipc namespace of its own", look_ns_ipc, 0, BIT(NS_IPC)),
    LOOK("K-07.ns-uts", K, ROW_CONTAINER, "it has a uts namespace of its own", look_ns_uts, 0, BIT(NS_UTS)),
    LOOK("K-07.ns-cgroup", K, ROW_CONTAINER, "it has a cgroup namespace of its own", look_ns_cgroup, 0, BIT(NS_CGROUP)),
    LOOK("K-07.maps", K, ROW_CONTAINER, "one id of the host is mapped, and no more", look_maps, 0, BIT(NS_USER)),
    TRY("K-08.mount", K, ROW_PRIVATE, "mounting", attack_mount, 0, 0),
    TRY("K-08.remount", K, ROW_PRIVATE, "making a read-only mount writable", attack_remount, 0, 0),
    TRY("K-08.umount", K, ROW_PRIVATE, "taking a mount away", attack_umount, 0, 0),
    TRY("K-08.fsopen", K, ROW_PRIVATE, "mounting by the new calls (fsopen)", attack_fsopen, 0, 0),
    TRY("K-08.tree", K, ROW_PRIVATE, "a copy of the mount tree (open_tree)", attack_open_tree, 0, 0),
    TRY("K-08.pivot", K, ROW_PRIVATE, "another root (pivot_root)", attack_pivot, 0, 0),
    TRY("K-08.chroot", K, ROW_PRIVATE, "another root (chroot)", attack_chroot, 0, 0),
    TRY("K-09.setns", K, ROW_PRIVATE, "joining a namespace (setns)", attack_setns, 0, 0),
    TRY("K-09.getfd", K, ROW_ANSWERED, "stealing descriptors of other tasks (pidfd_getfd)", attack_pidfd_getfd, FILTER, FILTER),
    TRY("K-10.ptrace", K, ROW_ANSWERED, "tracing a task", attack_ptrace, FILTER, FILTER),
    TRY("K-10.memory", K, ROW_ANSWERED, "reading a task's memory (process_vm_readv)", attack_vm_read, FILTER, FILTER),
    TRY("K-10.host", K, 0, "opening the memory of a process of the host", attack_other_memory, 0, 0),
    TRY("K-12", K, ROW_ANSWERED, "typing into a terminal (TIOCSTI)", attack_tiocsti, 0, FILTER),
    TRY("K-13.add", K, ROW_ANSWERED, "kernel keys (add_key)", attack_add_key, FILTER, FILTER),
    TRY("K-13.find", K, ROW_TOKEN, "the caller's kernel keys are read", attack_find_key, 0, 0),
    TRY("K-14", K, ROW_ANSWERED, "io_uring, which no filter looks into", attack_io_uring, FILTER, FILTER),
    TRY("K-15.bpf", K, ROW_ANSWERED, "programs for the kernel (bpf)", attack_bpf, 0, 0),
    TRY("K-15.perf", K, ROW_ANSWERED, "measuring others (perf_event_open)", attack_perf, FILTER, FILTER),
    LOOK("K-17.capabilities", K, 0, "it has no capability", look_capabilities, 0, BIT(CAPABILITIES)),
    LOOK("K-17.privileges", K, 0, "it cannot gain privileges by set-id programs", look_no_new_privs, 0, BIT(NO_NEW_PRIVS)),
    LOOK("K-17.filter", K, 0, "its system calls are filtered", look_seccomp, FILTER, FILTER),
    LOOK("K-17.identity", K, ROW_ROOT, "it does not run as root of the host", look_identity, 0, 0),
    LOOK("K-17.groups", K, ROW_ROOT, "it has none of the caller's groups", look_groups, BIT(GROUPS), BIT(GROUPS)),
    TRY("K-18.sys", K, ROW_ANSWERED, "the kernel's settings in /proc/sys", attack_proc_sys, BIT(LANDLOCK), BIT(PROC) | BIT(NS_PID)),
    TRY("K-18.proc", K, ROW_ANSWERED, "files of the kernel in /proc", attack_proc_kernel, BIT(LANDLOCK), BIT(PROC) | BIT(NS_PID)),
    TRY("K-18.sysfs", K, ROW_ANSWERED, "/sys", attack_sysfs, BIT(LANDLOCK), 0),
    TRY("K-19.files", K, ROW_ANSWERED, "control groups in /sys/fs/cgroup", attack_cgroup_files, BIT(LANDLOCK), 0),
    TRY("K-19.path", K, ROW_CONTAINER | ROW_CGROUP, "its place in the host's tree of control groups", attack_cgroup_path,
        0, BIT(NS_CGROUP)),
    TRY("K-20.see", K, 0, "processes of the host are seen", attack_see_host, BIT(LANDLOCK), BIT(NS_PID)),
    SEEN("K-20.signal", K, ROW_CHECK, "a process of the host gets a signal", attack_signal, check_signal, 0, 0),
    TRY("K-22.shm", K, ROW_COUNTED, "System V shared memory of the host", attack_shm, FILTER, BIT(NS_IPC)),
    TRY("K-22.queue", K, 0, "POSIX message queues of the host", attack_mqueue, 0, 0),
    TRY("K-22.name", K, ROW_CONTAINER, "the host's name", attack_host_name, 0, BIT(NS_UTS)),
    TRY("K-23.reboot", K, 0, "reboot", attack_reboot, 0, 0),
    TRY("K-23.kexec", K, 0, "another kernel (kexec_load)", attack_kexec, 0, 0),
    TRY("K-23.module", K, 0, "kernel modules", attack_module, 0, 0),
    TRY("K-23.swap", K, 0, "swap", attack_swap, 0, 0),
    TRY("K-23.clock", K, 0, "setting the clock", attack_clock, FILTER, FILTER),
    TRY("K-23.acct", K, 0, "process accounting", attack_acct, 0, 0),
    TRY("K-23.syslog", K, ROW_ANSWERED, "the kernel's log", attack_syslog, 0, 0),
    TRY("K-23.ports", K, 0, "I/O ports (iopl)", attack_iopl, 0, 0),
    TRY("K-23.faults", K, ROW_ANSWERED, "stopping the kernel in the middle (userfaultfd)", attack_userfault, FILTER, FILTER),
    TRY("K-23.handles", K, ROW_ANSWERED, "files by handle, past all folders", attack_handle, FILTER, FILTER),
    TRY("K-23.quota", K, 0, "disk quotas", attack_quota, FILTER, FILTER),
    TRY("K-23.name", K, ROW_PRIVATE, "setting the host's name", attack_hostname, 0, 0),
    TRY("K-23.persona", K, ROW_ANSWERED, "an older kernel's rules (personality)", attack_personality, FILTER, FILTER),
    TRY("K-23.kcmp", K, ROW_ANSWERED, "comparing kernel objects (kcmp)", attack_kcmp, FILTER, FILTER),
    TRY("K-23.ldt", K, ROW_ANSWERED, "segments of the processor (modify_ldt)", attack_modify_ldt, FILTER, FILTER),
    TRY("K-30", K, ROW_ANSWERED, "device nodes of the host", attack_devices, 0, 0),

    LOOK("G-01.spaces", K, ROW_SENTRY, "namespaces that an engine gave its code are the host's",
         look_engine_namespaces, 0, 0),
    AT("G-01.engine", K, SCENE_ENGINE, ROW_SENTRY, "an engine that was broken into: all of this, from its place",
       attack_as_engine, NULL, 0,
       FILTER | BIT(ENVIRONMENT) | BIT(PROC) | BIT(NS_PID) | BIT(NS_UTS) | BIT(NS_NET) | BIT(ROOT) | BIT(NS_MOUNT) | BIT(DESCRIPTORS)),
    AT("V-16.place", K, SCENE_ENGINE, ROW_GUEST, "a monitor that was broken into: all of this, from its place",
       attack_as_engine, NULL, 0,
       FILTER | BIT(ENVIRONMENT) | BIT(PROC) | BIT(NS_PID) | BIT(NS_UTS) | BIT(NS_NET) | BIT(DESCRIPTORS)),
    LOOK("V-16.threads", K, ROW_GUEST, "a thread of the monitor without a filter of its own", look_monitor_threads, 0, FILTER),
    LOOK("V-16.devices", K, ROW_GUEST, "a device of the host, open in the monitor", look_engine_devices, 0, 0),
    LOOK("G-03", K, ROW_SENTRY, "devices that an engine gave its code are the host's", look_engine_devices, 0, 0),
    LOOK("G-06", K, ROW_SENTRY, "somebody but brig tells the engine how to run", look_engine_options, 0, 0),
    MODULE("W-04.closed", K, SCENE_MODULE, 0, "module: a descriptor that is not in its table", NULL, BIT(WASM_TABLE)),
    MODULE("W-04.onto", K, SCENE_MODULE, 0, "module: a descriptor in the place of a granted folder", NULL, BIT(WASM_TABLE)),
    MODULE("W-05.past", K, SCENE_MODULE_EDGE, 0, "module: a result past the end of its memory", NULL, BIT(WASM_MEMORY)),
    MODULE("W-05.pieces", K, SCENE_MODULE_EDGE, 0, "module: a list of pieces past the end of its memory", NULL, BIT(WASM_MEMORY)),
    MODULE("W-05.wrap", K, SCENE_MODULE_EDGE, 0, "module: an address and a length that wrap", NULL, BIT(WASM_MEMORY)),
    MODULE("W-09", K, SCENE_MODULE_IMPORT, ROW_REFUSED, "module: an import that is JavaScript's, not WASI's", NULL, BIT(WASM_IMPORTS)),
    {"W-10", K, SCENE_MODULE, ROW_MODULE | ROW_NOEXEC, "module: its runner has memory to write and execute", NULL, look_executable,
     NULL, 0, BIT(WASM_NOEXEC)},

    /* ---- filesystem ---- */
    TRY("F-01.read", F, 0, "a file of the host is read", attack_read_canary, BIT(LANDLOCK), 0),
    SEEN("F-01.write", F, 0, "a file of the host is written", attack_write_canary, check_file, BIT(LANDLOCK), 0),
    SEEN("F-01.create", F, 0, "a file is made on the host", attack_create, check_drop, BIT(LANDLOCK), 0),
    TRY("F-01.stat", F, ROW_CONTAINER | ROW_PASSED, "that a file exists on the host is seen", attack_stat_canary, 0, BIT(ROOT) | BIT(NS_MOUNT)),
    TRY("F-01.tmp", F, 0, "the host's /tmp is listed", attack_list_tmp, BIT(LANDLOCK), 0),
    TRY("F-01.homes", F, 0, "homes and data of the host are listed", attack_list_homes, BIT(LANDLOCK), 0),
    TRY("F-01.proc", F, 0, "the host's root through /proc/PID/root", attack_proc_root, BIT(LANDLOCK), 0),
    TRY("F-01.etc", F, 0, "the host's /etc: accounts, hosts, keys", attack_shadow, BIT(LANDLOCK), 0),
    TRY("F-02", F, ROW_CONTAINER, "up and out of a chroot", attack_climb, 0, BIT(ROOT) | BIT(NS_MOUNT)),
    TRY("F-05", F, 0, "a hard link to a file of the host", attack_link, BIT(LANDLOCK), 0),
    TRY("F-11.system", F, ROW_READ_ONLY, "the system is changed", attack_system_write, 0, 0),
    LOOK("F-11.mounts", F, ROW_CONTAINER | ROW_LAYER, "the system is read-only, or below the sandbox's own layer", look_system_writable, 0,
         BIT(READ_ONLY) | BIT(ROOT) | BIT(NS_MOUNT)),
    AT("F-11.contents", F, SCENE_GRANTS, 0, "a folder granted to be read is written", attack_grant_write, check_granted,
       BIT(LANDLOCK), BIT(READ_ONLY)),
    AT("F-11.modes", F, SCENE_GRANTS, ROW_OWNER, "modes in a folder granted to be read are changed", attack_grant_meta,
       check_mode, FILTER, BIT(READ_ONLY) | BIT(ROOT) | BIT(NS_MOUNT)),
    TRY("F-12", F, 0, "a device node is made", attack_device_node, 0, 0),
    AT("F-13.grant", F, SCENE_GRANTS, ROW_CHECK, "a set-id file is left in a granted folder", attack_grant_set_id, check_set_id,
       FILTER, FILTER),
    LOOK("F-13.mounts", F, ROW_CONTAINER, "no mount honours set-id bits", look_mount_flags, 0, BIT(ROOT) | BIT(NS_MOUNT)),
    AT("F-04", F, SCENE_GRANTS, ROW_TOKEN, "a link in a granted folder leads out of it", attack_grant_climb, NULL, BIT(LANDLOCK), 0),
    TRY("F-20", F, ROW_CLOSED | ROW_PASSED, "Landlock, the second layer, alone", attack_landlock, BIT(LANDLOCK), BIT(LANDLOCK)),
    TRY("F-28", F, ROW_NOEXEC | ROW_WORKSPACE, "a program that was written is executed", attack_exec_written, 0, 0),
    SEEN("F-21.socket", F, 0, "a socket file of the host: engines, buses, agents", attack_socket, check_socket,
         FILTER, BIT(ROOT) | BIT(NS_MOUNT)),
    AT("F-21.grant", F, SCENE_GRANTS, ROW_NO_SOCKETS, "a socket file in a granted folder", attack_grant_socket,
       check_granted_socket, FILTER, FILTER),
    MODULE("W-01.climb", F, SCENE_MODULE, 0, "module: a path climbs out of a granted folder", NULL, BIT(WASM_PATHS)),
    MODULE("W-01.absolute", F, SCENE_MODULE, 0, "module: an absolute path", NULL, BIT(WASM_PATHS)),
    MODULE("W-02.follow", F, SCENE_MODULE, 0, "module: a link leads out of a granted folder", NULL, BIT(WASM_PATHS)),
    MODULE("W-02.absolute", F, SCENE_MODULE, 0, "module: an absolute link is left in a granted folder", NULL, BIT(WASM_PATHS)),
    MODULE("W-03.reopen", F, SCENE_MODULE, 0, "module: more is opened through a folder than it may", NULL, BIT(WASM_RIGHTS)),
    MODULE("W-03.raise", F, SCENE_MODULE, 0, "module: the rights of a descriptor are raised", NULL, BIT(WASM_RIGHTS)),
    MODULE("W-03.write", F, SCENE_MODULE, 0, "module: a folder granted to be read is written", check_module, 0),
    MODULE("W-03.link", F, SCENE_MODULE, 0, "module: a file to be read is linked into a writable folder", NULL, 0),

    AT("V-12", F, SCENE_GRANTS, ROW_GUEST | ROW_CHECK, "a special file of the code's appears in a granted folder",
       attack_grant_special, check_special, 0, 0),
    AT("G-05", F, SCENE_GRANTS, ROW_SENTRY | ROW_CHECK, "a socket of the code's appears in a granted folder", attack_grant_bind,
       check_bound, 0, 0),

    /* ---- network ---- */
    SEEN("N-01.tcp", N, ROW_CHECK | ROW_PASSED, "TCP to the host's loopback", attack_tcp, check_tcp, 0, BIT(NS_NET)),
    SEEN("N-01.tcp6", N, ROW_CHECK | ROW_IPV6 | ROW_PASSED, "TCP to the host's loopback, IPv6", attack_tcp6, check_tcp6, 0, BIT(NS_NET)),
    SEEN("N-01.udp", N, ROW_CHECK | ROW_PASSED, "UDP to the host's loopback", attack_udp, check_udp, FILTER, BIT(NS_NET)),
    TRY("N-01.interfaces", N, ROW_PASSED, "an interface other than loopback", attack_interfaces, FILTER, BIT(NS_NET)),
    SEEN("N-01.abstract", N, 0, "an abstract UNIX socket of the host", attack_abstract, check_abstract, 0, 0),
    LOOK("N-01.namespace", N, ROW_CONTAINER, "it has a network namespace of its own", look_ns_net, 0, BIT(NS_NET)),
    TRY("N-19", N, ROW_PASSED, "the host by the address 0.0.0.0", attack_any_address, 0, BIT(NS_NET)),
    LOOK("N-18", N, 0, "a port that is opened inside is reached from outside", look_inbound, 0, BIT(NS_NET)),
    TRY("N-16.packet", N, ROW_PRIVATE | ROW_ANSWERED, "packet sockets", attack_packet, 0, 0),
    TRY("N-16.raw", N, ROW_PRIVATE | ROW_ANSWERED, "raw sockets", attack_raw, 0, 0),
    TRY("N-16.netlink", N, ROW_ANSWERED, "netfilter by netlink", attack_netlink, FILTER, FILTER),
    TRY("N-16.vsock", N, 0, "the machine's host (vsock)", attack_vsock, FILTER, FILTER),
    AT("N-05.rule", N, SCENE_NETWORK, ROW_PROXY, "a host that no rule names", attack_no_rule, check_closed,
       BIT(RULES), BIT(RULES)),
    AT("N-05.alike", N, SCENE_NETWORK, ROW_PROXY, "a host that looks like an allowed one", attack_lookalike, NULL,
       BIT(RULES), BIT(RULES)),
    AT("N-07", N, SCENE_NETWORK, ROW_PROXY, "another port of an allowed host", attack_port, NULL, BIT(RULES), BIT(RULES)),
    AT("N-08.connect", N, SCENE_NETWORK, ROW_PROXY, "a tunnel to a host that no rule names", attack_connect, NULL,
       BIT(RULES), BIT(RULES)),
    AT("N-08.host", N, SCENE_NETWORK, ROW_PROXY, "one host in the URL, another in the Host header", attack_mismatch, NULL,
       0, 0),
    AT("N-21", N, SCENE_NETWORK, ROW_PROXY, "an address instead of a name", attack_literal, NULL, BIT(RULES), BIT(RULES)),
    AT("N-02", N, SCENE_NETWORK, ROW_PROXY, "the cloud's metadata address", attack_metadata, NULL, 0, 0),
    AT("N-03", N, SCENE_NETWORK, ROW_PROXY, "an allowed name that leads to the host's loopback", attack_private_name,
       check_inner, BIT(ADDRESS), BIT(ADDRESS)),
    AT("N-12", N, SCENE_NETWORK, ROW_PROXY, "data in names that are asked for", attack_dns_tunnel, check_dns, 0, 0),

    /* ---- credentials ---- */
    TRY("C-01.environment", C, ROW_PASSED, "the caller's environment", attack_environment, BIT(ENVIRONMENT), BIT(ENVIRONMENT)),
    TRY("C-01.tasks", C, ROW_TOKEN | ROW_PASSED, "the environments of other tasks", attack_task_environments, 0, BIT(ENVIRONMENT)),
    TRY("C-13.variables", C, ROW_TOKEN | ROW_PASSED, "agents, engines and keys, by variables of the caller", attack_agents,
        BIT(ENVIRONMENT), BIT(ENVIRONMENT)),
    TRY("C-13.sockets", C, ROW_ENGINE, "a socket of an engine, a bus or an agent of this host", attack_engines,
        FILTER, BIT(ROOT) | BIT(NS_MOUNT)),
    AT("C-01.secret", C, SCENE_NETWORK, ROW_TOKEN, "the value of a secret", attack_placeholder, NULL, 0, 0),
    AT("C-05", C, SCENE_NETWORK, ROW_TOKEN | ROW_PROXY, "a secret that the origin repeats", attack_reflect, NULL,
       BIT(REDACTION), BIT(REDACTION)),
    AT("C-02", C, SCENE_NETWORK, ROW_TOKEN | ROW_PROXY, "a secret goes to another origin", attack_other_origin,
       check_other_origin, BIT(ORIGIN), BIT(ORIGIN)),
    AT("C-03", C, SCENE_NETWORK, ROW_TOKEN | ROW_PROXY, "a secret follows a redirect", attack_redirect, check_redirect,
       0, 0),
    AT("C-14", C, SCENE_NETWORK, ROW_TOKEN | ROW_PROXY, "a secret where it was not declared: in a query", attack_query,
       check_query, 0, 0),

    /* ---- lifecycle ---- */
    AT("R-01", L, SCENE_PIDS, 0, "a fork bomb", attack_fork_bomb, NULL, BIT(PIDS), BIT(PIDS)),
    AT("R-04", L, SCENE_MEMORY, ROW_SILENT, "more memory than allowed", attack_memory, NULL, BIT(MEMORY), BIT(MEMORY)),
    TRY("R-06.nice", L, ROW_ANSWERED, "a higher priority (nice)", attack_nice, 0, 0),
    TRY("R-06.realtime", L, ROW_ANSWERED, "a higher priority (real time)", attack_realtime, 0, 0),
    TRY("R-06.limits", L, 0, "raising its own limits", attack_raise_limit, 0, 0),
    AT("R-06.cpu", L, SCENE_CPU, ROW_SILENT, "more CPU time than allowed", attack_cpu, NULL, BIT(CPU_TIME), BIT(CPU_TIME)),
    AT("R-07", L, SCENE_DEADLINE, ROW_SILENT, "past the deadline, deaf to signals", attack_deadline, NULL, BIT(TIMEOUT),
       BIT(TIMEOUT)),
    AT("R-08", L, SCENE_LEAVE, ROW_MARKED, "tasks in sessions of their own outlive the run", attack_leave_tasks, NULL,
       BIT(TEARDOWN), 0),
    AT("R-09", L, SCENE_FILES, 0, "more open files than allowed", attack_open_files, NULL, BIT(OPEN_FILES),
       BIT(OPEN_FILES)),
    AT("R-11.bytes", L, SCENE_DISK, ROW_SILENT | ROW_WORKSPACE, "more bytes in the workspace than allowed", attack_disk,
       NULL, BIT(DISK), BIT(DISK)),
    AT("R-11.files", L, SCENE_INODES, ROW_SILENT | ROW_WORKSPACE, "more files in the workspace than allowed",
       attack_inodes, NULL, BIT(INODES), BIT(INODES)),
    AT("R-12", L, SCENE_OUTPUT, ROW_CHECK | ROW_SILENT, "more output than allowed", attack_flood, NULL, BIT(OUTPUT), BIT(OUTPUT)),
    LOOK("R-15", L, 0, "core files", look_limits, 0, 0),
    AT("L-02", L, SCENE_KILLED, ROW_MARKED | ROW_SILENT, "tasks outlive a supervisor that was killed", attack_wait_for_kill,
       NULL, BIT(SUPERVISOR), BIT(SUPERVISOR)),
    AT("L-01", L, SCENE_KILLED, ROW_MARKED | ROW_SILENT, "files of a sandbox whose supervisor was killed stay", NULL, NULL,
       BIT(SUPERVISOR), BIT(SUPERVISOR)),
    AT("G-07", L, SCENE_SENTRY, ROW_SENTRY | ROW_MARKED | ROW_SILENT, "tasks outlive an engine whose kernel was killed",
       attack_wait_for_kill, NULL, 0, 0),
    MODULE("W-06.count", L, SCENE_MODULE, 0, "module: more events are awaited than fit into memory", NULL, 0),
    MODULE("W-06.sleep", L, SCENE_MODULE_DEADLINE, ROW_SILENT, "module: asleep past the deadline", NULL, BIT(TIMEOUT)),
    MODULE("W-07", L, SCENE_MODULE, 0, "module: descriptors without end", NULL, 0),
    MODULE("W-08.memory", L, SCENE_MODULE_MEMORY, ROW_SILENT, "module: memory that grows past the limit", NULL, BIT(MEMORY)),
    MODULE("W-08.loop", L, SCENE_MODULE_CPU, ROW_SILENT, "module: an endless loop", NULL, BIT(CPU_TIME)),
};
/* clang-format on */
const size_t row_count = ARRAY_LEN(rows);
_Static_assert(ARRAY_LEN(rows) <= ROWS_MAX, "room for the results of each row");

const char *guard_name(enum guard g)
{
    static const char *const names[GUARD_COUNT] = {
#define GUARD(id, name, what) [GUARD_##id] = name,
        GUARDS(GUARD)
#undef GUARD
    };
    return (unsigned)g < GUARD_COUNT ? names[g] : "";
}

const char *scene_name(enum scene_id scene)
{
    static const char *const names[SCENE_COUNT] = {
        "plain",         "grants",        "network",    "pids",           "files",  "memory",
        "disk",          "inodes",        "output",     "deadline",       "cpu",    "leave",
        "killed",        "sentry",        "engine",     "limits",         "module", "module edge",
        "module import", "module memory", "module cpu", "module deadline"};
    return (unsigned)scene < SCENE_COUNT ? names[scene] : "";
}

bool scene_has_module(enum scene_id scene)
{
    return scene >= SCENE_MODULE && scene < SCENE_COUNT;
}

bool row_on_tier(const struct row *r, enum tier tier)
{
    bool guest = tier == TIER_VM;
    if ((r->flags & ROW_GUEST) || (guest && (r->flags & ROW_SENTRY)))
        return guest && (r->flags & ROW_GUEST);
    if (tier_runs_modules(tier))
        return r->scene != SCENE_NETWORK && !(r->flags & ROW_SENTRY);
    return !(r->flags & ROW_MODULE);
}

enum scene_id row_scene(const struct row *r, bool guest)
{
    switch (guest ? r->scene : SCENE_COUNT) {
    case SCENE_PIDS:
    case SCENE_FILES:
    case SCENE_MEMORY:
    case SCENE_DISK:
    case SCENE_INODES:
    case SCENE_OUTPUT: /* the last of them: after it the sandbox's output is not read any more */
        return SCENE_LIMITS;
    case SCENE_LEAVE:
        return SCENE_PLAIN;
    default:
        return r->scene;
    }
}
