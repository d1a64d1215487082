/* brig-unpack KIND BYTES ENTRIES: reads an archive from stdin, unpacks it into the working folder,
 * says on stdout what came. KIND is `layer`, `plain` (a layer without compression, whose digest the
 * caller computes), or `archive`, in which no name means anything. It is started by brig
 * alone, in a sandbox (images/load/unpack.c). */
#include "base/buf.h"
#include "base/json.h"
#include "base/num.h"
#include "unpack/unpack.h"

#include <fcntl.h>
#include <langinfo.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_arguments(struct unpack *u, bool *layer, int argc, char **argv, struct err *err)
{
    static const char *const kinds[] = {"archive", "layer", "plain", NULL};
    unsigned kind = 0;
    while (argc == 4 && kinds[kind] && strcmp(argv[1], kinds[kind]) != 0)
        kind++;
    if (argc != 4 || !kinds[kind])
        return err_set(err, ERR_USAGE, "brig-unpack is started by brig image load");
    *layer = kind > 0;
    u->plain = kind == 2;
    u->unhashed = kind != 1;
    if (num_parse_uint(argv[2], &u->limits.bytes, err) < 0)
        return err_number(err);
    return num_parse_uint(argv[3], &u->limits.entries, err);
}

static void say(int fd, struct buf *text)
{
    size_t at = 0;
    buf_chr(text, '\n');
    while (at < text->len) {
        ssize_t n = write(fd, text->data + at, text->len - at);
        if (n <= 0)
            return;
        at += (size_t)n;
    }
}

static void tell(const struct unpack *u, const struct err *err)
{
    struct buf out;
    struct json_writer w;
    jw_begin(&w, &out, 4096);
    if (err->code != ERR_NONE) {
        jw_kv_int(&w, "code", err->code);
        jw_kv_bytes(&w, "message", err->message, strlen(err->message));
        jw_kv_string(&w, "hint", err->hint);
    } else {
        jw_kv_string(&w, "diff_id", u->counts.diff_id);
        jw_kv_uint(&w, "bytes", u->counts.bytes);
        jw_kv_uint(&w, "entries", u->tree.entries);
        jw_kv_uint(&w, "left_out", u->counts.left_out);
    }
    jw_object_end(&w);
    say(STDOUT_FILENO, &out);
    buf_done(&out);
}

/* libarchive asks the C library which letters names are written in, and would turn all that is not
 * ASCII into '?' where no locale is installed, as in this sandbox. Names are UTF-8, or bytes, and
 * stay as they are. */
char *nl_langinfo(nl_item item)
{
    return item == CODESET ? "UTF-8" : "";
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    static struct unpack u;
    bool layer = false;
    umask(0);
    int root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        err_sys(&err, "open the working folder");
    else if (read_arguments(&u, &layer, argc, argv, &err) >= 0 &&
             tree_init(&u.tree, root, layer, u.limits.entries, &err) >= 0)
        (void)unpack_stream(&u, STDIN_FILENO, &err);
    tell(&u, &err);
    return err.code == ERR_NONE ? 0 : 1;
}
