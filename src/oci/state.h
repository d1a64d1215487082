/* The folder of a container's state: ROOT/ID, for its owner only. It holds state.json, the
 * configuration as it was at create (what comes later is judged and made by that copy: OC-7), and
 * the socket at which a created container waits. A container needs nothing of brig's beside it to
 * run on, so that no crash of a caller loses one. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "oci/cgroup.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define OCI_START_SOCKET "start.sock"
#define OCI_CONFIG_COPY  "config.json"

enum oci_status { OCI_CREATING, OCI_CREATED, OCI_RUNNING, OCI_PAUSED, OCI_STOPPED };
const char *oci_status_name(enum oci_status s);

struct oci_state {
    int root_fd, dir_fd; /* -1: none */
    char id[256];
    char bundle[4096];
    char cgroup[1024]; /* as the configuration names it */
    char created[40];
    char version[40];
    pid_t pid;
    uint64_t start; /* of the process with that pid, in ticks since boot: no other one has both */
    bool started;
    bool hooked;                        /* hooks were run for it, or were about to be */
    bool grouped;                       /* it has groups */
    char scope[256];                    /* the unit that they lie in; empty: none */
    bool host_writable, maps_host_root; /* a file of the host; who is root there inside */
    pid_t porter; /* who stands beside it while it runs (porter.h); 0: nobody */
    uint64_t porter_start;
    uint16_t proxy_port; /* where brig-proxy listens inside; 0: it does not */
    bool sign;           /* its receipt is to be signed */
    enum tier tier;
    bool sealed_network; /* start looks once more that there is no way out but brig-proxy */
};

/* Whether the caller is an ordinary user, or root in a user namespace that one made. */
bool oci_is_users(void);
/* `root` NULL: the usual place. */
int oci_root_open(const char *root, bool make, struct err *err);
/* A new one, locked; ERR_REFUSED if there is one already. */
int oci_state_make(struct oci_state *s, int root_fd, const char *id, struct err *err);
/* An old one, locked against everybody else who changes it. ERR_NOT_FOUND. */
int oci_state_open(struct oci_state *s, int root_fd, const char *id, struct err *err);
int oci_state_save(const struct oci_state *s, struct err *err);
int oci_state_keep_config(const struct oci_state *s, const char *text, size_t len, struct err *err);
/* The caller frees it. */
char *oci_state_config(const struct oci_state *s, size_t *len, struct err *err);
bool oci_state_alive(const struct oci_state *s);
enum oci_status oci_state_status(const struct oci_state *s);
/* A descriptor of the first process, checked to be that one; negative: it is gone. */
int oci_state_pidfd(const struct oci_state *s);
void oci_state_remove(struct oci_state *s);
void oci_state_done(struct oci_state *s);
/* As the specification has it, for people, engines and hooks. */
void oci_state_write(const struct oci_state *s, enum oci_status status,
                     const struct json *annotations, struct json_writer *w);
/* Writes a small file so that there is never half of one, and not through a link. */
int oci_file_replace(int dir, const char *name, const void *data, size_t len, mode_t mode,
                     struct err *err);
/* Reads a plain file that is nobody's link, of at most `max` bytes; the caller frees it. */
char *oci_file_read(int dir, const char *path, size_t max, size_t *len, struct err *err);
