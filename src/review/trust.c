/* RV-6: files that the host executes, obeys or trusts without being asked again. By name, whether
 * they exist yet or not, and in any spelling that some file system takes for the same name. */
#include "base/cleanup.h"
#include "base/utf8.h"
#include "review/review.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define GIT    "git obeys it on the host"
#define VCS    "version control obeys it on the host"
#define CI     "it says what the build service runs"
#define EDITOR "editors obey it when the folder is opened"
#define AGENT  "coding agents obey it"
#define ENV    "it is loaded into the shell when the folder is entered"
#define SHELL  "shells run it when they start"
#define HOOKS  "it says what runs at each commit"
#define BUILD  "it says what builds and installs run"
#define TOOLS  "tools obey it when they are started in the folder"

struct rule {
    const char *pattern; /* lower case; of one part of the path, or, with a slash, of several */
    const char *why;
};

/* A part of the path with this name, and all below it. */
static const struct rule folders[] = {
    {".git", GIT},
    {"git~[0-9]", GIT}, /* its short name on FAT and NTFS */
    {".husky", HOOKS},
    {".githooks", HOOKS},
    {".vscode", EDITOR},
    {".vscode-server", EDITOR},
    {".idea", EDITOR},
    {".fleet", EDITOR},
    {".zed", EDITOR},
    {".vim", EDITOR},
    {".nvim", EDITOR},
    {".devcontainer", EDITOR},
    {".github", CI},
    {".gitlab", CI},
    {".gitea", CI},
    {".forgejo", CI},
    {".circleci", CI},
    {".buildkite", CI},
    {".woodpecker", CI},
    {".claude", AGENT},
    {".cursor", AGENT},
    {".codex", AGENT},
    {".gemini", AGENT},
    {".windsurf", AGENT},
    {".continue", AGENT},
    {".cargo", BUILD},
    {".mvn", BUILD},
    {".yarn", BUILD},
    {".ssh", TOOLS},
    {".gnupg", TOOLS},
    {".config", TOOLS},
    {".direnv", ENV},
    {".hg", VCS},
    {".svn", VCS},
    {".bzr", VCS},
    {".jj", VCS},
    {".sl", VCS},
    {"_darcs", VCS},
    {"cvs", VCS},
    {".roo", AGENT},
    {".kiro", AGENT},
    {".clinerules", AGENT},
    {".vs", EDITOR},
    {".bundle", BUILD},
    {".agents", AGENT},
    {".agent", AGENT},
    {".junie", AGENT},
    {".amazonq", AGENT},
    {".augment", AGENT},
    {".trae", AGENT},
    {".qwen", AGENT},
    {".opencode", AGENT},
    {".kilocode", AGENT},
    {".openhands", AGENT},
    {".factory", AGENT},
    {".goose", AGENT},
    {".helix", EDITOR},
    {".emacs.d", EDITOR},
    {".semaphore", CI},
    {".teamcity", CI},
    {".tekton", CI},
    {".builds", CI},
    {".azure-pipelines", CI},
    {".venv", ENV},
};

