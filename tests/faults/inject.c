/* Makes calls that write to the file system fail: a library for LD_PRELOAD.
 *
 * Counts the calls of a process below the folder FAULT_DIR that create, write, sync, cut, rename or make something.
 * Call number FAULT_AT (from 1) fails, with FAULT_MODE:
 *   once   that call alone, as one I/O error;
 *   on     that call and all later ones, as a disk that is full;
 *   short  a write takes half of its bytes, and the next one fails: a file that is cut in the middle.
 * Errors are ENOSPC for what needs room and EIO for sync and rename. With FAULT_LOG, each counted call is a line of that
 * file. Removing and reading always work, since they do on a full disk.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long calls, at;
static int mode_on, mode_short, log_file = -1, started;
static const char *dir;

static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_open)(const char *, int, ...);

static void start(void) {
    if (started) return;
    started = 1;
    real_write = dlsym(RTLD_NEXT, "write");
    real_open = dlsym(RTLD_NEXT, "open64");
    dir = getenv("FAULT_DIR");
    const char *number = getenv("FAULT_AT"), *mode = getenv("FAULT_MODE"), *path = getenv("FAULT_LOG");
    at = number ? atol(number) : 0;
    mode_on = mode && !strcmp(mode, "on");
    mode_short = mode && !strcmp(mode, "short");
    if (path) log_file = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static int below(const char *path) {
    char full[PATH_MAX];
    if (!dir || !path) return 0;
    if (path[0] != '/') {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here)) return 0;
        if (snprintf(full, sizeof full, "%s/%s", here, path) >= (int)sizeof full) return 0;
        path = full;
    }
    return !strncmp(path, dir, strlen(dir));
}

/* The path of an open file, if it is a regular file below the folder. */
static int counted(int fd, char *path) {
    char link[64];
    struct stat found;
    if (!dir || fstat(fd, &found) || !S_ISREG(found.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Counts a call. Returns 1 if it must fail, 2 if it must write half. */
static int fails(const char *what, const char *path) {
    pthread_mutex_lock(&lock);
    long number = ++calls;
    if (log_file >= 0) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", number, what, path);
        if (length > 0) real_write(log_file, line, (size_t)length);
    }
    pthread_mutex_unlock(&lock);
    if (!at) return 0;
    if (mode_short) return number == at && !strcmp(what, "write") ? 2 : number == at || number == at + 1;
    return mode_on ? number >= at : number == at;
}

#define REFUSE(error) do { errno = (error); return -1; } while (0)

static int open_any(const char *path, int flags, mode_t mode) {
    start();
    int creates = flags & (O_CREAT | O_TRUNC);
    if (creates && below(path) && fails("open", path)) REFUSE(ENOSPC);
    return real_open(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return open_any(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return open_any(path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    char path[PATH_MAX];
    start();
    if (counted(fd, path)) {
        int how = fails("write", path);
        if (how == 1) REFUSE(ENOSPC);
        if (how == 2) return real_write(fd, bytes, length > 1 ? length / 2 : length);
    }
    return real_write(fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    static ssize_t (*real)(int, const struct iovec *, int);
    char path[PATH_MAX];
    start();
    if (!real) real = dlsym(RTLD_NEXT, "writev");
    if (counted(fd, path) && fails("write", path)) REFUSE(ENOSPC);
    return real(fd, parts, count);
}

#define ON_FILE(name, what, error, parameters, arguments)                  \
    int name parameters {                                                  \
        static int (*real) parameters;                                     \
        char path[PATH_MAX];                                               \
        start();                                                           \
        if (!real) real = dlsym(RTLD_NEXT, #name);                         \
        if (counted(fd, path) && fails(what, path)) REFUSE(error);         \
        return real arguments;                                             \
    }

#define ON_PATH(name, what, error, parameters, arguments)                  \
    int name parameters {                                                  \
        static int (*real) parameters;                                     \
        start();                                                           \
        if (!real) real = dlsym(RTLD_NEXT, #name);                         \
        if (below(path) && fails(what, path)) REFUSE(error);               \
        return real arguments;                                             \
    }

ON_FILE(fsync, "sync", EIO, (int fd), (fd))
ON_FILE(fdatasync, "sync", EIO, (int fd), (fd))
ON_FILE(ftruncate64, "cut", EIO, (int fd, off64_t length), (fd, length))
ON_PATH(mkdir, "mkdir", ENOSPC, (const char *path, mode_t mode), (path, mode))
ON_PATH(rename, "rename", EIO, (const char *path, const char *to), (path, to))
