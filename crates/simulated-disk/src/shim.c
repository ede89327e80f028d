/*
 * Records what a process does to the files below one folder, and injects faults there.
 *
 * disk.rs preloads this library into a child process (LD_PRELOAD). Every call that changes bytes,
 * names or durability below DISK_ROOT appends one entry to DISK_LOG, which log.rs reads. The lock
 * of the log is held during the real call, so the entries of all threads and processes are in the
 * order of their effects. A write to the file DISK_ACKS, through any descriptor and so also by a
 * redirected standard output, is logged as an acknowledgement in the same order.
 *
 * Syncs are recorded but not executed: the power is never really cut, and the log alone decides
 * what was durable. SQLite's "-shm" files have no durable state and are not recorded. The shim
 * does not track descriptors but looks up their paths in /proc, so dup, fork and exec just work.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* log.rs knows these numbers. */
enum op {
    OP_CREATE = 1,
    OP_MAKE_FOLDER = 2,
    OP_LINK = 3,
    OP_RENAME = 4,
    OP_UNLINK = 5,
    OP_WRITE = 6,
    OP_RESIZE = 7,
    OP_SYNC = 8,
    OP_SYNC_FAILED = 9,
    OP_ACK = 10,
    OP_UNMODELLED = 11,
};

/* An entry of the log is this header, then the path, the other path and the data. */
struct header {
    uint64_t op, inode, offset, path_length, other_length, data_length;
};

/* The number in the file of faults for a sync that takes this long, and then succeeds. */
enum { SLOW = 9999, SLOW_SECONDS = 2 };

static const char *root, *log_path, *acks_path, *faults_path, *fault_counts_path;

__attribute__((constructor)) static void read_environment(void) {
    log_path = getenv("DISK_LOG");
    acks_path = getenv("DISK_ACKS");
    faults_path = getenv("DISK_FAULTS");
    fault_counts_path = getenv("DISK_FAULT_COUNTS");
    if (log_path && acks_path && faults_path && fault_counts_path) root = getenv("DISK_ROOT");
}

static void fail(const char *what) {
    perror(what);
    abort();
}

static int real_open(const char *path, int flags, mode_t mode) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

/* Opens the log again for each entry, so that every thread has its own lock, even after a fork. */
static int lock_log(void) {
    int log = real_open(log_path, O_WRONLY | O_APPEND, 0);
    if (log < 0) fail("disk shim: opening the log");
    while (flock(log, LOCK_EX) != 0)
        if (errno != EINTR) fail("disk shim: locking the log");
    return log;
}

static void unlock_log(int log) {
    int saved_errno = errno;
    /* A child that was just forked shares the lock; closing alone would not release it. */
    flock(log, LOCK_UN);
    close(log);
    errno = saved_errno;
}

static void append(int log, const void *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = syscall(SYS_write, log, bytes, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) fail("disk shim: writing the log");
        bytes = (const char *)bytes + written;
        length -= (size_t)written;
    }
}

static void record(int log, enum op op, uint64_t inode, uint64_t offset, const char *path,
                   const char *other, const struct iovec *data, size_t data_length) {
    int saved_errno = errno;
    struct header header = {op, inode, offset, strlen(path), strlen(other), data_length};
    append(log, &header, sizeof header);
    append(log, path, header.path_length);
    append(log, other, header.other_length);
    for (; data_length > 0; data++) {
        size_t part = data->iov_len < data_length ? data->iov_len : data_length;
        append(log, data->iov_base, part);
        data_length -= part;
    }
    errno = saved_errno;
}

/* The path relative to the root ("." for the root itself), or NULL if it is outside. */
static const char *below_root(const char *path) {
    size_t length = root ? strlen(root) : 0;
    if (length == 0 || strncmp(path, root, length) != 0) return NULL;
    if (path[length] == '\0') return ".";
    return path[length] == '/' ? path + length + 1 : NULL;
}

static int is_shared_memory(const char *path) {
    size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, "-shm") == 0;
}

/* The absolute path of a descriptor, or an empty string if it has none. */
static const char *path_of_descriptor(int fd, char path[PATH_MAX]) {
    int saved_errno = errno;
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = '\0';
    char *deleted = length > 10 ? path + length - 10 : NULL;
    if (deleted && strcmp(deleted, " (deleted)") == 0) *deleted = '\0';
    errno = saved_errno;
    return path;
}

/* The path of a descriptor relative to the root, or NULL if it is not recorded. */
static const char *relative_path(int fd, char full[PATH_MAX]) {
    return root ? below_root(path_of_descriptor(fd, full)) : NULL;
}

