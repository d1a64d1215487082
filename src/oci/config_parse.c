/* Reads config.json: version, process, root, mounts, hooks, annotations. The linux section is read
 * by config_linux_parse.c, mounts by config_mount_parse.c. Hostile input; no I/O. */
#include "base/cleanup.h"
#include "base/text.h"
#include "oci/config.h"
#include "oci/fields.h"

#include <string.h>

static const struct json_limits limits = {.max_bytes = OCI_CONFIG_MAX,
                                          .max_depth = 32,
                                          .max_nodes = OCI_NODES_MAX,
                                          .max_memory = OCI_MEMORY_MAX,
                                          .wide = true};

static int parse_object(const char *text, size_t len, const char *what, struct json **ret,
                        struct err *err)
{
    if (json_parse(text, len, &limits, ret, err) < 0)
        return err_wrap(err, "%s", what);
    if (json_type(*ret) == JSON_OBJECT)
        return 0;
    json_free(*ret);
    *ret = NULL;
    return err_set(err, ERR_USAGE, "%s must be one JSON object", what);
}

static int read_user(const struct json *j, struct oci_process *p, struct err *err)
{
    static const char where[] = "process.user";
    static const char *const foreign[] = {"username", NULL};
    const struct json *groups = NULL;
    if (field_u32(j, where, "uid", &p->uid, err) < 0 ||
        field_u32(j, where, "gid", &p->gid, err) < 0 ||
        field_u32(j, where, "umask", &p->umask, err) < 0 ||
        field_list(j, where, "additionalGids", &groups, err) < 0 ||
        field_refuse(j, where, foreign, "names of users are another system's", err) < 0)
        return err_number(err);
    p->has_umask = json_get(j, "umask") != NULL;
    if (p->umask > 0777)
        return field_wrong(where, "umask", "at most 0777", err);
    if (json_count(groups) > OCI_GROUPS_MAX)
        return field_wrong(where, "additionalGids", "a list of at most 256 groups", err);
    for (size_t i = 0; i < json_count(groups); i++) {
        const struct json *g = json_at(groups, i);
        if (json_type(g) != JSON_INT || json_int(g) < 0 || json_int(g) > UINT32_MAX)
            return field_wrong(where, "additionalGids", "a list of group numbers", err);
        p->groups[p->group_count++] = (uint32_t)json_int(g);
    }
    return 0;
}

static int read_caps(const struct json *j, struct oci_process *p, struct err *err)
{
    static const char *const keys[] = {
        [OCI_CAPS_BOUNDING] = "bounding",       [OCI_CAPS_EFFECTIVE] = "effective",
        [OCI_CAPS_INHERITABLE] = "inheritable", [OCI_CAPS_PERMITTED] = "permitted",
        [OCI_CAPS_AMBIENT] = "ambient",
    };
    for (size_t set = 0; set < OCI_CAPS_COUNT; set++) {
        const struct json *list = NULL;
        if (field_texts(j, "process.capabilities", keys[set], &list, err) < 0)
            return err_number(err);
        for (size_t i = 0; i < json_count(list); i++) {
            int cap = oci_cap_number(json_string(json_at(list, i)));
            if (cap < 0)
                return err_set(err, ERR_USAGE,
                               "config: process.capabilities.%s: unknown capability %.60s",
                               keys[set], json_string(json_at(list, i)));
            p->caps[set] |= 1ull << cap;
        }
    }
    return 0;
}

static int read_rlimit(const struct json *j, struct oci_process *p, struct err *err)
{
    static const char where[] = "process.rlimits[]";
    const char *type = "";
    struct oci_rlimit r = {.soft = UINT64_MAX, .hard = UINT64_MAX};
    if (json_type(j) != JSON_OBJECT)
        return field_wrong("process", "rlimits", "a list of objects", err);
    if (field_text(j, where, "type", &type, err) < 0 ||
        field_u64(j, where, "soft", &r.soft, err) < 0 ||
        field_u64(j, where, "hard", &r.hard, err) < 0)
        return err_number(err);
    r.resource = oci_rlimit_number(type);
    if (r.resource < 0)
        return err_set(err, ERR_USAGE, "config: process.rlimits: unknown limit \"%.60s\"", type);
    if (r.soft > r.hard)
        return err_set(err, ERR_USAGE,
                       "config: process.rlimits: %s has a soft limit over its hard one", type);
    for (size_t i = 0; i < p->rlimit_count; i++)
        if (p->rlimits[i].resource == r.resource)
            return err_set(err, ERR_USAGE, "config: process.rlimits: %s twice", type);
    p->rlimits[p->rlimit_count++] = r; /* there are sixteen kinds, each at most once */
    return 0;
}

