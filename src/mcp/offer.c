/* The table of tools. What stands here is read by models: it says what a tool does, what it cannot
 * do, and what to do next. Schemas are JSON text; a test parses every one of them. */
#include "mcp/offer.h"

#include "base/cleanup.h"

#include <string.h>

/* ---- parts of schemas ---- */

/* clang-format off */
#define OBJECT(properties, rest)                                                                   \
    "{\"type\":\"object\",\"properties\":{" properties "},\"additionalProperties\":false" rest "}"
#define STRING(name, text)  "\"" name "\":{\"type\":\"string\",\"description\":\"" text "\"}"
#define FLAG(name, text)    "\"" name "\":{\"type\":\"boolean\",\"description\":\"" text "\"}"
#define NUMBER(name, text)  "\"" name "\":{\"type\":\"integer\",\"description\":\"" text "\"}"
#define INTEGER(name, low, high, text)                                                             \
    "\"" name "\":{\"type\":\"integer\",\"minimum\":" low ",\"maximum\":" high                     \
    ",\"description\":\"" text "\"}"
#define WORD(name, words, text)                                                                    \
    "\"" name "\":{\"type\":\"string\",\"enum\":[" words "],\"description\":\"" text "\"}"
#define MAP(name, text)                                                                            \
    "\"" name "\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"            \
    "\"description\":\"" text "\"}"
#define LIST(name, of, text)                                                                       \
    "\"" name "\":{\"type\":\"array\",\"items\":" of ",\"description\":\"" text "\"}"
#define MEMBERS(name, text)                                                                        \
    "\"" name "\":{\"type\":\"object\",\"description\":\"" text "\"}"
#define PART(name, text, properties, required)                                                     \
    "\"" name "\":{\"type\":\"object\",\"description\":\"" text "\",\"properties\":{" properties   \
    "},\"required\":[" required "]}"
#define ITEM(properties, required)                                                                 \
    "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "]}"

/* ---- what goes in ---- */

#define IN_SESSION                                                                                 \
    STRING("session_id", "A session from create_session. Without it the call gets a fresh "        \
                         "sandbox of its own that is destroyed afterwards")
#define IN_FILE_SESSION STRING("session_id", "The session, from create_session")
#define IN_TEMPLATE                                                                                \
    STRING("template", "What the fresh sandbox is made from: base, python, node, or one that the " \
                       "operator added. Not together with session_id")
#define POLICY_TEXT                                                                                \
    "Makes what the template allows stricter for this sandbox, never wider: a policy as brig's "   \
    "documentation has it, such as {lifecycle: {memory: 256M, pids: 32}, network: {allow: []}}"
#define IN_POLICY     MEMBERS("policy", POLICY_TEXT ". Not together with session_id")
#define CREATE_POLICY MEMBERS("policy", POLICY_TEXT)
#define IN_TIMEOUT                                                                                 \
    INTEGER("timeout_ms", "1", "3600000", "Killed after so many milliseconds; default 60000")
#define IN_ENV      MAP("env", "Environment variables for this call")
#define IN_PATH     STRING("path", "Absolute, or relative to /home/user")
#define IN_ENCODING                                                                                \
    WORD("encoding", "\"utf-8\",\"base64\"", "How content is written; default utf-8")

#define IN_USER                                                                                    \
    WORD("user", "\"user\",\"root\"",                                                              \
         "Who that is inside; default user. root is there if the template gives it")
#define RUN_CODE_IN                                                                                \
    OBJECT(WORD("language",                                                                        \
                "\"python\",\"javascript\",\"typescript\",\"bash\",\"r\",\"java\"",                 \
                "Default python") ","                                                           \
           STRING("code", "The source text") ","                                                   \
           IN_SESSION "," IN_TEMPLATE "," IN_POLICY "," IN_TIMEOUT "," IN_ENV,                     \
           ",\"required\":[\"code\"]")
#define RUN_COMMAND_IN                                                                             \
    OBJECT(STRING("command", "A shell command line; with args, the program to execute") ","        \
           LIST("args", "{\"type\":\"string\"}",                                                   \
                "Arguments, passed as they are; then no shell is involved") ","                    \
           STRING("cwd", "The folder to start in; default /home/user") ","                         \
           STRING("stdin", "What the command reads from its standard input") ","                   \
           IN_USER ","                                                                             \
           IN_SESSION "," IN_TEMPLATE "," IN_POLICY "," IN_TIMEOUT "," IN_ENV,                     \
           ",\"required\":[\"command\"]")
#define READ_FILE_IN                                                                               \
    OBJECT(IN_FILE_SESSION "," IN_PATH "," IN_ENCODING "," IN_USER,                                \
           ",\"required\":[\"session_id\",\"path\"]")
