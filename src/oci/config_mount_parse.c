/* Reads one entry of config.json's mounts: its kind, its flags, the options of its file system.
 * What is not on the list of its kind is remembered as odd, for the judge to name. Hostile input;
 * no I/O. */
#include "base/cleanup.h"
#include "oci/config.h"
#include "oci/fields.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum oci_mount_type type;
} types[] = {
    {"bind", OCI_MOUNT_BIND},     {"none", OCI_MOUNT_OTHER},    {"tmpfs", OCI_MOUNT_TMPFS},
    {"proc", OCI_MOUNT_PROC},     {"sysfs", OCI_MOUNT_SYSFS},   {"devpts", OCI_MOUNT_DEVPTS},
    {"mqueue", OCI_MOUNT_MQUEUE}, {"cgroup", OCI_MOUNT_CGROUP}, {"cgroup2", OCI_MOUNT_CGROUP},
};

/* Flags that change nothing here. nosuid, nodev and private propagation are in force in any case,
 * and nobody inside mounts anything, bind mounts neither. The times of files are of no consequence.
 * When data is written, and versions of files, are the file system's own, which a bind does not
 * change and memory does not have. */
#define HARMLESS                                                                                   \
    " rw rrw nosuid rnosuid suid rsuid nodev rnodev dev rdev exec rexec async sync dirsync mand "  \
    "nomand relatime rrelatime norelatime rnorelatime noatime rnoatime atime ratime nodiratime "   \
    "rnodiratime diratime rdiratime strictatime rstrictatime nostrictatime rnostrictatime "        \
    "lazytime nolazytime iversion noiversion loud silent private rprivate unbindable runbindable " \
    "notmpcopyup defaults "

const char oci_mount_flags[] =
    HARMLESS "bind rbind ro rro noexec rnoexec symfollow rsymfollow nosymfollow rnosymfollow "
             "tmpcopyup ";

static bool is_harmless(const char *option)
{
    char word[32];
    int n = snprintf(word, sizeof word, " %s ", option);
    return n > 2 && (size_t)n < sizeof word && !strchr(option, ' ') && strstr(HARMLESS, word);
}

/* Options of a file system that are handed to it, by kind. */
static const char *const tmpfs_data[] = {"size", "mode", "nr_inodes", "nr_blocks",
                                         "uid",  "gid",  NULL};
static const char *const devpts_data[] = {"newinstance", "ptmxmode", "mode", "gid",
                                          "uid",         "max",      NULL};
static const char *const none_data[] = {NULL};

static const char *const *data_of(enum oci_mount_type type)
{
    return type == OCI_MOUNT_TMPFS    ? tmpfs_data
           : type == OCI_MOUNT_DEVPTS ? devpts_data
                                      : none_data;
}

static bool listed(const char *const *list, const char *text, size_t len)
{
    for (; *list; list++)
        if (strlen(*list) == len && memcmp(*list, text, len) == 0)
            return true;
    return false;
}

/* Digits, a unit at the end of a size: nothing else is ever a value here. */
static bool plain_value(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    text += digits;
    return digits > 0 && digits < 20 && (!*text || (strchr("kKmMgG%", *text) && !text[1]));
}

static bool keep_data(struct oci_mount *m, const char *option)
{
    size_t used = strlen(m->data), len = strcspn(option, "=");
    if (!listed(data_of(m->type), option, len) || (option[len] && !plain_value(option + len + 1)))
        return false;
    int n = snprintf(m->data + used, sizeof m->data - used, "%s%s", used ? "," : "", option);
    return n > 0 && (size_t)n < sizeof m->data - used;
}

static void take_option(struct oci_mount *m, const char *option)
{
    if (strcmp(option, "ro") == 0 || strcmp(option, "rro") == 0)
        m->read_only = true;
    else if (strcmp(option, "rw") == 0 || strcmp(option, "rrw") == 0)
        m->read_only = false;
    else if (strcmp(option, "noexec") == 0 || strcmp(option, "rnoexec") == 0)
        m->noexec = true;
    else if (strcmp(option, "exec") == 0 || strcmp(option, "rexec") == 0)
        m->noexec = false;
    else if (strcmp(option, "nosymfollow") == 0 || strcmp(option, "rnosymfollow") == 0)
        m->nosymfollow = true;
    else if (strcmp(option, "symfollow") == 0 || strcmp(option, "rsymfollow") == 0)
        m->nosymfollow = false;
    else if (strcmp(option, "bind") == 0 || strcmp(option, "rbind") == 0)
        m->recursive |= option[0] == 'r';
    else if (strcmp(option, "tmpcopyup") == 0 && m->type == OCI_MOUNT_TMPFS)
        m->copy_up = true;
    else if (!is_harmless(option) && !keep_data(m, option) && !m->odd)
        m->odd = option;
}

static bool asks_for_bind(const struct oci_mount *m)
{
    for (size_t i = 0; i < json_count(m->options); i++) {
        const char *option = json_string(json_at(m->options, i));
        if (strcmp(option, "bind") == 0 || strcmp(option, "rbind") == 0)
            return true;
    }
    return false;
}

static enum oci_mount_type type_of(const struct oci_mount *m)
{
    if (asks_for_bind(m))
        return OCI_MOUNT_BIND;
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (m->type_text && strcmp(types[i].name, m->type_text) == 0)
            return types[i].type;
    return OCI_MOUNT_OTHER;
}

/* A relative one is meant from the root; the specification takes it for the sake of old engines. */
static int take_destination(struct oci_mount *m, struct err *err)
{
    if (!m->dest || !*m->dest)
        return field_wrong("mounts[]", "destination", "a path", err);
    if (m->dest[0] == '/')
        return 0;
    if (asprintf(&m->made, "/%s", m->dest) < 0) {
        m->made = NULL;
        return err_memory(err);
    }
    m->dest = m->made;
    return 0;
}

int oci_mount_read(const struct json *j, struct oci_mount *m, struct err *err)
{
    static const char *const maps[] = {"uidMappings", "gidMappings", NULL};
    *m = (struct oci_mount){.type = OCI_MOUNT_OTHER};
    if (json_type(j) != JSON_OBJECT)
        return field_wrong("", "mounts", "a list of objects", err);
    if (field_text(j, "mounts[]", "destination", &m->dest, err) < 0 ||
        field_text(j, "mounts[]", "type", &m->type_text, err) < 0 ||
        field_text(j, "mounts[]", "source", &m->source, err) < 0 ||
        field_texts(j, "mounts[]", "options", &m->options, err) < 0 ||
        field_refuse(j, "mounts[]", maps, "owners of a mount are not mapped", err) < 0)
        return err_number(err);
    if (take_destination(m, err) < 0)
        return err_number(err);
    m->type = type_of(m);
    for (size_t i = 0; i < json_count(m->options); i++)
        take_option(m, json_string(json_at(m->options, i)));
    return 0;
}
