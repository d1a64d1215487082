/* What of the host can become part of the view. Names are a fixed list: a new file in the host's
 * /etc does not appear inside because it happens to be there. */
#include "filesystem/filesystem.h"
#include "os/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Programs and what they need to start. Nothing that holds secrets on any distribution we know: no
 * shadow, no ssh, no ssl/private, no profile, environment, gitconfig or npmrc, where people keep
 * tokens. */
static const char *const candidates[] = {
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/R/Makeconf",
    "/etc/R/Renviron",
    "/etc/R/ldpaths",
    "/etc/R/repositories",
    "/etc/alternatives",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/matplotlibrc",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
};

void view_probe(struct filesystem_host *host, const char *path)
{
    struct stat sb;
    if (host->view_count == VIEW_MAX || lstat(path, &sb) < 0)
        return;
    struct view_entry *e = &host->view[host->view_count];
    *e = (struct view_entry){.is_dir = S_ISDIR(sb.st_mode), .foreign = true};
    memcpy(e->path, path, strlen(path) + 1);
    if (S_ISLNK(sb.st_mode)) {
        ssize_t n = readlink(path, e->target, sizeof e->target - 1);
        if (n <= 0 || (size_t)n >= sizeof e->target - 1)
            return;
        e->target[n] = '\0';
    } else if (!S_ISDIR(sb.st_mode) && !S_ISREG(sb.st_mode)) {
        return;
    }
    host->view_count++;
}

void filesystem_probe(struct filesystem_host *ret)
{
    ret->view_count = 0;
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        view_probe(ret, candidates[i]);
    ret->landlock_abi = landlock_abi();
}
