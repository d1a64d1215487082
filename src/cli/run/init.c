/* brig init: a policy for the project in this folder, with the reason for each line, to be read and
 * changed. What is found are names of files and nothing in them: the project may be hostile. */
#include "base/cleanup.h"
#include "cli/path.h"
#include "cli/term.h"
#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_FILE "brig-policy.yaml"

/* Files that say which tool builds the project, and the presets of what that tool fetches. */
static const struct mark {
    const char *file, *language, *presets[2];
} marks[] = {
    {"requirements.txt", "Python", {"@pypi"}},
    {"pyproject.toml", "Python", {"@pypi"}},
    {"setup.py", "Python", {"@pypi"}},
    {"Pipfile", "Python", {"@pypi"}},
    {"uv.lock", "Python", {"@pypi"}},
    {"poetry.lock", "Python", {"@pypi"}},
    {"setup.cfg", "Python", {"@pypi"}},
    {"environment.yml", "Conda", {"@conda"}},
    {"environment.yaml", "Conda", {"@conda"}},
    {"package.json", "JavaScript", {"@npm"}},
    {"yarn.lock", "JavaScript", {"@yarn"}},
    {"pnpm-lock.yaml", "JavaScript", {"@npm"}},
    {"bun.lock", "JavaScript", {"@npm"}},
    {"Cargo.toml", "Rust", {"@crates"}},
    {"go.mod", "Go", {"@go"}},
    {"pom.xml", "Java", {"@maven"}},
    {"build.gradle", "Java", {"@maven", "@gradle"}},
    {"build.gradle.kts", "Kotlin", {"@maven", "@gradle"}},
    {"Gemfile", "Ruby", {"@rubygems"}},
    {"composer.json", "PHP", {"@packagist", "@github"}},
    {"global.json", ".NET", {"@nuget"}},
    {"packages.lock.json", ".NET", {"@nuget"}},
    {"build.sbt", "Scala", {"@maven"}},
    {"mix.exs", "Elixir", {"@hex"}},
    {"DESCRIPTION", "R", {"@cran"}},
    {"renv.lock", "R", {"@cran"}},
};

struct found {
    bool marks[ARRAY_LEN(marks)];
    bool any, git;
};

static bool is_there(const char *name)
{
    struct stat sb;
    return fstatat(AT_FDCWD, name, &sb, AT_SYMLINK_NOFOLLOW) == 0;
}

static void look(struct found *f)
{
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        f->marks[i] = is_there(marks[i].file);
        f->any |= f->marks[i];
    }
    f->git = is_there(".git");
}

/* Has an earlier mark brought it already? */
static bool is_listed(const struct found *f, size_t before, const char *preset)
{
    for (size_t i = 0; i < before; i++) {
        for (size_t k = 0; f->marks[i] && k < 2; k++) {
            if (marks[i].presets[k] && strcmp(marks[i].presets[k], preset) == 0)
                return true;
        }
    }
    return false;
}

static void write_rules(const struct found *f, struct buf *out)
{
    buf_str(out, f->any ? "network:\n  allow:\n" : "# network:\n#   allow:\n");
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        for (size_t k = 0; f->marks[i] && k < 2 && marks[i].presets[k]; k++) {
            if (!is_listed(f, i, marks[i].presets[k]))
                buf_fmt(out, "    - \"%s\"  # %s: %s is here\n", marks[i].presets[k],
                        marks[i].language, marks[i].file);
        }
    }
    const char *off = f->any ? "    # " : "#     ";
    if (f->git)
        buf_fmt(out, "%s- \"@github\"  # git fetch and clone; also a way to send things out\n",
                off);
    buf_fmt(out, "%s- api.example.org  # one host, http and https\n", off);
}

