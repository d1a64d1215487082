/* RV-6: files that the host executes, obeys or trusts without being asked again. By name, whether
 * they exist yet or not, and in any spelling that some file system takes for the same name. */
#include "base/cleanup.h"
#include "review/review.h"

#include <fnmatch.h>
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

/* Characters that HFS+ does not see in a name: U+200C to U+200F, U+202A to U+202E, U+206A to
 * U+206F, U+FEFF. */
static size_t ignored(const char *at, size_t left)
{
    const unsigned char *p = (const unsigned char *)at;
    if (left < 3)
        return 0;
    if (p[0] == 0xe2 && p[1] == 0x80 &&
        ((p[2] >= 0x8c && p[2] <= 0x8f) || (p[2] >= 0xaa && p[2] <= 0xae)))
        return 3;
    if (p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xaa && p[2] <= 0xaf)
        return 3;
    return p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf ? 3 : 0;
}

/* As the most careless file system compares it: without case, without invisible characters, up to
 * the first colon (a stream of NTFS), without dots and blanks at its end. */
static void fold(const char *part, size_t len, char out[static PART_MAX + 1])
{
    size_t used = 0;
    for (size_t i = 0; i < len && used < PART_MAX;) {
        size_t skip = ignored(part + i, len - i);
        if (skip) {
            i += skip;
            continue;
        }
        char c = part[i++];
        if (c == ':')
            break;
        out[used++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
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