static int read_terminal(const struct json *j, struct oci_process *p, struct err *err)
{
    const struct json *size = NULL;
    uint32_t width = 0, height = 0;
    if (field_bool(j, "process", "terminal", &p->terminal, err) < 0 ||
        field_object(j, "process", "consoleSize", &size, err) < 0 ||
        field_u32(size, "process.consoleSize", "width", &width, err) < 0 ||
        field_u32(size, "process.consoleSize", "height", &height, err) < 0)
        return err_number(err);
    if (width > UINT16_MAX || height > UINT16_MAX)
        return field_wrong("process", "consoleSize", "at most 65535 in each direction", err);
    p->columns = (uint16_t)width;
    p->rows = (uint16_t)height;
    return 0;
}

static int check_env(const struct json *env, struct err *err)
{
    for (size_t i = 0; i < json_count(env); i++) {
        const char *entry = json_string(json_at(env, i));
        const char *equal = strchr(entry, '=');
        if (!equal || equal == entry)
            return err_set(err, ERR_USAGE, "config: process.env: \"%.60s\" is not NAME=VALUE",
                           entry);
    }
    return 0;
}

static int oci_process_read(const struct json *j, struct oci_process *p, struct err *err)
{
    static const char *const labels[] = {
        "apparmorProfile", "selinuxLabel", "scheduler", "ioPriority",
        "execCPUAffinity", "commandLine",  NULL};
    const struct json *user = NULL, *caps = NULL, *rlimits = NULL;
    int64_t score = 0;
    bool none;
    *p = (struct oci_process){.uid = 0};
    if (read_terminal(j, p, err) < 0 || field_object(j, "process", "user", &user, err) < 0 ||
        read_user(user, p, err) < 0 || field_texts(j, "process", "args", &p->args, err) < 0 ||
        field_texts(j, "process", "env", &p->env, err) < 0 || check_env(p->env, err) < 0 ||
        field_text(j, "process", "cwd", &p->cwd, err) < 0 ||
        field_object(j, "process", "capabilities", &caps, err) < 0 || read_caps(caps, p, err) < 0 ||
        field_list(j, "process", "rlimits", &rlimits, err) < 0 ||
        field_bool(j, "process", "noNewPrivileges", &none, err) < 0 ||
        field_int(j, "process", "oomScoreAdj", &score, err) < 0 ||
        field_refuse(j, "process", labels, "a label, profile or schedule would be lost", err) < 0)
        return err_number(err);
    for (size_t i = 0; i < json_count(rlimits); i++)
        if (read_rlimit(json_at(rlimits, i), p, err) < 0)
            return err_number(err);
    if (score < -1000 || score > 1000)
        return field_wrong("process", "oomScoreAdj", "from -1000 to 1000", err);
    p->has_oom_score = json_type(json_get(j, "oomScoreAdj")) == JSON_INT;
    p->oom_score = (int)score;
    if (json_count(p->args) == 0 || json_string(json_at(p->args, 0))[0] == '\0')
        return field_wrong("process", "args", "a list that begins with a program", err);
    if (!p->cwd || p->cwd[0] != '/')
        return field_wrong("process", "cwd", "an absolute path", err);
    return 0;
}

/* "2", "0-rc.1", "0+build" */
static bool plain_patch(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && (!text[digits] || strchr("-+", text[digits]));
}

/* 1.MINOR.PATCH of a version that is known; a newer one may have fields that protect. */
static int check_version(const char *v, struct err *err)
{
    unsigned minor = 0, digits = 0;
    if (!v)
        return field_wrong("", "ociVersion", "there", err);
    if (!text_begins(v, "1."))
        return err_set(err, ERR_UNSUPPORTED,
                       "config: ociVersion %.40s is not known; brig knows 1.0 to %s", v,
                       OCI_VERSION);
    for (v += 2; *v >= '0' && *v <= '9' && digits < 4; v++, digits++)
        minor = minor * 10 + (unsigned)(*v - '0');
    if (digits == 0 || *v != '.' || minor > 2 || !plain_patch(v + 1)) {
        err_set(err, ERR_UNSUPPORTED, "config: this ociVersion is not known; brig knows 1.0 to %s",
                OCI_VERSION);
        return err_hint(err,
                        "a newer version may have fields that protect, which would be overlooked");
    }
    return 0;
}

