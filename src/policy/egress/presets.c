/* The table of presets. Only what the tool itself asks by default: a mirror, or a host that stores
 * anything for anybody, is a rule that somebody should write on purpose. */
#include "policy/egress/presets.h"

#include "base/cleanup.h"
#include "policy/egress/internal.h"

#include <string.h>

static const struct preset presets[] = {
    {"@pypi", "pip, uv, poetry", {"https://pypi.org", "https://files.pythonhosted.org"}},
    {"@conda", "conda, mamba", {"https://conda.anaconda.org", "https://repo.anaconda.com"}},
    {"@npm", "npm, pnpm, bun", {"https://registry.npmjs.org"}},
    {"@yarn",
     "yarn",
     {"https://registry.yarnpkg.com", "https://repo.yarnpkg.com", "https://registry.npmjs.org"}},
    {"@nodejs", "Node.js itself, headers for node-gyp", {"https://nodejs.org"}},
    {"@debian",
     "apt on Debian, signed packages over http too",
     {"deb.debian.org", "security.debian.org"}},
    {"@ubuntu",
     "apt on Ubuntu, signed packages over http too",
     {"archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com"}},
    {"@alpine", "apk, signed packages over http too", {"dl-cdn.alpinelinux.org"}},
    {"@crates",
     "cargo",
     {"https://index.crates.io", "https://static.crates.io", "https://crates.io"}},
    {"@rust", "rustup", {"https://static.rust-lang.org"}},
    {"@go", "go: modules and toolchains", {"https://proxy.golang.org", "https://sum.golang.org"}},
    {"@maven", "Maven, Gradle", {"https://repo.maven.apache.org", "https://repo1.maven.org"}},
    {"@gradle",
     "Gradle itself and its plugins",
     {"https://services.gradle.org", "https://downloads.gradle.org", "https://plugins.gradle.org"}},
    {"@rubygems", "gem, bundler", {"https://rubygems.org", "https://index.rubygems.org"}},
    {"@packagist",
     "composer; the packages themselves come from @github",
     {"https://repo.packagist.org", "https://packagist.org"}},
    {"@nuget", "dotnet", {"https://api.nuget.org"}},
    {"@hex", "mix", {"https://hex.pm", "https://repo.hex.pm"}},
    {"@cran", "R", {"https://cran.r-project.org", "https://cloud.r-project.org"}},
    {"@github",
     "git over https, the API, archives, releases",
     {"https://github.com", "https://api.github.com", "https://codeload.github.com",
      "https://raw.githubusercontent.com", "https://objects.githubusercontent.com",
      "https://release-assets.githubusercontent.com"}},
    {"@gitlab", "git over https, the API", {"https://gitlab.com"}},
    {"@docker",
     "images of Docker Hub",
     {"https://registry-1.docker.io", "https://auth.docker.io",
      "https://production.cloudflare.docker.com"}},
    {"@huggingface", "models and datasets", {"https://huggingface.co", "https://**.hf.co"}},
};

const struct preset *preset_at(size_t i)
{
    return i < ARRAY_LEN(presets) ? &presets[i] : NULL;
}

const struct preset *preset_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(presets); i++) {
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    }
    return NULL;
}

const struct preset *preset_of(const struct host *host)
{
    for (size_t i = 0; host->kind == HOST_NAME && i < ARRAY_LEN(presets); i++) {
        const char *const *rules = presets[i].rules;
        for (size_t k = 0; k < PRESET_HOSTS_MAX && rules[k]; k++) {
            struct place_spec place;
            struct err ignored = ERR_INIT;
            if (place_parse(rules[k], true, false, &place, &ignored) == 0 &&
                host_pattern_match(&place.host, host))
                return &presets[i];
        }
    }
    return NULL;
}