/* The last part of the path. */
static const struct rule files[] = {
    {".gitmodules", GIT},
    {".gitattributes", GIT},
    {".gitconfig", GIT},
    {".lfsconfig", GIT},
    {".hgsub", VCS},
    {".hgsubstate", VCS},
    {".envrc", ENV},
    {".env", ENV},
    {".env.*", ENV},
    {".rvmrc", ENV},
    {".autoenv*", ENV},
    {"*.nix", ENV},
    {".tool-versions", ENV},
    {".flaskenv", ENV},
    {"devbox.json", ENV},
    {"devenv.*", ENV},
    {"guix.scm", ENV},
    {"manifest.scm", ENV},
    {"mise.toml", ENV},
    {".mise.toml", ENV},
    {".mise.*.toml", ENV},
    {"package.json", BUILD},
    {".npmrc", BUILD},
    {".yarnrc", BUILD},
    {".yarnrc.yml", BUILD},
    {".pnpmfile.*", BUILD},
    {"pnpm-workspace.y*ml", BUILD},
    {"composer.json", BUILD},
    {"makefile", BUILD},
    {"gnumakefile", BUILD},
    {"bsdmakefile", BUILD},
    {"makefile.*", BUILD},
    {"*.mk", BUILD},
    {"justfile", BUILD},
    {".justfile", BUILD},
    {"taskfile.y*ml", BUILD},
    {"rakefile", BUILD},
    {"setup.py", BUILD},
    {"setup.cfg", BUILD},
    {"pyproject.toml", BUILD},
    {"tox.ini", BUILD},
    {"noxfile.py", BUILD},
    {"pip.conf", BUILD},
    {".pypirc", BUILD},
    {"build.rs", BUILD},
    {"cargo.toml", BUILD},
    {"rust-toolchain", BUILD},
    {"rust-toolchain.toml", BUILD},
    {"gemfile", BUILD},
    {"*.gemspec", BUILD},
    {"mix.exs", BUILD},
    {"pom.xml", BUILD},
    {"build.xml", BUILD},
    {"*.gradle", BUILD},
    {"*.gradle.kts", BUILD},
    {"gradle.properties", BUILD},
    {"*.sbt", BUILD},
    {"*.csproj", BUILD},
    {"*.vcxproj", BUILD},
    {"directory.build.*", BUILD},
    {"nuget.config", BUILD},
    {"cmakelists.txt", BUILD},
    {"cmakepresets.json", BUILD},
    {"*.cmake", BUILD},
    {"meson.build", BUILD},
    {"configure", BUILD},
    {"sconstruct", BUILD},
    {"wscript", BUILD},
    {".bazelrc", BUILD},
    {"build.bazel", BUILD},
    {"build", BUILD},
    {"*.bzl", BUILD},
    {"module.bazel", BUILD},
    {"workspace", BUILD},
    {"workspace.bazel", BUILD},
    {"deno.json*", BUILD},
    {"bunfig.toml", BUILD},
    {"vagrantfile", BUILD},
    {"gradlew", BUILD},
    {"gradlew.bat", BUILD},
    {"mvnw", BUILD},
    {"gradle-wrapper.*", BUILD},
    {"dockerfile", BUILD},
    {"dockerfile.*", BUILD},
    {"containerfile", BUILD},
    {"containerfile.*", BUILD},
    {"docker-bake.*", BUILD},
    {"gulpfile.*", BUILD},
    {"gruntfile.*", BUILD},
    {"podfile", BUILD},
    {"brewfile", BUILD},
    {"guardfile", BUILD},
    {"capfile", BUILD},
    {"thorfile", BUILD},
    {"tiltfile", BUILD},
    {"earthfile", BUILD},
    {"setup.hs", BUILD},
    {"package.swift", BUILD},
    {"build.zig", BUILD},
    {"build.sc", BUILD},
    {"build.mill", BUILD},
    {"docker-compose*.y*ml", BUILD},
    {"compose*.y*ml", BUILD},
    {".pre-commit-config.y*ml", HOOKS},
    {".pre-commit-hooks.y*ml", HOOKS},
    {"lefthook.y*ml", HOOKS},
    {".lefthook.y*ml", HOOKS},
    {".overcommit.y*ml", HOOKS},
    {".lintstagedrc*", HOOKS},
    {".huskyrc*", HOOKS},
    {".gitlab-ci.y*ml", CI},
    {".travis.y*ml", CI},
    {".drone.y*ml", CI},
    {".cirrus.y*ml", CI},
    {".cirrus.star", CI},
    {".build.yml", CI},
    {".woodpecker.y*ml", CI},
    {"azure-pipelines*.y*ml", CI},
    {"bitbucket-pipelines.y*ml", CI},
    {"appveyor.y*ml", CI},
    {".appveyor.y*ml", CI},
    {"jenkinsfile", CI},
    {"jenkinsfile.*", CI},
    {"cloudbuild.y*ml", CI},
    {"buildspec.y*ml", CI},
    {"*.code-workspace", EDITOR},
    {".devcontainer.json", EDITOR},
    {".gitpod.y*ml", EDITOR},
    {".lazy.lua", EDITOR},
    {".vimrc", EDITOR},
    {".exrc", EDITOR},
    {".nvimrc", EDITOR},
    {".nvim.lua", EDITOR},
    {".lvimrc", EDITOR},
    {".dir-locals.el", EDITOR},
    {".dir-locals-2.el", EDITOR},
    {".emacs", EDITOR},
    {".mcp.json", AGENT},
    {"mcp.json", AGENT},
    {".cursorrules", AGENT},
    {".windsurfrules", AGENT},
    {"claude.md", AGENT},
    {"claude.local.md", AGENT},
    {"agents.md", AGENT},
    {"agents.override.md", AGENT},
    {"warp.md", AGENT},
    {".continuerc.json", AGENT},
    {".roomodes", AGENT},
    {"agent.md", AGENT},
    {"gemini.md", AGENT},
    {".aider*", AGENT},
    {"opencode.json*", AGENT},
    {"crush.json", AGENT},
    {".crush.json", AGENT},
    {"crush.md", AGENT},
    {"qwen.md", AGENT},
    {".goosehints", AGENT},
    {".rules", AGENT},
    {"*.sublime-project", EDITOR},
    {"*.config.js", TOOLS},
    {"*.config.[cm]js", TOOLS},
    {"*.config.ts", TOOLS},
    {"*.config.[cm]ts", TOOLS},
    {".eslintrc*", TOOLS},
    {".babelrc*", TOOLS},
    {".prettierrc*", TOOLS},
    {".pylintrc", TOOLS},
    {"pylintrc", TOOLS},
    {"*.pth", TOOLS},
    {".irbrc", TOOLS},
    {".pryrc", TOOLS},
    {".rprofile", TOOLS},
    {".renviron", TOOLS},
    {".rdata", TOOLS},
    {".iex.exs", TOOLS},
    {".formatter.exs", TOOLS},
    {".octaverc", TOOLS},
    {".proverc", TOOLS},
    {".valgrindrc", TOOLS},
    {".luacheckrc", TOOLS},
    {"vitest.workspace.*", TOOLS},
    {".ghci", TOOLS},
    {".ocamlinit", TOOLS},
    {".netrc", TOOLS},
    {".gdbinit", TOOLS},
    {".lldbinit", TOOLS},
    {".pythonrc", TOOLS},
    {"sitecustomize.py", TOOLS},
    {"usercustomize.py", TOOLS},
    {"conftest.py", TOOLS},
    {"pytest.ini", TOOLS},
    {".pytest.ini", TOOLS},
    {"mypy.ini", TOOLS},
    {".mypy.ini", TOOLS},
    {".flake8", TOOLS},
    {".coveragerc", TOOLS},
    {".pdbrc", TOOLS},
    {".rspec", TOOLS},
    {".rubocop.y*ml", TOOLS},
    {".mocharc*", TOOLS},
    {".postcssrc*", TOOLS},
    {".stylelintrc*", TOOLS},
    {"phpunit.xml*", TOOLS},
    {".psqlrc", TOOLS},
    {".curlrc", TOOLS},
    {".wgetrc", TOOLS},
    {".screenrc", TOOLS},
    {".tmux.conf", TOOLS},
    {".inputrc", TOOLS},
    {".bashrc", SHELL},
    {".bash_profile", SHELL},
    {".bash_login", SHELL},
    {".bash_logout", SHELL},
    {".bash_aliases", SHELL},
    {".profile", SHELL},
    {".zshrc", SHELL},
    {".zshenv", SHELL},
    {".zprofile", SHELL},
    {".zlogin", SHELL},
    {".zlogout", SHELL},
    {".kshrc", SHELL},
    {".cshrc", SHELL},
    {".tcshrc", SHELL},
    {".login", SHELL},
    {".xprofile", SHELL},
    {".xinitrc", SHELL},
    {"config.fish", SHELL},
};

