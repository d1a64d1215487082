/* The recorder's own folder, and what it gives away: it reads what the front sends, so it has no
 * more rights than its folder and its socket.
 *
 * As root it becomes a uid of its own that nobody else on the machine has, the owner of the folder:
 * above the range of the sandboxes (docs/decisions/0005-pid-lease-uids.md), or whoever owns the
 * folder already. */
#include "audit/recorder_internal.h"
#include "audit/runs.h"
#include "base/cleanup.h"
#include "os/seal.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDER_UID 0x78000001u

/* Everything that may lie in it. */
static const char *const names[] = {
    STORE_FILE, STORE_FILE "-wal", STORE_FILE "-shm", STORE_LOCK, SIGN_KEY_FILE, SIGN_PUBLIC_FILE,
    "head",     RUNS_FILE,
};

/* A file that an earlier start by somebody else left; links and other things stay as they are, and
 * are refused when they are opened. */
static int give_file(int folder, const char *name, uid_t uid, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP ? 0 : err_sys(err, "open audit/%s", name);
    if (fstat(fd, &st) < 0)
        return err_sys(err, "look at audit/%s", name);
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid == uid)
        return 0;
    if (fchown(fd, uid, uid) < 0)
        return err_sys(err, "give audit/%s to the recorder", name);
    return 0;
}

static int give_folder(int folder, uid_t uid, struct err *err)
{
    if (fchown(folder, uid, uid) < 0)
        return err_sys(err, "give the audit folder to the recorder");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (give_file(folder, names[i], uid, err) < 0)
            return err_number(err);
    }
    return 0;
}

int recorder_folder(int state_dir, struct err *err)
{
    struct stat st;
    if (mkdirat(state_dir, STORE_FOLDER, 0700) < 0 && errno != EEXIST)
        return err_sys(err, "make the audit folder");
    cleanup_fd int fd =
        openat(state_dir, STORE_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, "open the audit folder");
    if (st.st_mode & 077) {
        err_set(err, ERR_REFUSED, "the audit folder is open to others (mode %04o)",
                (unsigned)(st.st_mode & 07777));
        return err_hint(err, "chmod 700, after a look at what they did there");
    }
    if (geteuid() != 0)
        return fd_steal(&fd);
    /* The folder's owner decides; a folder of root's gets the recorder's own uid. */
    uid_t uid = st.st_uid ? st.st_uid : RECORDER_UID;
    return give_folder(fd, uid, err) < 0 ? err_number(err) : fd_steal(&fd);
}

static const int allowed[] = {
    /* the loop */
    SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
    SYS_read,
    SYS_write,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_close,
    /* its folder: Landlock says which */
    SYS_openat,
    SYS_pread64,
    SYS_pwrite64,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_fsync,
    SYS_fdatasync,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_unlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_linkat,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fchmod,
    SYS_fchdir,
    SYS_getcwd,
    SYS_readlinkat,
#ifdef SYS_open
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_unlink,
    SYS_rename,
    SYS_readlink,
#endif
    SEAL_CALLS_LIFE,
    /* waiting, and who it is */
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_getuid,
    SYS_geteuid,
};

static const struct seal_choice choices[] = {
    {SYS_fcntl,
     1,
     UINT32_MAX,
     {F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_SETLK, F_SETLKW, F_GETLK, F_DUPFD_CLOEXEC},
     8},
    SEAL_CHOICES_NO_CODE,
};

int recorder_seal(int folder, bool *ret_landlock, struct err *err)
{
    static const char who[] = "the recorder";
    struct stat st;
    if (fstat(folder, &st) < 0)
        return err_sys(err, "look at the audit folder");
    if (seal_identity(st.st_uid, st.st_gid, who, err) < 0)
        return err_number(err);
    int paths = seal_paths(folder,
                           LL_READ_FILE | LL_WRITE_FILE | LL_READ_DIR | LL_REMOVE_FILE |
                               LL_MAKE_REG | LL_TRUNCATE,
                           who, err);
    if (paths < 0 || seal_calls(SEAL_LISTS(allowed, choices), who, err) < 0)
        return err_number(err);
    *ret_landlock = paths > 0;
    return 0;
}
