/* The result of `brig verify` as tables for people, or as JSON. */
#include "cli/evidence/verify_text.h"

#include "base/json.h"
#include "cli/term.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TITLE_COLUMN 20
#define CELL_COLUMN  82
#define CELL_WIDTH   11

/* What to do, by boundary: the row says what was seen. */
static const char *advice(enum boundary_id b)
{
    switch (b) {
    case BOUNDARY_KERNEL:
        return "run nothing hostile on this tier here; `brig doctor` shows what the host lacks, "
               "--tier container puts namespaces around it";
    case BOUNDARY_FILESYSTEM:
        return "grant nothing that matters at this level; check filesystem.landlock and "
               "filesystem.root of the policy, and `brig doctor`";
    case BOUNDARY_NETWORK:
        return "keep network.mode off at this level until it holds; reinstall brig and brig-proxy "
               "of the same version";
    case BOUNDARY_CREDENTIALS:
        return "give no --secret and no --env to code at this level until it holds";
    case BOUNDARY_LIFECYCLE:
        return "set smaller limits, and give brig a cgroup of its own (`brig doctor`)";
    default:
        return "";
    }
}

static bool belongs(const struct verify_result *r, const struct verify_cell *cell, size_t row)
{
    return row_on_tier(&rows[row], cell->tier) && !(r->left_out && r->left_out[row]);
}

void verify_count(const struct verify_result *r, struct verify_count *ret)
{
    *ret = (struct verify_count){0};
    for (unsigned c = 0; c < r->cell_count; c++)
        for (size_t i = 0; r->cells[c].tried && i < row_count; i++) {
            if (!belongs(r, &r->cells[c], i))
                continue;
            enum verdict_kind kind = r->cells[c].rulings[i].kind;
            ret->held += kind == ROW_HELD;
            ret->failed += kind == ROW_FAILED;
            ret->not_applicable += kind == ROW_NOT_APPLICABLE;
        }
}

static void pad(struct buf *out, size_t from, size_t to)
{
    for (; from < to; from++)
        buf_chr(out, ' ');
}

static void mark(struct buf *out, struct verify_style s, enum verdict_kind kind, bool last)
{
    static const char *const plain[] = {"ok", "FAILED", "-"};
    static const char *const utf8[] = {"✓", "✗ FAILED", "–"};
    static const char *const colours[] = {"\033[32m", "\033[1;31m", "\033[2m"};
    static const size_t widths[] = {1, 8, 1};
    const char *word = s.utf8 ? utf8[kind] : plain[kind];
    buf_fmt(out, "%s%s%s", s.colour ? colours[kind] : "", word, s.colour ? "\033[0m" : "");
    if (!last)
        pad(out, s.utf8 ? widths[kind] : strlen(word), CELL_WIDTH);
}

static unsigned last_tried(const struct verify_result *r)
{
    unsigned last = 0;
    for (unsigned c = 0; c < r->cell_count; c++)
        last = r->cells[c].tried ? c : last;
    return last;
}

static void heading(const struct verify_result *r, struct verify_style s, const char *title,
                    struct buf *out)
{
    unsigned last = last_tried(r);
    buf_chr(out, '\n');
    pad(out, 0, CELL_COLUMN);
    for (unsigned c = 0; c < r->cell_count; c++)
        if (r->cells[c].tried)
            buf_fmt(out, "%-*s", c == last ? 0 : CELL_WIDTH, level_name(r->cells[c].level));
    buf_fmt(out, "\n%s%s%s", s.colour ? "\033[1m" : "", title, s.colour ? "\033[0m" : "");
    pad(out, strlen(title), CELL_COLUMN);
    for (unsigned c = 0; c < r->cell_count; c++)
        if (r->cells[c].tried)
            buf_fmt(out, "%-*s", c == last ? 0 : CELL_WIDTH, tier_name(r->cells[c].tier));
    buf_chr(out, '\n');
}

/* Some cell that was tried has to do with it. */
static bool shown(const struct verify_result *r, const struct row *row)
{
    for (unsigned c = 0; c < r->cell_count; c++)
        if (r->cells[c].tried && belongs(r, &r->cells[c], (size_t)(row - rows)))
            return true;
    return false;
}

static void table(const struct verify_result *r, struct verify_style s, enum boundary_id b,
                  struct buf *out)
{
    unsigned last = last_tried(r);
    bool any = false;
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].boundary != b || !shown(r, &rows[i]))
            continue;
        if (!any)
            heading(r, s, boundary_name(b), out);
        any = true;
        buf_fmt(out, "  %-*s%-*s", TITLE_COLUMN - 2, rows[i].id, CELL_COLUMN - TITLE_COLUMN,
                rows[i].title);
        for (unsigned c = 0; c < r->cell_count; c++)
            if (r->cells[c].tried)
                mark(out, s, r->cells[c].rulings[i].kind, c == last);
        buf_chr(out, '\n');
    }
}

