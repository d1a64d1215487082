/* What engines complain of, made fit to be shown. */
#include "warden/complaint.h"

#include "base/text.h"

#include <string.h>
#include <unistd.h>

void complaint_take(struct complaint *c, int fd)
{
    char piece[1024];
    ssize_t n = fd < 0 ? -1 : read(fd, piece, sizeof piece);
    for (ssize_t i = 0; i < n && c->len + 1 < sizeof c->text; i++)
        c->text[c->len++] =
            piece[i] == '\n' || (piece[i] >= ' ' && piece[i] <= '~') ? piece[i] : '?';
    c->text[c->len] = '\0';
    c->text[strcspn(c->text, "\n")] = '\0'; /* the first line says it */
}

const char *complaint_text(const struct complaint *c)
{
    static const char *const own[] = {"brig-gvisor: ", "brig-vmm: ", "brig: "};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (text_begins(c->text, own[i]))
            return c->text + strlen(own[i]);
    return c->text;
}