static void write_policy(const struct found *f, const char *file, struct buf *out)
{
    buf_fmt(
        out,
        "# What code may do in a sandbox of this project.\n"
        "#   brig run --policy %s -- COMMAND\n"
        "# What is left out has the level's value: brig policy explain --policy %s\n"
        "version: 1\n"
        "\n"
        "# high: the code sees nothing of this folder. medium: it may change it. To look at the\n"
        "# changes before they are taken over: brig run --review\n"
        "level: high\n"
        "\n"
        "# Hosts that the code may reach; all others are closed. A word with @ is a preset:\n"
        "# brig policy presets\n",
        file, file);
    write_rules(f, out);
    buf_str(out, "\n"
                 "# lifecycle:\n"
                 "#   memory: 1G\n"
                 "#   timeout: 10m\n"
                 "\n"
                 "# Keys that the code uses and never sees; brig-proxy adds them to requests:\n"
                 "# credentials:\n"
                 "#   secrets:\n"
                 "#     - \"TOKEN=env:TOKEN@https://api.example.org\"\n");
}

static int save(const char *file, const struct buf *text, struct err *err)
{
    char name[NAME_MAX + 1];
    cleanup_fd int dir = path_folder(file, "cannot write the policy", name, err);
    if (dir < 0)
        return dir;
    cleanup_fd int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST) {
        err_set(err, ERR_USAGE, "%.200s is there already, and is left as it is", file);
        return err_hint(err, "name another file: brig init FILE; or print it: brig init -");
    }
    if (fd < 0)
        return err_sys(err, "make %.200s", file);
    if (term_write(fd, buf_text(text), text->len) < 0) {
        err_sys(err, "write %.200s", file);
        unlinkat(dir, name, 0);
        return err_number(err);
    }
    return 0;
}

static void say_found(const struct found *f, const char *file)
{
    cleanup_buf struct buf names;
    buf_init(&names, 1024);
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        if (f->marks[i])
            buf_fmt(&names, "%s%s (%s)", names.len ? ", " : "", marks[i].language, marks[i].file);
    }
    term_say("%s was written; found: %s", file,
             names.len ? buf_text(&names) : "nothing that names a package registry");
    term_say("next: brig policy explain --policy %s; brig run --policy %s -- COMMAND", file, file);
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    const char **file = ctx;
    if (opt)
        return err_set(err, ERR_INTERNAL, "option --%s is not handled", opt->name);
    if (*file)
        return err_set(err, ERR_USAGE, "one file at a time: '%.60s' is one too many", value);
    *file = value;
    return 0;
}

static int init_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct found found = {0};
    const char *file = NULL;
    cleanup_buf struct buf text;
    buf_init(&text, 65536);
    int r = verb_parse_all(verb, argc, argv, take, &file, &err);
    if (r > 0)
        return 0;
    if (r >= 0) {
        bool print = file && strcmp(file, "-") == 0;
        const char *name = file && !print ? file : DEFAULT_FILE;
        look(&found);
        write_policy(&found, name, &text);
        if (text.failed)
            r = err_set(&err, ERR_LIMIT, "the name of the file is too long");
        else if (print)
            r = term_write(STDOUT_FILENO, buf_text(&text), text.len) < 0 ? err_sys(&err, "write")
                                                                         : 0;
        else
            r = save(name, &text, &err);
        if (r >= 0 && !print)
            say_found(&found, name);
    }
    return r < 0 ? verb_fail(verb, &err, false) : 0;
}

const struct verb verb_init = {
    .name = "init",
    .summary = "write a policy for the project in this folder",
    .usage = "init [FILE]",
    .about = "Looks which tools the project uses (by the names of files: requirements.txt,\n"
             "package.json, Cargo.toml, …) and writes a policy with the presets of their\n"
             "registries and a comment for each part. FILE is " DEFAULT_FILE " if left\n"
             "out; - prints it. Nothing is overwritten.",
    .examples = "brig init\n"
                "brig run --policy " DEFAULT_FILE " -- python3 app.py",
    .statuses = "0    written\n125  it is there already, or cannot be written",
    .options = &common_options,
    .main = init_main,
};