static void guards_text(uint64_t guards, struct buf *out)
{
    bool first = true;
    for (int g = 0; g < GUARD_COUNT; g++)
        if (guards & UINT64_C(1) << g) {
            buf_fmt(out, "%s%s", first ? "" : ", ", guard_name((enum guard)g));
            first = false;
        }
}

static void failures(const struct verify_result *r, struct verify_style s, struct buf *out)
{
    for (unsigned c = 0; c < r->cell_count; c++)
        for (size_t i = 0; r->cells[c].tried && i < row_count; i++) {
            const struct verify_cell *cell = &r->cells[c];
            if (cell->rulings[i].kind != ROW_FAILED)
                continue;
            buf_fmt(out, "\n%sFAILED%s %s, level %s, %s tier: %s\n", s.colour ? "\033[1;31m" : "",
                    s.colour ? "\033[0m" : "", rows[i].id, level_name(cell->level),
                    tier_name(cell->tier), rows[i].title);
            buf_str(out, "  seen:  ");
            term_clean(out, cell->rulings[i].text);
            uint64_t guards = cell->guards[i];
            if (guards) {
                buf_str(out, "\n  guard: ");
                guards_text(guards, out);
            }
            buf_fmt(out, "\n  do:    %s\n", advice(rows[i].boundary));
        }
}

static void note_once(const struct verify_result *r, const char *why, struct buf *out)
{
    cleanup_buf struct buf ids;
    buf_init(&ids, 8192);
    for (size_t i = 0; i < row_count; i++)
        for (unsigned c = 0; shown(r, &rows[i]) && c < r->cell_count; c++) {
            const struct ruling *ruling = &r->cells[c].rulings[i];
            if (!r->cells[c].tried || ruling->kind != ROW_NOT_APPLICABLE ||
                strcmp(ruling->text, why) != 0)
                continue;
            buf_fmt(&ids, "%s%s", ids.len ? ", " : "", rows[i].id);
            break;
        }
    buf_str(out, "  ");
    term_clean(out, why);
    buf_fmt(out, ":\n      %s\n", buf_text(&ids));
}

static bool said_before(const struct verify_result *r, unsigned cell, size_t row)
{
    const char *why = r->cells[cell].rulings[row].text;
    for (unsigned c = 0; c <= cell; c++)
        for (size_t i = 0; r->cells[c].tried && i < row_count && (c < cell || i < row); i++)
            if (r->cells[c].rulings[i].kind == ROW_NOT_APPLICABLE && shown(r, &rows[i]) &&
                strcmp(r->cells[c].rulings[i].text, why) == 0)
                return true;
    return false;
}

static void excuses(const struct verify_result *r, struct buf *out)
{
    bool any = false;
    for (unsigned c = 0; c < r->cell_count; c++)
        for (size_t i = 0; r->cells[c].tried && i < row_count; i++) {
            if (r->cells[c].rulings[i].kind != ROW_NOT_APPLICABLE || !shown(r, &rows[i]) ||
                said_before(r, c, i))
                continue;
            if (!any)
                buf_str(out, "\nNot applicable, because\n");
            any = true;
            note_once(r, r->cells[c].rulings[i].text, out);
        }
}

static void untried(const struct verify_result *r, struct buf *out)
{
    for (unsigned c = 0; c < r->cell_count; c++) {
        const struct verify_cell *cell = &r->cells[c];
        if (cell->tried)
            continue;
        buf_fmt(out, "\nLevel %s on the %s tier is not available here: ", level_name(cell->level),
                tier_name(cell->tier));
        term_clean(out, cell->why);
        buf_chr(out, '\n');
        if (!cell->how[0])
            continue;
        buf_str(out, "  how: ");
        term_clean(out, cell->how);
        buf_chr(out, '\n');
    }
}

void verify_text(const struct verify_result *r, struct verify_style style, struct buf *out)
{
    struct verify_count n;
    verify_count(r, &n);
    for (int b = BOUNDARY_KERNEL; b < BOUNDARY_COUNT; b++)
        table(r, style, (enum boundary_id)b, out);
    excuses(r, out);
    untried(r, out);
    failures(r, style, out);
    buf_fmt(out, "\n%u held, %u FAILED, %u not applicable; %u sandboxes, %.1f s\n", n.held,
            n.failed, n.not_applicable, r->sandboxes, r->duration_ms / 1000.0);
}

static void json_guards(struct json_writer *w, const char *name, uint64_t guards)
{
    jw_key(w, name);
    jw_array_begin(w);
    for (int g = 0; g < GUARD_COUNT; g++)
        if (guards & UINT64_C(1) << g)
            jw_string(w, guard_name((enum guard)g));
    jw_array_end(w);
}

