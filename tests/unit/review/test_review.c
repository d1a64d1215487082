/* The parts of reviews that touch no file: marks, names, records, journals, choices. */
#include "review/journal.h"
#include "review/review.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(review, what_the_host_trusts)
{
    static const char *const marked[] = {
        ".git/hooks/pre-commit",
        ".git/config",
        ".git",
        "sub/.git/config",
        ".GIT/hooks/x",
        ".Git/Config",
        "git~1/config",
        ".g\xe2\x80\x8cit/x",
        ".git./config",
        ".git /config",
        ".git::$INDEX/config",
        ".envrc",
        "a/b/.envrc",
        ".ENVRC",
        "package.json",
        "web/Package.JSON",
        "Makefile",
        "makefile",
        "GNUmakefile",
        "sub/rules.mk",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".vscode/settings.json",
        ".idea/workspace.xml",
        ".bashrc",
        ".profile",
        ".pre-commit-config.yaml",
        ".husky/pre-push",
        "Jenkinsfile",
        ".gitmodules",
        ".mcp.json",
        "AGENTS.md",
        "x.code-workspace",
        "CVS/Root",
        ".hg/hgrc",
        ".lfsconfig",
        ".rvmrc",
        "shell.nix",
        "crate/Cargo.toml",
        "rust-toolchain.toml",
        "CMakeLists.txt",
        "app/build.gradle.kts",
        "vite.config.mjs",
        ".eslintrc.cjs",
        "evil.pth",
        ".devcontainer.json",
        "AGENTS.override.md",
        "pnpm-workspace.yaml",
        ".Renviron",
        ".RData",
        ".cirrus.star",
        ".build.yml",
        ".iex.exs",
        ".formatter.exs",
        ".lazy.lua",
        ".octaverc",
        ".proverc",
        ".valgrindrc",
        ".luacheckrc",
        ".gitpod.yml",
        "vitest.workspace.ts",
        "lib/BUILD",
        "tools/rules.bzl",
        ".continuerc.json",
        ".roomodes",
        "WARP.md",
        ".venv/bin/activate",
    };
    static const char *const plain[] = {
        "src/main.c",       "git/config",    "README.md",     "gitignore",
        "package.json.txt", "src/Makefile2", "x.git",         "environment",
        "docs/bashrc.md",   ".gitignore",    "src/config.js", "cvs.c",
        "configure.c",      "nix",           "Cargo.toml.md", "build/out.o",
        "agents.over.md",   "venv/x",        "a.bzl.txt",     "builder",
    };
    for (size_t i = 0; i < sizeof marked / sizeof *marked; i++)
        cr_assert(review_trust(marked[i]), "%s", marked[i]);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        cr_assert_null(review_trust(plain[i]), "%s", plain[i]);
}