#define PART_MAX 255

/* Characters that a file system may not see in a name: those that Unicode calls
 * Default_Ignorable_Code_Point, which HFS+, and ext4 and f2fs in a folder without case, leave out.
 */
static bool is_ignored(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0xad, 0xad},      {0x34f, 0x34f},   {0x61c, 0x61c},     {0x115f, 0x1160},
                  {0x17b4, 0x17b5},  {0x180b, 0x180f}, {0x200b, 0x200f},   {0x202a, 0x202e},
                  {0x2060, 0x206f},  {0x3164, 0x3164}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
                  {0xffa0, 0xffa0},  {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
                  {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* All the letters beyond ASCII that are nothing but letters of ASCII without their case. None of
 * them has fewer bytes than what it stands for. */
static const char *ascii_of(uint32_t code)
{
    static const struct {
        uint32_t code;
        const char *text;
    } letters[] = {{0xdf, "ss"},    {0x17f, "s"},   {0x1e9e, "ss"}, {0x212a, "k"},
                   {0xfb00, "ff"},  {0xfb01, "fi"}, {0xfb02, "fl"}, {0xfb03, "ffi"},
                   {0xfb04, "ffl"}, {0xfb05, "st"}, {0xfb06, "st"}};
    for (size_t i = 0; i < ARRAY_LEN(letters); i++)
        if (letters[i].code == code)
            return letters[i].text;
    return is_ignored(code) ? "" : NULL;
}

/* Bytes that are no UTF-8 stay as they are. */
static size_t fold_char(const char *at, size_t left, char *out)
{
    uint32_t code = 0;
    size_t len = utf8_decode(at, left, &code);
    const char *text = len > 1 ? ascii_of(code) : NULL;
    if (text)
        memcpy(out, text, strlen(text) + 1);
    else
        snprintf(out, 5, "%.*s", len ? (int)len : 1, at);
    return len ? len : 1;
}

/* As the most careless file system compares it: without case, without invisible characters, up to
 * the first colon (a stream of NTFS), without dots and blanks at its end. */
static void fold(const char *part, size_t len, char out[static PART_MAX + 1])
{
    size_t used = 0;
    for (size_t i = 0; i < len && part[i] != ':';) {
        char text[5];
        i += fold_char(part + i, len - i, text);
        for (const char *c = text; *c && used < PART_MAX; c++)
            out[used++] = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    }
    while (used > 1 && (out[used - 1] == '.' || out[used - 1] == ' '))
        used--;
    out[used] = '\0';
}

static const char *find(const struct rule *rules, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (fnmatch(rules[i].pattern, name, 0) == 0)
            return rules[i].why;
    return NULL;
}

const char *review_trust(const char *path)
{
    char name[PART_MAX + 1];
    const char *why = NULL;
    while (*path && !why) {
        size_t len = strcspn(path, "/");
        fold(path, len, name);
        why = find(folders, ARRAY_LEN(folders), name);
        if (!why && path[len] == '\0')
            why = find(files, ARRAY_LEN(files), name);
        path += len;
        path += strspn(path, "/");
    }
    return why;
}

/* What git looks for to tell a repository, and what it obeys in one. */
bool review_is_git_name(const char *part, size_t len, unsigned *ret_bit)
{
    static const char *const names[] = {
        "head",    "objects", "refs",        "commondir", "config",  "config.worktree",
        "hooks",   "info",    "packed-refs", "reftable",  "modules", "worktrees",
        "shallow", "index",   "gitdir",
    };
    char name[PART_MAX + 1];
    fold(part, len, name);
    for (unsigned i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0) {
            *ret_bit = 1u << i;
            return true;
        }
    return false;
}

/* By the words: folders above the link are none themselves. Behind a name they say nothing any
 * more, since that may be a link: "up/.." with up -> ".." is above where it seems to be. */
bool review_link_escapes(const char *path, const char *target)
{
    long depth = 0;
    bool named = false;
    for (const char *p = path; *p; p++)
        depth += *p == '/';
    if (target[0] == '/' || target[0] == '\0')
        return true;
    while (*target) {
        size_t len = strcspn(target, "/");
        if (len == 2 && target[0] == '.' && target[1] == '.') {
            if (named || --depth < 0)
                return true;
        } else if (!(len == 1 && target[0] == '.')) {
            named |= len > 0;
        }
        target += len;
        target += strspn(target, "/");
    }
    return false;
}