static void json_row(struct json_writer *w, const struct row *row, uint64_t guards,
                     const struct ruling *ruling)
{
    static const char *const members[] = {"held_by", "seen", "why"};
    jw_object_begin(w);
    jw_kv_string(w, "id", row->id);
    jw_kv_string(w, "boundary", boundary_name(row->boundary));
    jw_kv_string(w, "title", row->title);
    jw_kv_string(w, "verdict", verdict_word(ruling->kind));
    jw_key(w, members[ruling->kind]);
    jw_bytes(w, ruling->text, strlen(ruling->text));
    json_guards(w, "guards", guards);
    if (ruling->kind == ROW_FAILED)
        jw_kv_string(w, "do", advice(row->boundary));
    jw_object_end(w);
}

static void json_cell(struct json_writer *w, const struct verify_result *r,
                      const struct verify_cell *cell)
{
    jw_object_begin(w);
    jw_kv_string(w, "level", level_name(cell->level));
    jw_kv_string(w, "tier", tier_name(cell->tier));
    jw_kv_bool(w, "tried", cell->tried);
    if (!cell->tried) {
        jw_kv_string(w, "why", cell->why);
        jw_kv_string(w, "how", cell->how);
    }
    jw_key(w, "rows");
    jw_array_begin(w);
    for (size_t i = 0; cell->tried && i < row_count; i++)
        if (belongs(r, cell, i))
            json_row(w, &rows[i], cell->guards[i], &cell->rulings[i]);
    jw_array_end(w);
    jw_object_end(w);
}

void verify_json(const struct verify_result *r, struct buf *out)
{
    struct json_writer w;
    struct verify_count n;
    struct utsname host = {0};
    verify_count(r, &n);
    uname(&host);
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "brig", BRIG_VERSION);
    jw_kv_string(&w, "kernel", host.release);
    jw_kv_uint(&w, "uid", geteuid());
    jw_key(&w, "summary");
    jw_object_begin(&w);
    jw_kv_uint(&w, "held", n.held);
    jw_kv_uint(&w, "failed", n.failed);
    jw_kv_uint(&w, "not_applicable", n.not_applicable);
    jw_kv_uint(&w, "sandboxes", r->sandboxes);
    jw_kv_uint(&w, "duration_ms", (uint64_t)r->duration_ms);
    jw_object_end(&w);
    jw_key(&w, "cells");
    jw_array_begin(&w);
    for (unsigned c = 0; c < r->cell_count; c++)
        json_cell(&w, r, &r->cells[c]);
    jw_array_end(&w);
    jw_object_end(&w);
    buf_chr(out, '\n');
}

void verify_list_text(struct buf *out)
{
    for (int b = BOUNDARY_KERNEL; b < BOUNDARY_COUNT; b++) {
        buf_fmt(out, "%s%s\n", out->len ? "\n" : "", boundary_name((enum boundary_id)b));
        for (size_t i = 0; i < row_count; i++)
            if (rows[i].boundary == (enum boundary_id)b)
                buf_fmt(out, "  %-*s%s\n", TITLE_COLUMN - 2, rows[i].id, rows[i].title);
    }
}

void verify_list_json(struct buf *out)
{
    const struct circumstances gvisor = {.tier = TIER_GVISOR, .sentry = true, .cgroup = true};
    const struct circumstances vm = {.tier = TIER_VM, .guest = true, .cgroup = true};
    struct json_writer w;
    jw_init(&w, out, false);
    jw_array_begin(&w);
    for (size_t i = 0; i < row_count; i++) {
        jw_object_begin(&w);
        jw_kv_string(&w, "id", rows[i].id);
        jw_kv_string(&w, "boundary", boundary_name(rows[i].boundary));
        jw_kv_string(&w, "title", rows[i].title);
        jw_kv_string(&w, "sandbox", scene_name(rows[i].scene));
        bool plain = row_on_tier(&rows[i], TIER_CONTAINER) && !(rows[i].flags & ROW_SENTRY);
        bool sentry = row_on_tier(&rows[i], TIER_GVISOR);
        json_guards(&w, "process", plain ? rows[i].process : 0);
        json_guards(&w, "container", plain ? rows[i].container : 0);
        json_guards(&w, "wasm", row_on_tier(&rows[i], TIER_WASM) ? rows[i].container : 0);
        json_guards(&w, "gvisor", sentry ? row_guards(&rows[i], &gvisor) : 0);
        json_guards(&w, "vm", row_on_tier(&rows[i], TIER_VM) ? row_guards(&rows[i], &vm) : 0);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    buf_chr(out, '\n');
}
