/* Carries a program's calls to devices that another process emulates; see served.py.

   Files whose paths exist below the folder TREADLE_ROOT are opened there instead. One under /dev is
   a device: its ioctl and mmap are asked of the process that listens on TREADLE_SOCKET. All memory
   that is mapped lies in the file TREADLE_MEMORY (a number of an open file), so both see the same
   bytes. Each call is a connection of its own, so threads wait beside each other. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { OPEN = 1, CLOSE, IOCTL, MAP };
enum { FILES = 4096, PATH = 4096 };

struct request {
    uint32_t kind, nbytes; /* bytes that follow */
    uint64_t file, number, offset;
};

struct reply {
    int32_t error; /* errno, or 0 */
    uint32_t pieces; /* so many pieces follow: share them, and ask again */
    uint64_t number;
};

struct piece {
    uint64_t address, nbytes, offset, protection;
};

static char is_device[FILES]; /* of open files by their numbers */

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void admit(void)
{
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* it reads what pointers lead to */
}

/* -- the other process ------------------------------------------------------------------------ */

static void fail(const char *what)
{
    fprintf(stderr, "shim: %s: %s\n", what, strerror(errno));
    abort();
}

static void all(int fd, void *data, size_t nbytes, int sends)
{
    for (char *at = data; nbytes;) {
        ssize_t done = sends ? send(fd, at, nbytes, MSG_NOSIGNAL) : recv(fd, at, nbytes, 0);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) fail("the emulator is gone");
        at += done;
        nbytes -= done;
    }
}

/* Replaces pages by the same bytes in the file of shared memory. */
static void share(struct piece *one)
{
    void *at = (void *)one->address;
    int memory = atoi(getenv("TREADLE_MEMORY"));
    for (uint64_t done = 0; done < one->nbytes;) {
        ssize_t count = pwrite(memory, (char *)at + done, one->nbytes - done, one->offset + done);
        if (count <= 0) fail("sharing memory");
        done += count;
    }
    int flags = MAP_SHARED | MAP_FIXED;
    if (mmap(at, one->nbytes, one->protection, flags, memory, one->offset) != at) fail("mmap");
}

/* Asks; `data` is sent and comes back changed. Returns -1 with errno, or 0 and the number. */
static int ask(struct request request, void *data, uint64_t *number)
{
    for (;;) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        strncpy(name.sun_path, getenv("TREADLE_SOCKET"), sizeof name.sun_path - 1);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&name, sizeof name)) fail("no emulator");
        all(fd, &request, sizeof request, 1);
        all(fd, data, request.nbytes, 1);
        struct reply reply;
        all(fd, &reply, sizeof reply, 0);
        struct piece pieces[reply.pieces + 1];
        all(fd, pieces, reply.pieces * sizeof *pieces, 0);
        if (!reply.pieces && !reply.error) all(fd, data, request.nbytes, 0);
        close(fd);
        for (uint32_t i = 0; i < reply.pieces; i++) share(pieces + i);
        if (reply.pieces) continue;
        if (number) *number = reply.number;
        errno = reply.error;
        return reply.error ? -1 : 0;
    }
}

static int is_emulated(int fd)
{
    return fd >= 0 && fd < FILES && is_device[fd];
}

/* -- files ------------------------------------------------------------------------------------ */

/* The path below TREADLE_ROOT, if there is such a file. */
static const char *redirected(const char *path, char *buffer)
{
    const char *root = getenv("TREADLE_ROOT");
    if (!path || path[0] != '/' || !root) return path;
    if (snprintf(buffer, PATH, "%s%s", root, path) >= PATH) return path;
    return faccessat(AT_FDCWD, buffer, F_OK, 0) ? path : buffer;
}

static int opened(const char *path, int flags, mode_t mode)
{
    char buffer[PATH];
    const char *found = redirected(path, buffer);
    REAL(openat);
    int fd = real(AT_FDCWD, found, flags, mode);
    if (fd < 0 || found == path || strncmp(path, "/dev/", 5)) return fd;
    struct request request = {OPEN, strlen(path), fd, 0, 0};
    if (fd >= FILES) fail("too many files");
    char sent[PATH];
    strcpy(sent, path);
    if (ask(request, sent, NULL)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    is_device[fd] = 1;
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return opened(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int __open_2(const char *path, int flags)
{
    return opened(path, flags, 0);
}

int __open64_2(const char *path, int flags) __attribute__((alias("__open_2")));

int close(int fd)
{
    REAL(close);
    if (is_emulated(fd)) {
        struct request request = {CLOSE, 0, fd, 0, 0};
        is_device[fd] = 0;
        ask(request, NULL, NULL);
    }
    return real(fd);
}

FILE *fopen(const char *path, const char *mode)
{
    char buffer[PATH];
    REAL(fopen);
    return real(redirected(path, buffer), mode);
}

FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

DIR *opendir(const char *path)
{
    char buffer[PATH];
    REAL(opendir);
    return real(redirected(path, buffer));
}

int access(const char *path, int mode)
{
    char buffer[PATH];
    REAL(access);
    return real(redirected(path, buffer), mode);
}

int stat(const char *path, struct stat *found)
{
    char buffer[PATH];
    REAL(stat);
    return real(redirected(path, buffer), found);
}

/* -- devices ---------------------------------------------------------------------------------- */

int ioctl(int fd, unsigned long number, ...)
{
    va_list more;
    va_start(more, number);
    void *argument = va_arg(more, void *);
    va_end(more);
    REAL(ioctl);
    if (!is_emulated(fd)) return real(fd, number, argument);
    struct request request = {IOCTL, _IOC_SIZE(number), fd, number, 0};
    return ask(request, argument, NULL);
}

void *mmap(void *address, size_t nbytes, int protection, int flags, int fd, off_t offset)
{
    REAL(mmap);
    if (!is_emulated(fd)) return real(address, nbytes, protection, flags, fd, offset);
    struct request request = {MAP, 0, fd, nbytes, offset};
    uint64_t place;
    if (ask(request, NULL, &place)) return MAP_FAILED;
    return real(address, nbytes, protection, flags, atoi(getenv("TREADLE_MEMORY")), place);
}

void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));