/* The absolute path of a name that may not exist: the path of its folder and the last component. */
static const char *path_of_name(int folder, const char *name, char path[PATH_MAX]) {
    int saved_errno = errno;
    char parent[PATH_MAX];
    path[0] = '\0';
    size_t length = name && root ? strlen(name) : 0;
    while (length > 1 && name[length - 1] == '/') length--;
    if (length == 0 || length >= PATH_MAX) return path;
    size_t start = length;
    while (start > 0 && name[start - 1] != '/') start--;
    memcpy(parent, name, start);
    strcpy(parent + start, start == 0 ? "." : "");
    int fd = (int)syscall(SYS_openat, folder, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        path_of_descriptor(fd, path);
        close(fd);
        size_t used = strlen(path);
        if (used + 1 + (length - start) < PATH_MAX)
            sprintf(path + used, "/%.*s", (int)(length - start), name + start);
    }
    errno = saved_errno;
    return path;
}

static struct stat status_of(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) fail("disk shim: fstat");
    return status;
}

/*
 * The injected fault for an operation of this kind ('w' write, 's' sync, 'n' name) on one or two
 * paths, either of which may be NULL: -1 for no fault, 0 for a partial success (a short write, or
 * a sync that does nothing), otherwise the errno to fail with. The caller holds the lock of the
 * log, which also guards the counts. A line of the file has: kinds, errno, the first operation
 * affected, the number of operations affected, glob.
 */
static int fault(char kind, const char *path, const char *other) {
    char text[2048];
    uint64_t counts[16] = {0};
    int hit = -1, saved_errno = errno;
    int fd = real_open(faults_path, O_RDONLY, 0);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    errno = saved_errno;
    if (length <= 0) return -1;
    text[length] = '\0';
    int counts_fd = real_open(fault_counts_path, O_RDWR | O_CREAT, 0600);
    if (counts_fd < 0 || pread(counts_fd, counts, sizeof counts, 0) < 0)
        fail("disk shim: reading the fault counts");
    char *rest = text;
    for (size_t i = 0; i < 16; i++) {
        char *line = strsep(&rest, "\n"), kinds[8], glob[256];
        unsigned long long first, times;
        int error;
        if (!line) break;
        if (sscanf(line, "%7s %d %llu %llu %255s", kinds, &error, &first, &times, glob) != 5) break;
        int matches = (path && fnmatch(glob, path, 0) == 0) ||
                      (other && fnmatch(glob, other, 0) == 0);
        if (!matches || !strchr(kinds, kind)) continue;
        counts[i]++;
        if (hit < 0 && counts[i] >= first && counts[i] - first < times) hit = error;
    }
    if (syscall(SYS_pwrite64, counts_fd, counts, sizeof counts, 0L) != sizeof counts)
        fail("disk shim: writing the fault counts");
    close(counts_fd);
    errno = saved_errno;
    return hit;
}

/* Whether an operation must fail; if so, sets errno. */
static int must_fail(char kind, const char *path, const char *other) {
    int error = fault(kind, path, other);
    if (error > 0) errno = error;
    return error > 0;
}

static ssize_t real_write(int fd, const struct iovec *data, int parts, off_t at) {
    return at < 0 ? syscall(SYS_writev, fd, data, parts)
                  : syscall(SYS_pwritev, fd, data, parts, at, 0L);
}

/* A write at the offset `at`, or at the position of the descriptor if `at` is negative. */
static ssize_t write_at(int fd, const struct iovec *data, int parts, off_t at) {
    char full[PATH_MAX];
    const char *path = relative_path(fd, full);
    int is_ack = root && strcmp(full, acks_path) == 0;
    if (!path && !is_ack) return real_write(fd, data, parts, at);

    int log = lock_log();
    int error = is_ack ? -1 : fault('w', path, NULL);
    ssize_t written = -1;
    if (error > 0) {
        errno = error;
    } else {
        struct iovec half = {parts > 0 ? data->iov_base : NULL,
                             parts > 0 ? (data->iov_len + 1) / 2 : 0};
        if (error == 0) {
            data = &half;
            parts = 1;
        }
        off_t offset = at;
        if (fcntl(fd, F_GETFL) & O_APPEND)
            offset = status_of(fd).st_size;
        else if (at < 0)
            offset = lseek(fd, 0, SEEK_CUR);
        written = real_write(fd, data, parts, at);
        if (written > 0 && is_ack)
            record(log, OP_ACK, 0, 0, "", "", data, (size_t)written);
        else if (written > 0 && !is_shared_memory(path))
            record(log, OP_WRITE, status_of(fd).st_ino, (uint64_t)offset, path, "", data,
                   (size_t)written);
    }
    unlock_log(log);
    return written;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    struct iovec data = {(void *)bytes, length};
    return write_at(fd, &data, 1, -1);
}

