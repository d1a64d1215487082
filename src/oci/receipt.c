/* Receipts of containers; see receipt.h. */
#include "oci/receipt.h"

#include "audit/receipt.h"
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "os/procfs.h"
#include "sandbox/notary.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define NOTED_MAX   (64u * 1024)
#define NETWORK_MAX ((size_t)1 << 20)
#define PROOF_MAX   ((size_t)256 * 1024)

/* ---- whether it is signed ---- */

/* The chain is root's, and where root is one of a user namespace there is none. */
static bool has_chain(void)
{
    return geteuid() == 0 && !oci_is_users();
}

int oci_receipt_decide(const struct json *annotations, const struct oci_operator *o, bool *ret,
                       struct err *err)
{
    struct quoted q;
    const char *wish = json_text(annotations, OCI_KEY_RECEIPT);
    *ret = o->receipts == OCI_RECEIPTS_ALL && has_chain();
    if (!wish)
        return 0;
    if (strcmp(wish, "signed") != 0) {
        err_set(err, ERR_USAGE, "config: annotation " OCI_KEY_RECEIPT ": %s is not known",
                quote(&q, wish));
        return err_hint(err, "signed, or leave it out");
    }
    *ret = o->receipts != OCI_RECEIPTS_NONE && has_chain();
    if (*ret)
        return 0;
    err_set(err, ERR_REFUSED,
            "config: annotation " OCI_KEY_RECEIPT ": receipts of %s are not signed here",
            has_chain() ? "containers" : "an ordinary user's containers");
    return err_hint(err, "the operator of this node can say so in " OCI_OPERATOR_FILE
                         " (receipts), for containers that root makes");
}

int oci_receipt_try(struct err *err)
{
    struct notary n;
    notary_init(&n);
    int r = notary_start(&n, err);
    if (r == 0)
        r = notary_await(&n, -1, err);
    notary_forget(&n);
    notary_done(&n);
    return r < 0 ? err_wrap(err, "the receipt could not be signed") : 0;
}

/* ---- what create notes ---- */

static int write_name(struct json_writer *w, struct err *err)
{
    uint8_t random[10];
    cleanup_buf struct buf name;
    buf_init(&name, 64);
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_sys(err, "random id");
    buf_str(&name, "brig-");
    hex_write(&name, random, sizeof random);
    jw_kv_string(w, "sandbox_id", buf_text(&name));
    return 0;
}

/* Of the copy that exec and delete go by too (OC-7). */
static int hash_config(const struct oci_state *s, char ret[static 80], struct err *err)
{
    size_t len;
    char hex[SHA256_HEX_SIZE];
    cleanup_free char *config = oci_state_config(s, &len, err);
    if (!config)
        return err_number(err);
    sha256_hex(config, len, hex);
    snprintf(ret, 80, "sha256:%s", hex);
    return 0;
}

/* As in receipts of runs. */
static void write_runsc(const struct gvisor_build *b, struct json_writer *w)
{
    jw_kv_string(w, "runsc", b->path);
    jw_kv_string(w, "runsc_version", b->version);
    jw_kv_string(w, "runsc_sha256", b->hash);
    jw_kv_string(w, "runsc_platform", b->platform);
    jw_kv_bool(w, "runsc_named", b->named);
}

static void write_kernel(const struct oci_config *c, const struct oci_facts *f,
                         const struct proc_status *st, struct json_writer *w)
{
    jw_kv_object(w, "kernel");
    jw_kv_string(w, "tier", tier_name(f->walls->tier));
    if (f->engine->user_kernel)
        write_runsc(&f->engine->sentry.build, w);
    jw_kv_bool(w, "no_new_privs", st->no_new_privs == 1);
    jw_kv_string(w, "seccomp", st->seccomp == 2 ? "filter" : "none");
    jw_kv_array(w, "capabilities");
    for (int cap = 0; cap <= 40; cap++)
        if (st->cap_bnd & 1ull << cap)
            jw_string(w, oci_cap_name(cap));
    jw_array_end(w);
    jw_kv_array(w, "joined");
    for (enum oci_ns ns = 0; ns < OCI_NS_COUNT; ns++)
        if (c->ns[ns].path)
            jw_string(w, oci_ns_name(ns));
    jw_array_end(w);
    jw_object_end(w);
}

static void write_filesystem(const struct oci_state *s, const struct oci_config *c,
                             struct json_writer *w)
{
    size_t binds = 0;
    for (size_t i = 0; i < c->mount_count; i++)
        binds += c->mounts[i].type == OCI_MOUNT_BIND;
    jw_kv_object(w, "filesystem");
    jw_kv_bool(w, "root_read_only", c->root_read_only);
    jw_kv_uint(w, "mounts", c->mount_count);
    jw_kv_uint(w, "of_the_host", binds);
    jw_kv_bool(w, "host_writable", s->host_writable);
    jw_object_end(w);
}

