/* The tree of all verbs. */
#include "cli/verb.h"

static const struct verb *const verbs[] = {
    &verb_run,     &verb_init,       &verb_image,        &verb_diff,
    &verb_apply,   &verb_discard,    &verb_serve,        &verb_mcp,
    &verb_ps,      &verb_create,     &verb_exec,         &verb_cp,
    &verb_logs,    &verb_kill,       &verb_rm,           &verb_pause,
    &verb_resume,  &verb_stats,      &verb_pool,         &verb_audit,
    &verb_receipt, &verb_keys,       &verb_net,          &verb_approvals,
    &verb_approve, &verb_deny,       &verb_proxy,        &verb_secrets,
    &verb_doctor,  &verb_kernel,     &verb_verify_walls, &verb_policy,
    &verb_oci,     &verb_completion, &verb_help,         NULL,
};

const struct verb verb_root = {
    .name = "",
    .summary = "run code that you do not trust, behind five walls",
    .usage = "COMMAND [OPTIONS]\n--version",
    .about = "Kernel, filesystem, network, credentials and lifecycle are five independent\n"
             "boundaries; one word, the threat level, sets all of them.",
    .examples = "# what this machine can enforce\n"
                "brig doctor\n"
                "# one command; nothing of the host can be changed, nothing be reached\n"
                "brig run -- python3 -c 'print(6*7)'\n"
                "# code from stdin; limits; a result for a program to read\n"
                "echo 'print(6*7)' | brig run --lang python --json -m 256M --timeout 30s -\n"
                "# one host, and no other\n"
                "brig run --allow '*.pypi.org:443' -- pip download requests\n"
                "# a shell that may change the current folder\n"
                "brig run --level medium -t -- bash\n"
                "# sandboxes as tools for a model\n"
                "brig mcp\n"
                "# everything about one command\n"
                "brig help run",
    .children = verbs,
};
