/* `brig run --learn`: checks the file to write before the run, and writes the learned policy after
 * it. */
#include "cli/run/learn.h"

#include "base/cleanup.h"
#include "cli/path.h"
#include "cli/term.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL: not into a file. */
static const char *file_of(const struct learn_options *o, bool json)
{
    if (!o->file)
        return json ? NULL : LEARN_FILE;
    return strcmp(o->file, "-") == 0 ? NULL : o->file;
}

static int exists(const char *file, struct err *err)
{
    err_set(err, ERR_USAGE, "--learn: %s is there already", file);
    return err_hint(err, "give another name with --learn=FILE, or --force to replace it");
}

int learn_check(struct learn_options *o, bool json, struct err *err)
{
    struct stat sb;
    const char *file = o->on ? file_of(o, json) : NULL;
    if (!o->on)
        return 0;
    if (json && o->file && strcmp(o->file, "-") == 0)
        return err_set(err, ERR_USAGE, "--json has the policy in its object: leave out --learn=-");
    o->cwd = getcwd(NULL, 0); /* NULL if the folder is gone */
    if (file && !o->force && lstat(file, &sb) == 0)
        return exists(file, err);
    return 0;
}

void learn_open_network(struct learn_options *o, struct policy *p)
{
    o->mode = p->network_mode;
    p->network_mode = NETWORK_ALLOWLIST;
}

/* Whole or not at all, and through no link: the folder may be one that the code could write to. */
static int put(const char *file, const struct buf *text, bool force, struct err *err)
{
    char name[NAME_MAX + 1], temporary[NAME_MAX + 1];
    cleanup_fd int dir = path_folder(file, "--learn", name, err);
    if (dir < 0)
        return dir;
    snprintf(temporary, sizeof temporary, ".brig-learn-%d", (int)getpid());
    unlinkat(dir, temporary, 0);
    cleanup_fd int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(err, "--learn: write %s", file);
    int r = term_write(fd, text->data, text->len);
    int failed = r < 0 ? -r : 0;
    if (!failed &&
        (force ? renameat(dir, temporary, dir, name) : linkat(dir, temporary, dir, name, 0)) < 0)
        failed = errno;
    if (failed || !force)
        unlinkat(dir, temporary, 0);
    errno = failed;
    return failed == EEXIST ? exists(file, err)
           : failed         ? err_sys(err, "--learn: write %s", file)
                            : 0;
}

int learn_save(const struct learn_options *o, bool json, struct learn *l,
               const struct policy *policy, struct err *err)
{
    struct policy base = *policy; /* shares what it points to */
    const char *file = file_of(o, json);
    base.network_mode = o->mode;
    if (learn_write(l, &base, err) < 0)
        return err_number(err);
    if (file) {
        if (put(file, &l->policy, o->force, err) < 0)
            return err_number(err);
        l->file = strdup(file);
    } else if (!json && term_write(STDOUT_FILENO, l->policy.data, l->policy.len) < 0) {
        return err_sys(err, "write the policy");
    }
    l->saved = true;
    return 0;
}

void learn_say(const struct learn *l)
{
    const char *file = l->file ? l->file : "FILE";
    if (l->line_count == 0)
        term_say("learned: nothing that could be allowed was refused%s",
                 l->ended_well ? "" : "; the program did not end well, for another reason");
    else
        term_say("learned: %zu line%s for the policy%s%s: read, then run with --policy %s",
                 l->line_count, l->line_count == 1 ? "" : "s", l->file ? ", in " : "",
                 l->file ? l->file : "", file);
    if (l->refusal_count)
        term_say("learned: %zu thing%s refused and not proposed; the comments say why",
                 l->refusal_count, l->refusal_count == 1 ? " was" : "s were");
    if (l->line_count && !l->ended_well)
        term_say("learned: it may ask for more once it gets further: run it again with --policy "
                 "and --learn");
    if (l->dropped)
        term_say("learned: %" PRIu64 " further things that it asked for were not kept", l->dropped);
}