static int write_network(const struct oci_facts *f, struct json_writer *w, struct err *err)
{
    const struct oci_porter *p = f->porter;
    jw_kv_object(w, "network");
    jw_kv_array(w, "rules");
    for (size_t i = 0; p->asked && i < p->policy.egress.rule_count; i++)
        jw_string(w, p->policy.egress.rules[i].text);
    jw_array_end(w);
    jw_key(w, "attested");
    if (oci_porter_attest(f->porter, f->pid, w, err) < 0)
        return err_number(err);
    jw_object_end(w);
    return 0;
}

static void write_lifecycle(const struct oci_config *c, const struct oci_cgroup *g,
                            struct json_writer *w)
{
    jw_kv_object(w, "lifecycle");
    jw_kv_string(w, "cgroup", !g->count ? "none" : g->v2 ? "v2" : "v1");
    jw_kv_int(w, "memory", c->resources.memory);
    jw_kv_int(w, "pids", c->resources.pids);
    jw_object_end(w);
}

static int write_boundaries(const struct oci_state *s, const struct oci_config *c,
                            const struct oci_facts *f, struct json_writer *w, struct err *err)
{
    struct proc_status st;
    if (procfs_status(f->pid, &st, err) < 0)
        return err_number(err);
    jw_kv_object(w, "boundaries");
    write_kernel(c, f, &st, w);
    write_filesystem(s, c, w);
    if (write_network(f, w, err) < 0)
        return err_number(err);
    jw_kv_object(w, "credentials");
    jw_kv_uint(w, "variables", json_count(c->process.env));
    jw_object_end(w);
    write_lifecycle(c, f->groups, w);
    jw_object_end(w);
    return 0;
}

static void write_container(const struct oci_state *s, struct json_writer *w)
{
    jw_kv_object(w, "container");
    jw_kv_string(w, "id", s->id);
    jw_kv_string(w, "created", s->created);
    jw_object_end(w);
}

int oci_receipt_begin(const struct oci_state *s, const struct oci_config *c,
                      const struct oci_facts *f, struct err *err)
{
    char hash[80];
    cleanup_buf struct buf out;
    struct json_writer w;
    jw_begin(&w, &out, NOTED_MAX);
    jw_kv_int(&w, "version", RECEIPT_VERSION);
    jw_kv_string(&w, "brig_version", BRIG_VERSION);
    jw_kv_string(&w, "level", f->walls->leveled ? level_name(f->walls->level) : "none");
    jw_kv_string(&w, "tier", tier_name(f->walls->tier));
    if (write_name(&w, err) < 0 || hash_config(s, hash, err) < 0)
        return err_number(err);
    jw_kv_string(&w, "policy_hash", hash);
    jw_kv_array(&w, "weaker_than_level");
    jw_array_end(&w);
    write_container(s, &w);
    jw_kv_object(&w, "inputs");
    jw_kv_string(&w, "config", hash);
    jw_object_end(&w);
    if (write_boundaries(s, c, f, &w, err) < 0)
        return err_number(err);
    jw_object_end(&w);
    if (out.failed)
        return err_set(err, ERR_LIMIT, "the receipt of %s is too long", s->id);
    return oci_file_replace(s->dir_fd, OCI_RECEIPT_FILE, out.data, out.len, 0600, err);
}

/* ---- what delete adds ---- */

void oci_receipt_count(const struct oci_cgroup *g, struct oci_usage *ret)
{
    int64_t cpu = g->count ? oci_cgroup_cpu_ns(g) : -1;
    int64_t peak =
        !g->count
            ? -1
            : oci_cgroup_number(g, "memory", g->v2 ? "memory.peak" : "memory.max_usage_in_bytes");
    ret->counted = cpu >= 0 && peak >= 0;
    ret->cpu_usec = ret->counted ? (uint64_t)cpu / 1000 : 0;
    ret->memory_peak = ret->counted ? (uint64_t)peak : 0;
}

static struct json *read_part(const struct oci_state *s, const char *name)
{
    size_t len;
    struct json *j = NULL;
    struct err err = ERR_INIT;
    cleanup_free char *text = oci_file_read(s->dir_fd, name, NETWORK_MAX, &len, &err);
    return text && json_parse(text, len, &json_default_limits, &j, &err) == 0 ? j : NULL;
}

/* What passed through its standard streams did not pass here. */
static void write_usage(const struct oci_usage *u, struct json_writer *w)
{
    jw_kv_object(w, "usage");
    jw_kv_uint(w, "cpu_usec", u->cpu_usec);
    jw_kv_uint(w, "memory_peak_bytes", u->memory_peak);
    jw_kv_string(w, "memory_peak_from", u->counted ? "cgroup" : "not counted");
    jw_kv_uint(w, "stdout_bytes", 0);
    jw_kv_uint(w, "stderr_bytes", 0);
    jw_object_end(w);
}

