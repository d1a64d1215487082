/* Unpacks gzip as it arrives; the only file that sees zlib. */
#include "daemon/e2b/gunzip.h"

#include <stdlib.h>
#define ZLIB_CONST
#include <zlib.h>

#define GZIP_ONLY 16 /* added to the window's bits: no zlib header, no raw stream */

struct gunzip {
    z_stream stream;
    bool more, complete;
};

int gunzip_new(struct gunzip **ret, struct err *err)
{
    struct gunzip *g = calloc(1, sizeof(*g));
    if (!g || inflateInit2(&g->stream, GZIP_ONLY + MAX_WBITS) != Z_OK) {
        free(g);
        return err_memory(err);
    }
    *ret = g;
    return 0;
}

void gunzip_free(struct gunzip *g)
{
    if (g)
        inflateEnd(&g->stream);
    free(g);
}

int gunzip_step(struct gunzip *g, const char *data, size_t len, size_t *ret_taken, char *out,
                size_t size, size_t *ret_made, struct err *err)
{
    if (g->complete && len)
        return err_set(err, ERR_USAGE, "gzip: something follows its end");
    g->stream.next_in = (const unsigned char *)data;
    g->stream.avail_in = (unsigned)len;
    g->stream.next_out = (unsigned char *)out;
    g->stream.avail_out = (unsigned)size;
    int r = g->complete ? Z_OK : inflate(&g->stream, Z_NO_FLUSH);
    /* Z_BUF_ERROR: nothing to do until there is more input. */
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
        return err_set(err, ERR_USAGE, "gzip: %s", g->stream.msg ? g->stream.msg : "broken");
    g->complete |= r == Z_STREAM_END;
    g->more = !g->complete && !g->stream.avail_out;
    *ret_taken = len - g->stream.avail_in;
    *ret_made = size - g->stream.avail_out;
    return 0;
}

bool gunzip_has_more(const struct gunzip *g)
{
    return g->more;
}

bool gunzip_complete(const struct gunzip *g)
{
    return g->complete;
}
