/* An image of what the host has installed: the files of some packages become a layer of a layout in
 * tmp, which is loaded like any other.
 *
 * IM-12  Into it goes what packages brought and everybody may read; of /etc only what programs need
 *        to start. No user, key, host name or machine id of the host's does. */
#include "base/cleanup.h"
#include "base/sha256.h"
#include "base/text.h"
#include "images/load/host.h"
#include "images/load/load.h"
#include "os/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALTERNATIVES "/var/lib/dpkg/alternatives"

static bool is_wanted(const char *path)
{
    static const char *const skipped[] = {"/usr/share/doc",    "/usr/share/man",
                                          "/usr/share/info",   "/usr/share/lintian",
                                          "/usr/share/locale", "/usr/share/bug"};
    static const char *const roots[] = {"/usr", "/bin", "/sbin", "/lib"};
    static const char *const etc[] = {
        "/etc/alternatives/", "/etc/debian_version",  "/etc/os-release", "/etc/ld.so.conf",
        "/etc/mime.types",    "/etc/perl/",           "/etc/protocols",  "/etc/python3",
        "/etc/services",      "/etc/ssl/openssl.cnf", "/etc/terminfo/",  "/etc/java-"};
    for (size_t i = 0; i < ARRAY_LEN(skipped); i++)
        if (path_within(path, skipped[i]))
            return false;
    for (size_t i = 0; i < ARRAY_LEN(etc); i++)
        if (text_begins(path, etc[i]))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(roots); i++)
        if (text_begins(path, roots[i]))
            return true;
    return false;
}

/* /bin, /sbin and /lib are links to folders of /usr on most hosts: the file is where they lead. */
static int add_real(struct host_list *files, const char *path, struct err *err)
{
    char top[64], target[64], real[PATH_MAX];
    size_t len = strcspn(path + 1, "/") + 1;
    if (len >= sizeof top)
        return 0;
    memcpy(top, path, len);
    top[len] = '\0';
    ssize_t n = readlink(top, target, sizeof target - 1);
    if (n <= 0)
        return host_list_add(files, path, err);
    target[n] = '\0';
    if (host_list_add(files, top, err) < 0)
        return err_number(err);
    if (!path[len])
        return 0;
    snprintf(real, sizeof real, "%s%s%s", target[0] == '/' ? "" : "/", target, path + len);
    return host_list_add(files, real, err);
}

/* `awk` is a link to /etc/alternatives/awk, which no package lists. */
static int add_alternative(struct host_list *more, const struct host_list *files, const char *name,
                           struct err *err)
{
    char path[PATH_MAX], link[PATH_MAX], target[PATH_MAX], master[PATH_MAX] = "";
    snprintf(path, sizeof path, ALTERNATIVES "/%s", name);
    snprintf(link, sizeof link, "/etc/alternatives/%s", name);
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n <= 0)
        return 0;
    target[n] = '\0';
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    bool read = fgets(master, sizeof master, file) && fgets(master, sizeof master, file);
    fclose(file);
    master[strcspn(master, "\n")] = '\0';
    if (!read || !host_list_has(files, target) || !is_wanted(master))
        return 0;
    return host_list_add(more, link, err) < 0 ? err_number(err) : add_real(more, master, err);
}

static int add_alternatives(struct host_list *files, struct err *err)
{
    struct host_list more = {.count = 0};
    DIR *list = opendir(ALTERNATIVES);
    struct dirent *e;
    int r = 0, next = 0;
    if (!list)
        return 0;
    while (r >= 0 && (next = folder_next(list, &e)) > 0)
        if (e->d_name[0] != '.')
            r = add_alternative(&more, files, e->d_name, err);
    if (r >= 0 && next < 0)
        r = err_sys(err, "list " ALTERNATIVES);
    closedir(list);
    for (size_t i = 0; r >= 0 && i < more.count; i++)
        r = host_list_add(files, more.items[i], err);
    host_list_done(&more);
    host_list_settle(files);
    return r;
}

static int choose_files(const char *packages, struct host_list *ret, struct err *err)
{
    struct host_list all = {.count = 0};
    int r = host_packages_files(packages, &all, err);
    for (size_t i = 0; r >= 0 && i < all.count; i++)
        if (is_wanted(all.items[i]))
            r = add_real(ret, all.items[i], err);
    host_list_done(&all);
    host_list_settle(ret);
    return r < 0 ? r : add_alternatives(ret, err);
}

/* ---- the layout ---- */

static int write_text(int dir, const char *name, const struct buf *text, struct err *err)
{
    cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || text->failed || write(fd, buf_text(text), text->len) != (ssize_t)text->len)
        return err_sys(err, "write %s", name);
    return 0;
}

static int write_layer(int dir, const struct host_list *files, char digest[static DIGEST_SIZE],
                       struct err *err)
{
    cleanup_fd int fd = openat(dir, "layer", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, "make the layer");
    return host_tar_write(fd, files, digest, err);
}

static void write_config(struct buf *out, const char *diff_id)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "architecture", image_architecture());
    jw_kv_string(&w, "os", "linux");
    jw_kv_object(&w, "config");
    jw_kv_string(&w, "User", "1000");
    jw_kv_array(&w, "Cmd");
    jw_string(&w, "/bin/sh");
    jw_array_end(&w);
    jw_object_end(&w);
    jw_kv_object(&w, "rootfs");
    jw_kv_string(&w, "type", "layers");
    jw_kv_array(&w, "diff_ids");
    jw_string(&w, diff_id);
    jw_array_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
}

/* In docker's form, which needs the fewest documents. */
static int write_archive(int dir, const char *packages, struct err *err)
{
    char digest[DIGEST_SIZE];
    struct host_list files = {.count = 0};
    cleanup_buf struct buf config, list;
    buf_init(&config, 1u << 16);
    buf_init(&list, 1u << 16);
    int r = choose_files(packages, &files, err);
    if (r >= 0)
        r = write_layer(dir, &files, digest, err);
    host_list_done(&files);
    if (r < 0)
        return r;
    write_config(&config, digest);
    buf_str(&list, "[{\"Config\":\"config.json\",\"Layers\":[\"layer\"]}]");
    if (write_text(dir, "config.json", &config, err) < 0)
        return err_number(err);
    return write_text(dir, "manifest.json", &list, err);
}

int host_image(const char *packages, struct load_request *load, struct err *err)
{
    cleanup_store struct store store = STORE_INIT;
    struct scratch scratch = SCRATCH_INIT;
    struct reference ref;
    if (reference_parse(load->name, &ref, err) < 0 || store_open(&store, true, err) < 0)
        return err_number(err);
    int r = scratch_make(&store, &scratch, err);
    if (r >= 0 && load->step)
        load->step(load->ctx, "collect", 0, 0);
    if (r >= 0)
        r = write_archive(scratch.fd, packages, err);
    if (r >= 0) {
        load->source = scratch.fd;
        r = load_image(load, err);
    }
    scratch_done(&store, &scratch);
    return r;
}