/* The status went to the engine, whose child the first process was. */
static void write_verdict(const struct oci_state *s, const struct json *denials,
                          struct json_writer *w)
{
    static const char *const unknown[] = {"exit_code", "signal", "limit_hit"};
    jw_kv_object(w, "verdict");
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
        jw_kv_string(w, unknown[i], NULL);
    jw_kv_string(w, "ended_because", s->started ? NULL : "it was never started");
    jw_kv_uint(w, "denial_kinds", json_count(denials));
    jw_kv_uint(w, "denials_not_listed", 0);
    jw_object_end(w);
}

/* A porter that was killed could not say what it had seen; there was no way out from then on. */
static void write_seen(const struct oci_state *s, const struct json *seen, struct json_writer *w)
{
    const struct json *denials = json_get(seen, "denials");
    jw_kv_object(w, "decisions");
    jw_key(w, "denials");
    if (denials) {
        jw_json(w, denials);
    } else {
        jw_array_begin(w);
        jw_array_end(w);
    }
    jw_object_end(w);
    if (seen)
        jw_kv_json(w, "network", json_get(seen, "network"));
    if (s->porter)
        jw_kv_bool(w, "network_complete", seen != NULL);
    write_verdict(s, denials, w);
}

static void write_body(const struct oci_state *s, const struct oci_usage *u,
                       const struct json *begun, struct buf *out)
{
    char when[40];
    struct json_writer w;
    struct json *seen = s->porter ? read_part(s, OCI_NETWORK_FILE) : NULL;
    oci_log_time(when);
    jw_begin(&w, out, RECEIPT_MAX);
    for (size_t i = 0; i < json_count(begun); i++)
        jw_kv_json(&w, json_key_at(begun, i), json_value_at(begun, i));
    jw_kv_string(&w, "finished", when);
    jw_kv_object(&w, "states_usec");
    jw_object_end(&w);
    write_usage(u, &w);
    write_seen(s, seen, &w);
    jw_object_end(&w);
    json_free(seen);
}

/* ---- the signature ---- */

static int ask_notary(const struct buf *body, struct buf *proof, struct err *err)
{
    struct notary n;
    notary_init(&n);
    int r = notary_start(&n, err);
    if (r == 0)
        r = notary_ask(&n, body, err);
    if (r == 0)
        r = notary_answer(&n, proof, err);
    notary_done(&n);
    return r;
}

/* The body as it is signed: its members in the order of their names. */
static void write_signed(const struct oci_state *s, const struct buf *text, struct buf *out)
{
    struct err err = ERR_INIT;
    struct receipt r;
    cleanup_buf struct buf proof;
    buf_init(&proof, PROOF_MAX);
    buf_init(out, 2 * RECEIPT_MAX);
    receipt_init(&r);
    if (text->failed)
        err_set(&err, ERR_LIMIT, "the receipt is too long");
    else if (receipt_body_read(text->data, text->len, &r, &err) == 0 && !s->sign)
        err_set(&err, ERR_REFUSED, "the operator's file does not ask for it");
    bool good = err.code == ERR_NONE && ask_notary(&r.body, &proof, &err) == 0;
    const struct buf *body = r.body.data ? &r.body : text;
    receipt_write_signed(out, body->data, body->len, good ? buf_text(&proof) : NULL, err.message);
    receipt_done(&r);
}

static void tell(const struct oci_state *s, const struct oci_usage *u, const struct oci_log *log,
                 const struct json *begun)
{
    cleanup_buf struct buf text, whole;
    write_body(s, u, begun, &text);
    write_signed(s, &text, &whole);
    if (!whole.failed)
        oci_log_tell(log, "info", "receipt", "receipt", &whole);
}

void oci_receipt_end(const struct oci_state *s, const struct oci_usage *u, const char *path,
                     bool json)
{
    struct err err = ERR_INIT;
    struct oci_operator o;
    struct oci_log log;
    struct json *begun = read_part(s, OCI_RECEIPT_FILE);
    oci_log_init(&log);
    if (begun && oci_operator_load(&o, &err) == 0) {
        if (oci_log_open(&log, path, json, &o, &err) < 0)
            dprintf(STDERR_FILENO, "brig: %s\n", err.message);
        tell(s, u, &log, begun);
        oci_log_close(&log);
        oci_operator_done(&o);
    } else if (begun) {
        dprintf(STDERR_FILENO, "brig: the receipt is lost: %s\n", err.message);
    }
    /* Told once, although whoever removes the rest is killed. */
    unlinkat(s->dir_fd, OCI_RECEIPT_FILE, 0);
    json_free(begun);
}