static int read_root(const struct json *j, struct oci_config *c, struct err *err)
{
    if (!j)
        return field_wrong("", "root", "there", err);
    if (field_text(j, "root", "path", &c->root_path, err) < 0 ||
        field_bool(j, "root", "readonly", &c->root_read_only, err) < 0)
        return err_number(err);
    return c->root_path && c->root_path[0] ? 0 : field_wrong("root", "path", "a folder", err);
}

static int read_mounts(const struct json *j, struct oci_config *c, struct err *err)
{
    if (json_count(j) > OCI_MOUNTS_MAX)
        return field_wrong("", "mounts", "a list of at most 128 mounts", err);
    for (size_t i = 0; i < json_count(j); i++)
        if (oci_mount_read(json_at(j, i), &c->mounts[c->mount_count++], err) < 0)
            return err_number(err);
    return 0;
}

static int check_annotations(const struct json *j, struct err *err)
{
    for (size_t i = 0; i < json_count(j); i++)
        if (json_type(json_value_at(j, i)) != JSON_STRING || !json_key_at(j, i)[0])
            return field_wrong("", "annotations", "an object of strings", err);
    return 0;
}

static int read_all(const struct json *j, struct oci_config *c, struct err *err)
{
    static const char *const foreign[] = {"solaris", "windows", "vm", "zos", NULL};
    const struct json *process = NULL, *root = NULL, *mounts = NULL, *linux_part = NULL;
    if (field_text(j, "", "ociVersion", &c->version, err) < 0 ||
        check_version(c->version, err) < 0 ||
        field_refuse(j, "", foreign, "it is another platform's", err) < 0 ||
        field_object(j, "", "process", &process, err) < 0 ||
        (process && oci_process_read(process, &c->process, err) < 0) ||
        field_object(j, "", "root", &root, err) < 0 || read_root(root, c, err) < 0 ||
        field_text(j, "", "hostname", &c->hostname, err) < 0 ||
        field_text(j, "", "domainname", &c->domainname, err) < 0 ||
        field_list(j, "", "mounts", &mounts, err) < 0 || read_mounts(mounts, c, err) < 0 ||
        field_object(j, "", "hooks", &c->hooks, err) < 0 ||
        field_object(j, "", "annotations", &c->annotations, err) < 0 ||
        check_annotations(c->annotations, err) < 0 ||
        field_object(j, "", "linux", &linux_part, err) < 0 ||
        oci_linux_read(linux_part, c, err) < 0)
        return err_number(err);
    c->has_process = process != NULL;
    return 0;
}

int oci_config_parse(const char *text, size_t len, struct oci_config *ret, struct err *err)
{
    *ret = (struct oci_config){.tree = NULL};
    if (parse_object(text, len, "config.json", &ret->tree, err) < 0)
        return err_number(err);
    if (read_all(ret->tree, ret, err) == 0)
        return 0;
    oci_config_done(ret);
    return err_number(err);
}

void oci_config_done(struct oci_config *c)
{
    for (size_t i = 0; i < c->mount_count; i++) {
        free(c->mounts[i].made);
        c->mounts[i].made = NULL;
    }
    json_free(c->tree);
    c->tree = NULL;
}

int oci_process_parse(const char *text, size_t len, struct json **ret_tree, struct oci_process *ret,
                      struct err *err)
{
    if (parse_object(text, len, "the process file", ret_tree, err) < 0)
        return err_number(err);
    if (oci_process_read(*ret_tree, ret, err) == 0)
        return 0;
    json_free(*ret_tree);
    *ret_tree = NULL;
    return err_number(err);
}

int oci_resources_parse(const char *text, size_t len, struct json **ret_tree,
                        struct oci_resources *ret, struct err *err)
{
    if (parse_object(text, len, "the resources", ret_tree, err) < 0)
        return err_number(err);
    if (oci_resources_read(*ret_tree, ret, err) == 0)
        return 0;
    json_free(*ret_tree);
    *ret_tree = NULL;
    return err_number(err);
}