ssize_t writev(int fd, const struct iovec *data, int parts) {
    return write_at(fd, data, parts, -1);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    struct iovec data = {(void *)bytes, length};
    if (at < 0) return errno = EINVAL, -1;
    return write_at(fd, &data, 1, at);
}
ssize_t pwrite64(int, const void *, size_t, off64_t) __attribute__((alias("pwrite")));

ssize_t pwritev(int fd, const struct iovec *data, int parts, off_t at) {
    if (at < 0) return errno = EINVAL, -1;
    return write_at(fd, data, parts, at);
}
ssize_t pwritev64(int, const struct iovec *, int, off64_t) __attribute__((alias("pwritev")));

/* Rust's std::fs::copy and io::copy try these calls first. If they fail, Rust reads and writes. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t length,
                        unsigned flags) {
    char full[PATH_MAX];
    if (relative_path(to, full)) return errno = ENOSYS, -1;
    return syscall(SYS_copy_file_range, from, from_at, to, to_at, length, flags);
}

ssize_t sendfile(int to, int from, off_t *at, size_t length) {
    char full[PATH_MAX];
    if (relative_path(to, full)) return errno = EINVAL, -1;
    return syscall(SYS_sendfile, to, from, at, length);
}
ssize_t sendfile64(int, int, off64_t *, size_t) __attribute__((alias("sendfile")));

ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags) {
    char full[PATH_MAX];
    if (relative_path(to, full)) return errno = EINVAL, -1;
    return syscall(SYS_splice, from, from_at, to, to_at, length, flags);
}

int ftruncate(int fd, off_t length) {
    char full[PATH_MAX];
    const char *path = relative_path(fd, full);
    if (!path) return (int)syscall(SYS_ftruncate, fd, length);
    int log = lock_log(), result = -1;
    if (!must_fail('w', path, NULL)) result = (int)syscall(SYS_ftruncate, fd, length);
    if (result == 0 && !is_shared_memory(path))
        record(log, OP_RESIZE, status_of(fd).st_ino, (uint64_t)length, path, "", NULL, 0);
    unlock_log(log);
    return result;
}
int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));

int fallocate(int fd, int mode, off_t offset, off_t length) {
    char full[PATH_MAX];
    const char *path = relative_path(fd, full);
    if (!path) return (int)syscall(SYS_fallocate, fd, mode, offset, length);
    int log = lock_log(), result = -1;
    off_t before = status_of(fd).st_size;
    if (!must_fail('w', path, NULL))
        result = (int)syscall(SYS_fallocate, fd, mode, offset, length);
    struct stat after = status_of(fd);
    if (result == 0 && (mode & ~FALLOC_FL_KEEP_SIZE))
        record(log, OP_UNMODELLED, 0, 0, path, "fallocate", NULL, 0);
    else if (result == 0 && after.st_size != before && !is_shared_memory(path))
        record(log, OP_RESIZE, after.st_ino, (uint64_t)after.st_size, path, "", NULL, 0);
    unlock_log(log);
    return result;
}
int fallocate64(int, int, off64_t, off64_t) __attribute__((alias("fallocate")));

int posix_fallocate(int fd, off_t offset, off_t length) {
    int saved_errno = errno, error = fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
    errno = saved_errno;
    return error;
}
int posix_fallocate64(int, off64_t, off64_t) __attribute__((alias("posix_fallocate")));

/* In the globs of faults the path of a folder ends in a slash. */
static int sync_descriptor(int fd, long call) {
    char full[PATH_MAX], name[PATH_MAX + 1];
    const char *path = relative_path(fd, full);
    if (!path) return (int)syscall(call, fd);
    if (is_shared_memory(path)) return 0;
    struct stat status = status_of(fd);
    snprintf(name, sizeof name, S_ISDIR(status.st_mode) ? "%s/" : "%s", path);
    int log = lock_log(), error = fault('s', name, NULL);
    if (error == SLOW) {
        /* Other threads and processes go on meanwhile. */
        unlock_log(log);
        struct timespec delay = {SLOW_SECONDS, 0};
        nanosleep(&delay, NULL);
        log = lock_log();
        error = -1;
    }
    if (error != 0)
        record(log, error > 0 ? OP_SYNC_FAILED : OP_SYNC, status.st_ino, 0, path, "", NULL, 0);
    if (error > 0) errno = error;
    unlock_log(log);
    return error > 0 ? -1 : 0;
}