/* ext4 and f2fs take these names for the others, in a folder without case. */
Test(review, every_spelling_of_a_trusted_name)
{
    static const char *const same[] = {
        ".v\xc5\xbf"
        "code/settings.json", /* long s */
        "pac\xe2\x84\xaa"
        "age.json",              /* the sign of the kelvin */
        ".\xc3\x9fh/config",     /* sharp s */
        ".\xe1\xba\x9eh/config", /* its capital */
        "Make\xef\xac\x81le",    /* ligatures */
        ".ba\xc5\xbfhrc",
        "rv\xef\xac\x86/.te\xef\xac\x86/.en\xc2\xadvrc", /* soft hyphen */
        ".g\xcd\x8fit/config",                           /* grapheme joiner */
        ".g\xe2\x81\xa0it/config",                       /* word joiner */
        ".g\xe3\x85\xa4it/config",                       /* Hangul filler */
        ".git\xef\xb8\x8f/config",                       /* variation selector */
        ".g\xf0\x9d\x85\xb3it/config",                   /* of music */
        ".g\xf3\xa0\x80\xa1it/config",                   /* tag */
    };
    static const char *const other[] = {
        ".g\xc3\xaft/config",      /* i with dots */
        ".g\xadit/config",         /* no UTF-8 */
        "Make\xef\xac\x82le",      /* the ligature of f and l */
        "package\xe2\x80\xa6json", /* dots in one */
        "\xc2\xad",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        cr_assert(review_trust(same[i]), "%s", same[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        cr_assert_null(review_trust(other[i]), "%s", other[i]);
}

Test(review, links_that_lead_out)
{
    cr_assert(review_link_escapes("a", "/etc/passwd"));
    cr_assert(review_link_escapes("a", "../x"));
    cr_assert(review_link_escapes("a/b", "../../x"));
    cr_assert(review_link_escapes("a/b", "c/../../../x"));
    cr_assert(review_link_escapes("a", ""));
    cr_assert(!review_link_escapes("a", "b"));
    cr_assert(!review_link_escapes("a/b", "../x"));
    cr_assert(!review_link_escapes("a/b/c", ".././../x//y"));
    /* With q/up -> "..", which stays inside, this one does not. */
    cr_assert(!review_link_escapes("q/up", ".."));
    cr_assert(review_link_escapes("q/out", "up/../x"));
    cr_assert(review_link_escapes("q/out", "up/.././/x"));
}

Test(review, names_are_quoted)
{
    struct buf out;
    buf_init(&out, 1000);
    review_name(&out, "a/", "plain name");
    cr_assert_str_eq(buf_text(&out), "a/plain name");
    buf_reset(&out);
    review_name(&out, "b/", "x\n\t\"\\\x1b\xc3\xa9");
    cr_assert_str_eq(buf_text(&out), "\"b/x\\n\\t\\\"\\\\\\033\\303\\251\"");
    buf_done(&out);
}

Test(review, meta_comes_back)
{
    struct buf out;
    struct review_meta in = {.id = "brig-12",
                             .copy = true,
                             .source = "/a b/\xff\n%41",
                             .dest = "/x",
                             .command = "sh -c \x1b",
                             .dev = UINT64_MAX,
                             .ino = 7,
                             .uid = 3,
                             .gid = 4,
                             .started_ns = 1700000000123456789,
                             .limit = 5},
                       back;
    buf_init(&out, 10000);
    review_meta_write(&in, &out);
    cr_assert_eq(review_meta_parse(buf_text(&out), out.len, &back, NULL), 0);
    cr_assert_str_eq(back.source, in.source);
    cr_assert_str_eq(back.command, in.command);
    cr_assert(back.copy && back.dev == UINT64_MAX && back.ino == 7 && back.limit == 5 &&
              back.started_ns == in.started_ns && strcmp(back.id, in.id) == 0);
    review_meta_done(&back);
    for (size_t len = 0; len < out.len - 1; len++)
        cr_assert_lt(review_meta_parse(buf_text(&out), len, &back, NULL), 0, "%zu", len);
    buf_done(&out);
}

Test(review, base_comes_back)
{
    struct buf out;
    struct review_base base;
    struct review_stamp a = {1, 2, -3, 4, 0100644}, b = {5, 6, 7, 8, 0100600};
    buf_init(&out, 10000);
    review_base_add(&out, "z\nz", &a, &b);
    review_base_add(&out, "a b", &b, &a);
    cr_assert_eq(review_base_parse(out.data, out.len, &base, NULL), 0);
    cr_assert_eq(base.count, 2);
    struct review_base_entry *e = review_base_find(&base, "z\nz");
    cr_assert(e && review_stamp_same(&e->host, &a) && review_stamp_same(&e->layer, &b));
    cr_assert_null(review_base_find(&base, "a"));
    review_base_done(&base);
    cr_assert_lt(review_base_parse(out.data, out.len - 1, &base, NULL), 0);
    buf_done(&out);
}

Test(review, journal_comes_back_and_nothing_else_does)
{
    static const char *const bad[] = {"", "/x", "..", "a/..", "../x", "a//b", "a/", ".", "a/./b"};
    struct buf out;
    struct review_journal j;
    buf_init(&out, 10000);
    review_journal_begin(&out, REVIEW_STAGING "0123456789abcdef");
    review_journal_add(&out, &(struct review_op){REVIEW_OP_REPLACE, 1, 2, 3, -4, 0100644, 0100755,
                                                 "dir/na\nme", 5, -6, true});
    review_journal_end(&out);
    cr_assert_eq(review_journal_parse(out.data, out.len, &j, NULL), 0);
    cr_assert(j.count == 1 && j.ops[0].kind == REVIEW_OP_REPLACE && j.ops[0].new_ino == 1 &&
              j.ops[0].old_mtime_ns == -4 && strcmp(j.ops[0].path, "dir/na\nme") == 0);
    cr_assert(j.ops[0].new_size == 5 && j.ops[0].new_mtime_ns == -6 && j.ops[0].stamped);
    review_journal_done(&j);
    for (size_t len = 0; len < out.len; len++)
        cr_assert_lt(review_journal_parse(out.data, len, &j, NULL), 0, "%zu", len);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert(!review_path_ok(bad[i]), "%s", bad[i]);
        buf_reset(&out);
        review_journal_begin(&out, REVIEW_STAGING "00");
        review_journal_add(&out, &(struct review_op){.kind = REVIEW_OP_REMOVE, .path = bad[i]});
        review_journal_end(&out);
        cr_assert_lt(review_journal_parse(out.data, out.len, &j, NULL), 0, "%s", bad[i]);
    }
    buf_reset(&out);
    review_journal_begin(&out, "../../etc");
    review_journal_end(&out);
    cr_assert_lt(review_journal_parse(out.data, out.len, &j, NULL), 0);
    cr_assert(review_path_ok("a/b...c/.x"));
    buf_done(&out);
}

Test(review, journals_of_older_versions_say_less)
{
    static const char head[] = "brig-journal-1 " REVIEW_STAGING "0123456789abcdef";
    static const char old[] = "brig-journal-1 " REVIEW_STAGING "0123456789abcdef\0"
                              "1 1 2 3 4 81a4 81ed 7 8 x\0end";
    static const char new[] = "brig-journal-2 " REVIEW_STAGING "0123456789abcdef\0"
                              "1 1 2 3 4 81a4 81ed 7 8 x\0end";
    struct review_journal j;
    cr_assert_eq(review_journal_parse(old, sizeof old, &j, NULL), 0);
    cr_assert(j.count == 1 && !j.ops[0].stamped && strcmp(j.ops[0].path, "7 8 x") == 0);
    review_journal_done(&j);
    cr_assert_eq(review_journal_parse(new, sizeof new, &j, NULL), 0);
    cr_assert(j.count == 1 && j.ops[0].stamped && j.ops[0].new_size == 7);
    cr_assert_str_eq(j.ops[0].path, "x");
    review_journal_done(&j);
    cr_assert_lt(review_journal_parse(head, sizeof head, &j, NULL), 0);
    for (size_t len = 0; len < sizeof old; len++)
        cr_assert_lt(review_journal_parse(old, len, &j, NULL), 0, "%zu", len);
}

Test(review, names_of_a_repository)
{
    static const char *const some[] = {"HEAD", "objects", "refs", "commondir", "config", "hooks"};
    static const char *const none[] = {"HEADS", "object", "reference", "conf", "head.txt", ""};
    unsigned bit = 0, seen = 0;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        cr_assert(review_is_git_name(some[i], strlen(some[i]), &bit), "%s", some[i]);
        cr_assert_eq(seen & bit, 0);
        seen |= bit;
    }
    cr_assert(review_is_git_name("HEAD", 4, &bit) && bit == REVIEW_GIT_HEAD);
    cr_assert(review_is_git_name("refs/x", 4, &bit) && bit == REVIEW_GIT_REFS);
    cr_assert(review_is_git_name("Objects. ", 9, &bit) && bit == REVIEW_GIT_OBJECTS);
    cr_assert(review_is_git_name("commondir", 9, &bit) && bit == REVIEW_GIT_COMMONDIR);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_assert_not(review_is_git_name(none[i], strlen(none[i]), &bit), "%s", none[i]);
}

static void add(struct review *r, const char *path, enum review_kind kind, uint32_t old,
                uint32_t new)
{
    struct review_stamp a = {.mode = old}, b = {.mode = new};
    cr_assert(review_add(r, path, kind, &a, &b, NULL));
}

static struct review *sample(void)
{
    struct review *r = calloc(1, sizeof *r);
    review_init(r);
    add(r, "Makefile", REVIEW_MODIFIED, S_IFREG, S_IFREG);
    r->changes[0].trust = "trusted";
    add(r, "fifo", REVIEW_ADDED, 0, S_IFIFO);
    r->changes[1].refused = "refused";
    add(r, "new", REVIEW_ADDED, 0, S_IFDIR);
    add(r, "new/file", REVIEW_ADDED, 0, S_IFREG);
    add(r, "old", REVIEW_DELETED, S_IFDIR, 0);
    add(r, "old/a", REVIEW_DELETED, S_IFREG, 0);
    r->changes[3].twin = 5;
    r->changes[5].twin = 3;
    add(r, "older", REVIEW_MODIFIED, S_IFREG, S_IFREG);
    r->changes[6].conflict = "conflict";
    return r;
}

static int choose(struct review *r, const char *file, const char *trust)
{
    struct review_choice c = {
        .files = &file, .file_count = file != NULL, .trust = &trust, .trust_count = trust != NULL};
    struct err err = ERR_INIT;
    return review_choose(r, &c, &err);
}

Test(review, choices_are_complete_and_checked)
{
    struct review *r = sample();
    cr_assert_lt(choose(r, NULL, NULL), 0);
    cr_assert_lt(choose(r, "nothing", NULL), 0);
    cr_assert_lt(choose(r, "ol", NULL), 0, "half a name");
    cr_assert_lt(choose(r, "fifo", NULL), 0);
    cr_assert_lt(choose(r, "older", NULL), 0);
    cr_assert_lt(choose(r, "Makefile", NULL), 0);
    cr_assert_lt(choose(r, "Makefile", "new"), 0, "another name");
    cr_assert_lt(choose(r, "Makefile", "makefile"), 0, "not its name");
    cr_assert_eq(choose(r, "Makefile", "Makefile"), 0);
    cr_assert_eq(choose(r, "new/file", NULL), 0);
    cr_assert(r->changes[2].chosen, "the new folder comes along");
    cr_assert(r->changes[5].chosen && !r->changes[4].chosen, "the other half of the rename");
    cr_assert_eq(choose(r, "./old/", NULL), 0);
    cr_assert(r->changes[4].chosen && r->changes[5].chosen && r->changes[3].chosen &&
              !r->changes[6].chosen);
    r->running = true;
    cr_assert_lt(choose(r, "new/file", NULL), 0);
    review_done(r);
    free(r);
}
