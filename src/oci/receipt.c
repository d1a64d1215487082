/* Receipts of containers; see receipt.h. */
#include "oci/receipt.h"

#include "base/cleanup.h"
#include "base/sha256.h"
#include "os/procfs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RECEIPT_MAX (64u * 1024)
#define NETWORK_MAX ((size_t)1 << 20)

static void write_walls(const struct oci_config *c, const struct proc_status *st,
                        struct json_writer *w)
{
    jw_kv_object(w, "walls");
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

static void write_rules(const struct oci_porter *p, struct json_writer *w)
{
    jw_kv_array(w, "rules");
    for (size_t i = 0; p->asked && i < p->policy.egress.rule_count; i++)
        jw_string(w, p->policy.egress.rules[i].text);
    jw_array_end(w);
}

/* Of the copy that exec and delete go by too (OC-7). */
static int hash_config(const struct oci_state *s, struct json_writer *w, struct err *err)
{
    size_t len;
    char hex[SHA256_HEX_SIZE], text[80];
    cleanup_free char *config = oci_state_config(s, &len, err);
    if (!config)
        return err_number(err);
    sha256_hex(config, len, hex);
    snprintf(text, sizeof text, "sha256:%s", hex);
    jw_kv_string(w, "config", text);
    return 0;
}

int oci_receipt_begin(const struct oci_state *s, const struct oci_config *c, struct oci_porter *p,
                      pid_t pid, struct err *err)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    struct proc_status st;
    jw_begin(&w, &out, RECEIPT_MAX);
    if (procfs_status(pid, &st, err) < 0)
        return err_number(err);
    jw_kv_string(&w, "container", s->id);
    jw_kv_string(&w, "created", s->created);
    jw_kv_string(&w, "tier", "container");
    if (hash_config(s, &w, err) < 0)
        return err_number(err);
    write_walls(c, &st, &w);
    write_rules(p, &w);
    jw_key(&w, "attested");
    if (oci_porter_attest(p, pid, &w, err) < 0)
        return err_number(err);
    jw_object_end(&w);
    if (out.failed)
        return err_set(err, ERR_LIMIT, "the receipt of %s is too long", s->id);
    return oci_file_replace(s->dir_fd, OCI_RECEIPT_FILE, out.data, out.len, 0600, err);
}

static struct json *read_part(const struct oci_state *s, const char *name)
{
    size_t len;
    struct json *j = NULL;
    struct err err = ERR_INIT;
    cleanup_free char *text = oci_file_read(s->dir_fd, name, NETWORK_MAX, &len, &err);
    return text && json_parse(text, len, &json_default_limits, &j, &err) == 0 ? j : NULL;
}

static void write_parts(const struct json *begun, const struct json *seen, struct json_writer *w)
{
    for (size_t i = 0; i < json_count(begun); i++)
        jw_kv_json(w, json_key_at(begun, i), json_value_at(begun, i));
    for (size_t i = 0; i < json_count(seen); i++)
        jw_kv_json(w, json_key_at(seen, i), json_value_at(seen, i));
}

static void tell(const struct oci_state *s, const struct oci_log *log, const struct json *begun)
{
    char when[40];
    cleanup_buf struct buf out;
    struct json_writer w;
    struct json *seen = s->porter ? read_part(s, OCI_NETWORK_FILE) : NULL;
    oci_log_time(when);
    jw_begin(&w, &out, NETWORK_MAX);
    write_parts(begun, seen, &w);
    /* A porter that was killed could not say what it had seen; there was no way out from then on.
     */
    if (s->porter)
        jw_kv_bool(&w, "network_complete", seen != NULL);
    jw_kv_bool(&w, "started", s->started);
    jw_kv_string(&w, "deleted", when);
    jw_object_end(&w);
    if (!out.failed)
        oci_log_tell(log, "info", "receipt", "receipt", &out);
    json_free(seen);
}

void oci_receipt_end(const struct oci_state *s, const char *path, bool json)
{
    struct err err = ERR_INIT;
    struct oci_operator o;
    struct oci_log log;
    struct json *begun = read_part(s, OCI_RECEIPT_FILE);
    oci_log_init(&log);
    if (begun && oci_operator_load(&o, &err) == 0) {
        if (oci_log_open(&log, path, json, &o, &err) < 0)
            dprintf(STDERR_FILENO, "brig: %s\n", err.message);
        tell(s, &log, begun);
        oci_log_close(&log);
        oci_operator_done(&o);
    }
    /* Told once, although whoever removes the rest is killed. */
    unlinkat(s->dir_fd, OCI_RECEIPT_FILE, 0);
    json_free(begun);
}
