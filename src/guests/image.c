/* Images of kernels, as distributions pack them. */
#include "guests/internal.h"

#include "base/cleanup.h"
#include "guests/bzimage.h"
#include "os/fd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASHES     "hashes" /* in the state folder: one line for each file */
#define HASHES_MAX 16384

int kernel_image_read(const char *path, struct buf *ret, struct err *err)
{
    return file_whole(AT_FDCWD, path, IMAGE_MAX, ret, err);
}

#if defined(__aarch64__)
bool kernel_image_usable(const void *data, size_t len, char why_not[static 128])
{
    const unsigned char *bytes = data;
    if (len >= 64 && memcmp(bytes + 56, "ARM\x64", 4) == 0)
        return true;
    if (len >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
        snprintf(why_not, 128, "it is compressed; unpack it with gunzip and add the result");
    else
        snprintf(why_not, 128, "it is no arm64 Image");
    return false;
}
#else
bool kernel_image_usable(const void *data, size_t len, char why_not[static 128])
{
    struct bzimage image;
    return bzimage_parse(data, len, &image, why_not);
}
#endif

static void identify(const struct stat *sb, char out[static 160])
{
    snprintf(out, 160, "%ju %ju %jd %jd.%09ld %jd.%09ld ", (uintmax_t)sb->st_dev,
             (uintmax_t)sb->st_ino, (intmax_t)sb->st_size, (intmax_t)sb->st_mtim.tv_sec,
             sb->st_mtim.tv_nsec, (intmax_t)sb->st_ctim.tv_sec, sb->st_ctim.tv_nsec);
}

static bool look_up(int folder, const char *identity, char hash[static SHA256_HEX_SIZE])
{
    static char text[HASHES_MAX];
    if (folder < 0 || file_read(folder, HASHES, text, sizeof text) <= 0)
        return false;
    const char *line = strstr(text, identity);
    if (!line || (line != text && line[-1] != '\n') ||
        strspn(line + strlen(identity), "0123456789abcdef") != SHA256_HEX_SIZE - 1)
        return false;
    snprintf(hash, SHA256_HEX_SIZE, "%s", line + strlen(identity));
    return true;
}

/* Best effort: without it the next start hashes again. */
static void note(int folder, const char *identity, const char *hash)
{
    char line[256];
    struct stat sb;
    cleanup_fd int fd =
        folder < 0
            ? -1
            : openat(folder, HASHES, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return;
    if (sb.st_size > HASHES_MAX - 512 && ftruncate(fd, 0) < 0)
        return;
    int len = snprintf(line, sizeof line, "%s%s\n", identity, hash);
    if (write(fd, line, (size_t)len) < 0)
        return;
}

int kernel_image_open(const char *path, char hash[static SHA256_HEX_SIZE], struct err *err)
{
    struct err none = ERR_INIT;
    struct stat sb;
    char identity[160];
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return err_sys(err, "open %s", path);
    if (!S_ISREG(sb.st_mode) || sb.st_size <= 0 || sb.st_size > IMAGE_MAX)
        return err_set(err, ERR_UNSUPPORTED, "%s is no kernel", path);
    cleanup_fd int folder = kept_folder(true, &none);
    identify(&sb, identity);
    if (look_up(folder, identity, hash))
        return fd_steal(&fd);
    void *data = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return err_sys(err, "read %s", path);
    sha256_hex(data, (size_t)sb.st_size, hash);
    munmap(data, (size_t)sb.st_size);
    note(folder, identity, hash);
    return fd_steal(&fd);
}
