/* The table of scalar fields: limits, units and help of each, and access to its place in struct
 * policy. */
#include "policy/fields.h"

#include <string.h>

#define KIB     UINT64_C(1024)
#define MIB     (1024 * KIB)
#define TIB     (1024 * 1024 * MIB)
#define YEAR_MS (UINT64_C(365) * 24 * 60 * 60 * 1000)

/* Everything but where the field lies, which POLICY_FIELDS knows. Memory, processes, files and disk
 * have no `unlimited`: the host must survive the code, and a number that is too large for this host
 * does no harm. */
static const struct field rules[FIELD_COUNT] = {
    [FIELD_LEVEL] = {.tighter = TIGHTER_HIGHER,
                     .help = "threat level: fills in every field that nothing else sets"},
    [FIELD_TIER] = {.tighter = TIGHTER_HIGHER, .help = "which kind of wall runs the code"},
    [FIELD_UID] = {.tighter = TIGHTER_NONZERO,
                   .max = 65533,
                   .help = "user id that the code sees itself as, inside the sandbox"},
    [FIELD_BESIDE] =
        {.tighter = TIGHTER_LOWER,
         .help = "root as a second user beside that one, in brig serve; no capability comes along"},
    [FIELD_UNIX_SOCKETS] =
        {.tighter = TIGHTER_LOWER,
         .help = "unix sockets; auto: allowed without granted folders and --root DIR"},
    [FIELD_ROOT] =
        {.tighter = TIGHTER_NONE,
         .help = "root file system: a view of the host, a folder, or image:NAME (brig image)"},
    [FIELD_WRITABLE_ROOT] =
        {.tighter = TIGHTER_LOWER,
         .help = "the whole root can be changed, as the sandbox sees it; gone after the run"},
    [FIELD_CWD] = {.tighter = TIGHTER_ANY,
                   .help = "working folder; auto: the project folder or the workspace"},
    [FIELD_WORKSPACE] = {.tighter = TIGHTER_LOWER,
                         .help = "a private /workspace in memory, gone after the run"},
    [FIELD_EXEC] = {.tighter = TIGHTER_LOWER,
                    .help = "files in writable places may be executed directly"},
    [FIELD_PROJECT] = {.tighter = TIGHTER_LOWER,
                       .help = "the caller's folder is granted read-write"},
    [FIELD_SUBMOUNTS] = {.tighter = TIGHTER_LOWER,
                         .help = "what is mounted below a granted folder comes along with it"},
    [FIELD_PROC] =
        {.tighter = TIGHTER_LOWER,
         .help = "/proc: own tasks; also the sandbox's own numbers; or harmless kernel files"},
    [FIELD_LANDLOCK] = {.tighter = TIGHTER_HIGHER,
                        .help = "Landlock as a second, independent wall around files"},
    [FIELD_REPORT] = {.tighter = TIGHTER_HIGHER,
                      .help = "list refused files by path among the denials; slows opening down"},
    [FIELD_NETWORK_MODE] = {.tighter = TIGHTER_LOWER,
                            .help =
                                "no network at all, or what the rules name, through brig-proxy"},
    [FIELD_MAX_CONNECTIONS] = {.tighter = TIGHTER_LOWER,
                               .min = 1,
                               .max = 16384,
                               .help = "connections to the outside at one time"},
    [FIELD_UPLOAD] = {.tighter = TIGHTER_LOWER,
                      .unlimited = true,
                      .min = 1,
                      .max = 1024 * TIB,
                      .help = "bytes that the run may send in all"},
    [FIELD_REQUESTS] = {.tighter = TIGHTER_LOWER,
                        .unlimited = true,
                        .min = 1,
                        .max = UINT32_MAX,
                        .help = "requests per minute"},
    [FIELD_RESOLVER] = {.tighter = TIGHTER_NONE,
                        .help = "who resolves the names: as the host does, or ADDRESS[:PORT]"},
    [FIELD_DISK] = {.tighter = TIGHTER_LOWER,
                    .min = 4 * KIB,
                    .max = 1024 * TIB,
                    .help = "bytes of files in the workspace and /tmp; they count as memory"},
    [FIELD_INODES] = {.tighter = TIGHTER_LOWER,
                      .min = 16,
                      .max = UINT32_MAX,
                      .help = "files and folders in workspace and /tmp"},
    [FIELD_MEMORY] = {.tighter = TIGHTER_LOWER,
                      .min = 4 * MIB,
                      .max = 1024 * TIB,
                      .help = "memory of all processes together, without swap"},
    [FIELD_CPUS] = {.tighter = TIGHTER_LOWER,
                    .unlimited = true,
                    .min = 10,
                    .max = 4096 * 1000,
                    .help = "share of processors, such as 0.5 or 2"},
    [FIELD_PIDS] = {.tighter = TIGHTER_LOWER,
                    .min = 1,
                    .max = 4194304,
                    .help = "processes and threads at one time"},
    [FIELD_TIMEOUT] = {.tighter = TIGHTER_LOWER,
                       .unlimited = true,
                       .min = 1,
                       .max = YEAR_MS,
                       .help = "wall time, then everything is killed"},
    [FIELD_CPU_TIME] = {.tighter = TIGHTER_LOWER,
                        .unlimited = true,
                        .min = 1,
                        .max = YEAR_MS,
                        .help = "processor time of all processes together"},
    [FIELD_OUTPUT] = {.tighter = TIGHTER_LOWER,
                      .unlimited = true,
                      .min = 1,
                      .max = 1024 * TIB,
                      .help = "bytes of stdout and of stderr that are kept"},
    [FIELD_OPEN_FILES] = {.tighter = TIGHTER_LOWER,
                          .min = 16,
                          .max = 1048576,
                          .help = "open files of each process"},
    [FIELD_CGROUP] = {.tighter = TIGHTER_HIGHER,
                      .help = "control groups; auto: else what sampling says"},
    [FIELD_SAMPLING] = {.tighter = TIGHTER_HIGHER,
                        .help =
                            "limits that can only be watched here; auto: the level's own alone"},
};

