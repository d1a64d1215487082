/* Attacks on the credential boundary: what the caller has must not be inside, and what brig-proxy
 * has must not come out of it. */
#include "verify/attack.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOBODY 65534

int attack_environment(struct attempt *a)
{
    const char *value = getenv(a->place->variable);
    if (!value)
        return ATTACK_NOTHING;
    attack_say(a, "%s=%.100s", a->place->variable, value);
    return 0;
}

static bool find_in(const char *text, ssize_t len, const char *name, char *out, size_t size)
{
    for (const char *at = text; at < text + len; at += strlen(at) + 1)
        if (text_begins(at, name)) {
            snprintf(out, size, "%.150s", at);
            return true;
        }
    return false;
}

/* Of every task that can be seen, init and brig-proxy among them where they can. */
int attack_task_environments(struct attempt *a)
{
    static char text[65536];
    DIR *proc = opendir("/proc");
    if (!proc)
        return errno;
    int code = ATTACK_NOTHING;
    for (struct dirent *e; code && (e = readdir(proc));) {
        char path[300];
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
        ssize_t n = file_read(AT_FDCWD, path, text, sizeof text);
        if (n > 0 && find_in(text, n, a->place->variable, a->detail, sizeof a->detail))
            code = 0;
    }
    closedir(proc);
    return code;
}

const char *const agent_variables[] = {"SSH_AUTH_SOCK",
                                       "DBUS_SESSION_BUS_ADDRESS",
                                       "DOCKER_HOST",
                                       "KUBECONFIG",
                                       "AWS_SECRET_ACCESS_KEY",
                                       "GITHUB_TOKEN",
                                       NULL};

/* Of each the value and not the name: a policy may set one of its own. */
int attack_agents(struct attempt *a)
{
    size_t used = 0;
    for (size_t i = 0; agent_variables[i]; i++) {
        const char *value = getenv(agent_variables[i]);
        if (value && used < sizeof a->detail)
            used += (size_t)snprintf(a->detail + used, sizeof a->detail - used, "%.32s ", value);
    }
    return used ? 0 : ATTACK_NOTHING;
}

/* Where engines, buses and agents listen; %d is the caller's uid. A process that can connect to one
 * of the first can become root; the others hand out keys, or act for the caller. */
static const char *const engine_sockets[] = {"/run/docker.sock",
                                             "/var/run/docker.sock",
                                             "/run/containerd/containerd.sock",
                                             "/run/podman/podman.sock",
                                             "/run/crio/crio.sock",
                                             "/run/buildkit/buildkitd.sock",
                                             "/run/k3s/containerd/containerd.sock",
                                             "/run/libvirt/libvirt-sock",
                                             "/run/snapd.socket",
                                             "/run/dbus/system_bus_socket",
                                             "/run/user/%d/bus",
                                             "/run/user/%d/docker.sock",
                                             "/run/user/%d/podman/podman.sock",
                                             "/run/user/%d/gnupg/S.gpg-agent",
                                             "/run/user/%d/gnupg/S.gpg-agent.ssh",
                                             "/run/user/%d/keyring/ssh",
                                             "/run/user/%d/ssh-agent.socket"};

/* That the name exists proves nothing: on the process tier names are visible, and only connecting
 * is refused. */
int attack_engines(struct attempt *a)
{
    int code = ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(engine_sockets); i++) {
        char path[96];
        const char *mark = strstr(engine_sockets[i], "%d");
        if (mark)
            snprintf(path, sizeof path, "%.*s%d%s", (int)(mark - engine_sockets[i]),
                     engine_sockets[i], a->place->caller, mark + 2);
        else
            snprintf(path, sizeof path, "%s", engine_sockets[i]);
        int each = attack_dial(path);
        if (each == 0) {
            attack_say(a, "%s was connected to", path);
            return 0;
        }
        code = each != ENOENT ? each : code;
    }
    return code;
}

int attack_engines_as_nobody(struct attempt *a)
{
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return errno;
    return attack_engines(a);
}

int attack_placeholder(struct attempt *a)
{
    const char *value = getenv(SECRET_NAME);
    if (!value)
        return ATTACK_NOTHING;
    attack_say(a, SECRET_NAME "=%.100s", value);
    return 0;
}

/* The origin repeats what it was sent. */
int attack_reflect(struct attempt *a)
{
    struct answer answer;
    int code = ask_get(HOST_BOUND, a->place->bound, "/reflect", NULL, "", &answer);
    const char *line = strstr(answer.text, "Authorization:");
    attack_say(a, "HTTP %d, %.150s", answer.status, line ? line : "no Authorization");
    return code;
}

static void with_placeholder(char *out, size_t size)
{
    const char *value = getenv(SECRET_NAME);
    snprintf(out, size, "Authorization: Bearer %.200s\r\nX-Key: %.200s\r\n", value ? value : "",
             value ? value : "");
}

int attack_other_origin(struct attempt *a)
{
    struct answer answer;
    char headers[512];
    with_placeholder(headers, sizeof headers);
    int code = ask_get(HOST_PLAIN, a->place->plain, "/stray", NULL, headers, &answer);
    const char *line = strstr(answer.text, "Authorization:");
    attack_say(a, "HTTP %d, %.150s", answer.status, line ? line : "no Authorization");
    return code;
}

int attack_redirect(struct attempt *a)
{
    struct answer answer;
    int code = ask_get(HOST_BOUND, a->place->bound, "/redirect", NULL, "", &answer);
    attack_say(a, "HTTP %d", answer.status);
    return code;
}

int attack_query(struct attempt *a)
{
    struct answer answer;
    char path[256];
    const char *value = getenv(SECRET_NAME);
    snprintf(path, sizeof path, "/query?k=%.200s", value ? value : "");
    int code = ask_get(HOST_BOUND, a->place->bound, path, NULL, "", &answer);
    attack_say(a, "HTTP %d", answer.status);
    return code;
}