int fsync(int fd) { return sync_descriptor(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_descriptor(fd, SYS_fdatasync); }

static int open_at(int folder, const char *name, int flags, mode_t mode) {
    char full[PATH_MAX];
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    const char *path = writes ? below_root(path_of_name(folder, name, full)) : NULL;
    if (!path) return (int)syscall(SYS_openat, folder, name, flags, mode);
    struct stat status;
    int log = lock_log(), fd = -1, existed = fstatat(AT_FDCWD, full, &status, 0) == 0;
    if (!must_fail('n', path, NULL))
        fd = (int)syscall(SYS_openat, folder, name, flags, mode);
    if (fd >= 0 && !is_shared_memory(path)) {
        status = status_of(fd);
        if ((flags & O_TMPFILE) == O_TMPFILE)
            record(log, OP_UNMODELLED, 0, 0, path, "O_TMPFILE", NULL, 0);
        else if (!existed)
            record(log, OP_CREATE, status.st_ino, 0, path, "", NULL, 0);
        else if ((flags & O_TRUNC) && S_ISREG(status.st_mode))
            record(log, OP_RESIZE, status.st_ino, 0, path, "", NULL, 0);
    }
    unlock_log(log);
    return fd;
}

static mode_t mode_argument(int flags, va_list arguments) {
    int creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    return creates ? (mode_t)va_arg(arguments, int) : 0;
}

int openat(int folder, const char *name, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_at(folder, name, flags, mode);
}
int openat64(int, const char *, int, ...) __attribute__((alias("openat")));

int open(const char *name, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_at(AT_FDCWD, name, flags, mode);
}
int open64(const char *, int, ...) __attribute__((alias("open")));

/* _FORTIFY_SOURCE replaces an open() with two arguments by these. */
int __open_2(const char *name, int flags) { return open_at(AT_FDCWD, name, flags, 0); }
int __open64_2(const char *, int) __attribute__((alias("__open_2")));

int creat(const char *name, mode_t mode) {
    return open_at(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char *, mode_t) __attribute__((alias("creat")));

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char from_full[PATH_MAX], to_full[PATH_MAX];
    const char *from_path = below_root(path_of_name(from_folder, from, from_full));
    const char *to_path = below_root(path_of_name(to_folder, to, to_full));
    if (!from_path && !to_path)
        return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    int log = lock_log(), result = -1;
    if (!must_fail('n', from_path, to_path))
        result = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    if (result == 0 && from_path && to_path && !(flags & ~RENAME_NOREPLACE))
        record(log, OP_RENAME, 0, 0, from_path, to_path, NULL, 0);
    else if (result == 0)
        record(log, OP_UNMODELLED, 0, 0, from_path ? from_path : to_path,
               "a rename that exchanges two names or crosses the root", NULL, 0);
    unlock_log(log);
    return result;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return renameat2(from_folder, from, to_folder, to, 0);
}

int rename(const char *from, const char *to) {
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char full[PATH_MAX];
    const char *path = below_root(path_of_name(to_folder, to, full));
    if (!path) return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
    struct stat status;
    int log = lock_log(), result = -1;
    if (!must_fail('n', path, NULL))
        result = (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
    if (result == 0 && fstatat(AT_FDCWD, full, &status, AT_SYMLINK_NOFOLLOW) == 0)
        record(log, OP_LINK, status.st_ino, 0, path, "", NULL, 0);
    unlock_log(log);
    return result;
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int symlinkat(const char *target, int folder, const char *name) {
    char full[PATH_MAX];
    const char *path = below_root(path_of_name(folder, name, full));
    int result = (int)syscall(SYS_symlinkat, target, folder, name);
    if (path && result == 0) {
        int log = lock_log();
        record(log, OP_UNMODELLED, 0, 0, path, "symlink", NULL, 0);
        unlock_log(log);
    }
    return result;
}

int symlink(const char *target, const char *name) { return symlinkat(target, AT_FDCWD, name); }

int unlinkat(int folder, const char *name, int flags) {
    char full[PATH_MAX];
    const char *path = below_root(path_of_name(folder, name, full));
    if (!path) return (int)syscall(SYS_unlinkat, folder, name, flags);
    int log = lock_log(), result = -1;
    if (!must_fail('n', path, NULL)) result = (int)syscall(SYS_unlinkat, folder, name, flags);
    if (result == 0 && !is_shared_memory(path))
        record(log, OP_UNLINK, 0, 0, path, "", NULL, 0);
    unlock_log(log);
    return result;
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int folder, const char *name, mode_t mode) {
    char full[PATH_MAX];
    const char *path = below_root(path_of_name(folder, name, full));
    if (!path) return (int)syscall(SYS_mkdirat, folder, name, mode);
    struct stat status;
    int log = lock_log(), result = -1;
    if (!must_fail('n', path, NULL))
        result = (int)syscall(SYS_mkdirat, folder, name, mode);
    if (result == 0 && fstatat(AT_FDCWD, full, &status, 0) == 0)
        record(log, OP_MAKE_FOLDER, status.st_ino, 0, path, "", NULL, 0);
    unlock_log(log);
    return result;
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