struct place {
    const char *path;
    const char *member;
    enum field_type type;
    size_t offset;
};

static const struct place places[FIELD_COUNT] = {
#define X(id, path, type, member)                                                                  \
    [FIELD_##id] = {path, #member, TYPE_##type, offsetof(struct policy, member)},
    POLICY_FIELDS(X)
#undef X
};

const struct field *field_rules(enum policy_field id)
{
    return &rules[id];
}

enum field_type field_type(enum policy_field id)
{
    return places[id].type;
}

const char *policy_field_path(enum policy_field field)
{
    return places[field].path;
}

const char *policy_field_help(enum policy_field field)
{
    return rules[field].help;
}

const char *field_member(enum policy_field id)
{
    const char *dot = strrchr(places[id].member, '.');
    return dot ? dot + 1 : places[id].member;
}

const char *field_key(enum policy_field id)
{
    const char *dot = strchr(places[id].path, '.');
    return dot ? dot + 1 : places[id].path;
}

bool field_in_section(enum policy_field id, const char *section)
{
    const char *path = places[id].path;
    size_t len = strlen(section);
    if (len == 0)
        return !strchr(path, '.');
    return strncmp(path, section, len) == 0 && path[len] == '.';
}

enum policy_field field_find(const char *section, const char *key)
{
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (field_in_section(id, section) && strcmp(field_key(id), key) == 0)
            return id;
    }
    return FIELD_COUNT;
}

enum storage {
    STORED_ENUM,
    STORED_BOOL,
    STORED_U64,
    STORED_TEXT,
};

static enum storage storage_of(enum policy_field id)
{
    switch (places[id].type) {
    case TYPE_LEVEL:
    case TYPE_TIER:
    case TYPE_NEED:
    case TYPE_SAMPLING:
    case TYPE_PROC:
    case TYPE_NETWORK:
        return STORED_ENUM;
    case TYPE_BOOL:
        return STORED_BOOL;
    case TYPE_PATH:
    case TYPE_RESOLVER:
        return STORED_TEXT;
    case TYPE_UINT:
    case TYPE_SIZE:
    case TYPE_COUNT:
    case TYPE_MILLI:
    case TYPE_DURATION:
        break;
    }
    return STORED_U64;
}

/* Each enum of a policy is as wide as an unsigned int, so that one accessor fits them all. */
_Static_assert(sizeof(enum level) == sizeof(unsigned) && sizeof(enum tier) == sizeof(unsigned) &&
                   sizeof(enum need) == sizeof(unsigned) &&
                   sizeof(enum sampling) == sizeof(unsigned) &&
                   sizeof(enum proc_view) == sizeof(unsigned) &&
                   sizeof(enum network_mode) == sizeof(unsigned),
               "enums of a policy are stored as unsigned");

bool field_is_text(enum policy_field id)
{
    return storage_of(id) == STORED_TEXT;
}

uint64_t field_number(const struct policy *p, enum policy_field id)
{
    const char *at = (const char *)p + places[id].offset;
    unsigned word;
    uint64_t number;
    switch (storage_of(id)) {
    case STORED_ENUM:
        memcpy(&word, at, sizeof word);
        return word;
    case STORED_BOOL:
        return *(const bool *)at;
    case STORED_U64:
        memcpy(&number, at, sizeof number);
        return number;
    case STORED_TEXT:
        break;
    }
    return 0;
}

void field_store(struct policy *p, enum policy_field id, uint64_t value)
{
    char *at = (char *)p + places[id].offset;
    unsigned word = (unsigned)value;
    switch (storage_of(id)) {
    case STORED_ENUM:
        memcpy(at, &word, sizeof word);
        return;
    case STORED_BOOL:
        *(bool *)at = value != 0;
        return;
    case STORED_U64:
        memcpy(at, &value, sizeof value);
        return;
    case STORED_TEXT:
        return;
    }
}

char **field_string(struct policy *p, enum policy_field id)
{
    return storage_of(id) == STORED_TEXT ? (char **)((char *)p + places[id].offset) : NULL;
}

const char *field_string_of(const struct policy *p, enum policy_field id)
{
    return storage_of(id) == STORED_TEXT ? *(char *const *)((const char *)p + places[id].offset)
                                         : NULL;
}