#define WRITE_FILE_IN                                                                              \
    OBJECT(IN_FILE_SESSION "," IN_PATH "," STRING("content", "What the file will contain") ","     \
           IN_ENCODING "," IN_USER,                                                                \
           ",\"required\":[\"session_id\",\"path\",\"content\"]")
#define LIST_FILES_IN                                                                              \
    OBJECT(IN_FILE_SESSION "," STRING("path", "The folder; default /home/user") ","                \
           INTEGER("depth", "1", "16", "How many levels below it; default 1") "," IN_USER,         \
           ",\"required\":[\"session_id\"]")
#define CREATE_SESSION_IN                                                                          \
    OBJECT(STRING("template", "What it is made from: base, python (the default), node, or one "    \
                              "that the operator added") ","                                       \
           INTEGER("timeout_seconds", "1", "86400",                                                \
                   "Ends when it was not used for so long; default 900") ","                       \
           MAP("env", "Environment variables of everything in it") ","                             \
           MAP("metadata", "Labels, for people") ","                                               \
           STRING("project", "A folder that the operator offers: the sandbox works on a view of "  \
                             "it, and diff shows what it changed") "," CREATE_POLICY, "")
#define SESSION_IN OBJECT(IN_FILE_SESSION, ",\"required\":[\"session_id\"]")
#define DIFF_IN                                                                                    \
    OBJECT(IN_FILE_SESSION ","                                                                     \
           WORD("format", "\"text\",\"stat\"",                                                     \
                "A unified diff (default), or only which files changed"),                          \
           ",\"required\":[\"session_id\"]")

/* ---- what comes out ---- */

#define OUT_OBJECT(properties)                                                                     \
    ITEM(FLAG("ok", "false: see error, or the code failed") ","                                    \
         PART("error", "Why it was not done",                                                      \
              STRING("code", "refused, limit, not_found, …") "," STRING("message", "What and why") \
              "," STRING("hint", "What would help") "," STRING("boundary", "Which wall said no"),  \
              "\"code\",\"message\"") "," properties, "\"ok\"")
#define OUT_DENIALS                                                                                \
    LIST("denials",                                                                                \
         ITEM(STRING("boundary", "kernel, filesystem, network, credentials or lifecycle") ","      \
              STRING("what", "What was tried") "," STRING("rule", "Which rule refused it") ","     \
              STRING("hint", "What would allow it") "," NUMBER("count", "How often"),              \
              "\"boundary\",\"what\""), "What the sandbox refused to the code meanwhile")
#define OUT_RUN                                                                                    \
    STRING("stdout", "") "," STRING("stderr", "") ","                                              \
    FLAG("truncated", "Output was longer than what is kept") ","                                   \
    FLAG("timed_out", "It ran longer than timeout_ms and was killed") ","                          \
    FLAG("oom_killed", "It was killed: the sandbox ran out of memory; see error") ","              \
    NUMBER("memory_limit", "Of the sandbox, in bytes; with oom_killed") ","                        \
    NUMBER("duration_ms", "") "," STRING("session_id", "The session, where there is one") ","      \
    OUT_DENIALS
#define RUN_CODE_OUT                                                                               \
    OUT_OBJECT(OUT_RUN "," STRING("result", "The last expression, as text") ","                    \
               LIST("results", "{\"type\":\"object\"}",                                            \
                    "All that was displayed: text, html, json and other forms; pictures are in "   \
                    "content") ","                                                                 \
               PART("exception", "What ended the code",                                            \
                    STRING("name", "") "," STRING("value", "") "," STRING("traceback", ""),        \
                    "\"name\",\"value\",\"traceback\""))
#define RUN_COMMAND_OUT                                                                            \
    OUT_OBJECT(OUT_RUN "," NUMBER("exit_code", "") "," NUMBER("signal", "That ended it"))
#define READ_FILE_OUT                                                                              \
    OUT_OBJECT(STRING("path", "") "," NUMBER("size", "In bytes") ","                               \
               STRING("encoding", "utf-8 or base64") "," STRING("content", ""))
#define WRITE_FILE_OUT OUT_OBJECT(STRING("path", "") "," NUMBER("size", "Bytes written"))
#define LIST_FILES_OUT                                                                             \
    OUT_OBJECT(LIST("entries",                                                                     \
                    ITEM(STRING("path", "") "," STRING("type", "file, folder, link or other") ","  \
                         NUMBER("size", "") "," STRING("modified", "") "," STRING("target", ""),   \
                         "\"path\",\"type\""), "") ","                                             \
               FLAG("truncated", "There are more"))
