/* A disk that becomes full at the n-th write below one folder: preloaded, it stands between a process and the C
   library. `disk_arm(folder, n, once)` counts from zero; `disk_calls()` is how many writes there have been. With
   `once`, only that write fails; otherwise it and all that follow. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long calls = 0, fail_at = -1;
static int only_once = 0;

void disk_arm(const char *path, long n, int once) {
    strncpy(folder, path, PATH_MAX - 1);
    __atomic_store_n(&calls, 0, __ATOMIC_SEQ_CST);
    fail_at = n;
    only_once = once;
}

long disk_calls(void) { return __atomic_load_n(&calls, __ATOMIC_SEQ_CST); }

/* Whether this write, to a path, fails. */
static int fails(const char *path) {
    if (!folder[0] || strncmp(path, folder, strlen(folder))) return 0;
    long number = __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    int now = fail_at >= 0 && (only_once ? number == fail_at : number >= fail_at);
    if (now) errno = ENOSPC;
    return now;
}

static int fails_fd(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(path);
}

#define REAL(type, name, ...) type (*real)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return fails_fd(fd) ? -1 : real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return fails_fd(fd) ? -1 : real(fd, parts, count);
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    return fails_fd(fd) ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return fails(to) ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return fails(path) ? -1 : real(path, mode);
}

static int opened(const char *name, const char *path, int flags, mode_t mode) {
    REAL(int, name, const char *, int, ...);
    return (flags & O_CREAT) && fails(path) ? -1 : real(path, flags, mode);
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = (flags & O_CREAT) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        return opened(#name, path, flags, mode); \
    }

OPEN(open)
OPEN(open64)