#define CREATE_SESSION_OUT                                                                         \
    OUT_OBJECT(STRING("session_id", "For the other tools") "," STRING("template", "") ","          \
               STRING("expires_at", "Unless it is used") ","                                       \
               STRING("project", "The folder that it works on a view of"))
#define DESTROY_SESSION_OUT OUT_OBJECT(STRING("session_id", ""))
#define DIFF_OUT                                                                                   \
    OUT_OBJECT(STRING("diff", "A unified diff") ","                                                \
               "\"review\":{\"type\":\"object\",\"description\":\"format stat: what changed\"}")
/* clang-format on */

/* ---- the table ---- */

struct tool {
    const char *name, *title, *description;
    const char *input, *output;
    bool read_only, destructive, idempotent;
};

static const struct tool tools[TOOL_COUNT] = {
    [TOOL_RUN_CODE] =
        {"run_code", "Run code",
         "Runs Python, JavaScript, TypeScript, bash, R or Java in an isolated sandbox and returns "
         "its "
         "output, the value of the last expression and pictures. In a session variables, imports "
         "and files stay from "
         "call to call. The network is closed except for hosts that the operator allowed; what was "
         "refused is listed in denials.",
         RUN_CODE_IN, RUN_CODE_OUT, false, false, false},
    [TOOL_RUN_COMMAND] =
        {"run_command", "Run a command",
         "Runs a shell command line, or a program with arguments, in an isolated sandbox and "
         "returns its output and exit code. In a session files stay from call to call.",
         RUN_COMMAND_IN, RUN_COMMAND_OUT, false, false, false},
    [TOOL_READ_FILE] = {"read_file", "Read a file",
                        "Reads a file of a session's sandbox, at most 4 MiB.", READ_FILE_IN,
                        READ_FILE_OUT, true, false, true},
    [TOOL_WRITE_FILE] =
        {"write_file", "Write a file",
         "Writes a file of a session's sandbox, replacing what was there; folders are made.",
         WRITE_FILE_IN, WRITE_FILE_OUT, false, true, true},
    [TOOL_LIST_FILES] = {"list_files", "List files",
                         "Lists a folder of a session's sandbox, at most 2000 entries.",
                         LIST_FILES_IN, LIST_FILES_OUT, true, false, true},
    [TOOL_CREATE_SESSION] =
        {"create_session", "Create a session",
         "Makes a sandbox that stays until destroy_session, or until it was not used for a while: "
         "for work that takes several steps. Returns its session_id.",
         CREATE_SESSION_IN, CREATE_SESSION_OUT, false, false, false},
    [TOOL_DESTROY_SESSION] = {"destroy_session", "Destroy a session",
                              "Ends a session: its processes are killed and its files are gone.",
                              SESSION_IN, DESTROY_SESSION_OUT, false, true, true},
    [TOOL_DIFF] =
        {"diff", "Show changes to the project",
         "Shows what was changed in the project that the sandbox works on a copy of. Nothing "
         "reaches the project itself until a person applies it.",
         DIFF_IN, DIFF_OUT, true, false, true},
};

enum tool_id offer_find(const char *name)
{
    enum tool_id id = 0;
    while (id < TOOL_COUNT && strcmp(tools[id].name, name) != 0)
        id++;
    return id;
}

static void write_schema(struct json_writer *w, const char *key, const char *text)
{
    struct json *tree = NULL;
    jw_key(w, key);
    if (json_parse(text, strlen(text), NULL, &tree, NULL) < 0)
        jw_null(w);
    else
        jw_json(w, tree);
    json_free(tree);
}

static void write_tool(struct json_writer *w, const struct tool *t)
{
    jw_object_begin(w);
    jw_kv_string(w, "name", t->name);
    jw_kv_string(w, "title", t->title);
    jw_kv_string(w, "description", t->description);
    write_schema(w, "inputSchema", t->input);
    write_schema(w, "outputSchema", t->output);
    jw_key(w, "annotations");
    jw_object_begin(w);
    jw_kv_string(w, "title", t->title);
    jw_kv_bool(w, "readOnlyHint", t->read_only);
    jw_kv_bool(w, "destructiveHint", t->destructive);
    jw_kv_bool(w, "idempotentHint", t->idempotent);
    jw_kv_bool(w, "openWorldHint", false);
    jw_object_end(w);
    jw_object_end(w);
}

void offer_write(struct json_writer *w)
{
    jw_array_begin(w);
    for (int i = 0; i < TOOL_COUNT; i++)
        write_tool(w, &tools[i]);
    jw_array_end(w);
}
