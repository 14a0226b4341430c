/* The compiled helper of the snapshot engine: system calls for many files in one call.
 *
 * Each function does what a loop in Python does, which stays the reference (`native.py` says which
 * one); it only saves the interpreter's 20 to 40 microseconds for each file, during which no other
 * thread could run. It knows plain files. At anything else it stops, and the loop in Python decides.
 *
 * No header and no library is used: the builder's compiler brings none, and the machine may have
 * another C library. `syscall` and `__errno_location` are in the one that the interpreter runs on.
 * Numbers are little-endian; records have no gaps, so that Python reads them with `struct`.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long u64;
typedef long i64;

long syscall(long number, ...);
int *__errno_location(void);

#if defined(__x86_64__)
enum {
    READ_AT = 17, WRITE = 1, CLOSE = 3, SEEK = 8, IOCTL = 16, LIST_XATTRS = 196, LIST_NAMES = 217,
    OPEN_AT = 257, SET_TIMES = 280, STATX = 332,
};
#elif defined(__aarch64__)
enum {
    READ_AT = 67, WRITE = 64, CLOSE = 57, SEEK = 62, IOCTL = 29, LIST_XATTRS = 13, LIST_NAMES = 61,
    OPEN_AT = 56, SET_TIMES = 88, STATX = 291,
};
#else
#error "no system call numbers for this processor"
#endif

enum { EPERM = 1, EINTR = 4, ENXIO = 6, EINVAL = 22, ENOTTY = 25, ENOSYS = 38, EOPNOTSUPP = 95 };
enum { NO_FOLLOW = 0x100, NO_AUTOMOUNT = 0x800, EMPTY_PATH = 0x1000, BASIC_FACTS = 0x7ff };
enum { FORMAT_MASK = 0xf000, REGULAR = 0x8000, SEEK_HOLE = 4 };
enum { KEPT_FLAGS = 0x100f8 }; /* of an inode: posix.py */
#define GET_FLAGS 0x80086601u

struct moment {
    i64 seconds;
    u32 nanoseconds;
    i32 unused;
};

struct statx { /* of the kernel; the same on every processor */
    u32 mask, block_size;
    u64 attributes;
    u32 nlink, uid, gid;
    u16 mode, unused;
    u64 ino, size, blocks, known_attributes;
    struct moment atime, btime, ctime, mtime;
    u32 rdev_major, rdev_minor, dev_major, dev_minor;
    u64 more[14];
};

struct name { /* of the kernel */
    u64 ino;
    i64 next;
    u16 length;
    u8 kind;
    char text[1];
};

#pragma pack(push, 1)
struct row { /* as a listing has it: listings.py */
    u64 ino, dev;
    i64 ctime, mtime, size;
    u32 mode;
};

struct status { /* tree.py */
    struct row row;
    u32 uid, gid, nlink;
    u64 rdev;
};

struct found { /* of a file that was read: native.py */
    struct status status;
    u32 flags;
};
#pragma pack(pop)

/* For the loader: both sides must mean the same records. */
int pf_version(void)
{
    return 1;
}

static u64 device(u32 major, u32 minor)
{
    return ((u64)(major & 0xfffff000u) << 32) | ((u64)(major & 0xfffu) << 8)
         | ((u64)(minor & 0xffffff00u) << 12) | (minor & 0xffu);
}

static i64 in_nanoseconds(struct moment *moment)
{
    return moment->seconds * 1000000000L + moment->nanoseconds;
}

static int look(int fd, const char *name, int flags, struct statx *facts, struct status *found)
{
    if (syscall(STATX, fd, name, flags | NO_AUTOMOUNT, BASIC_FACTS, facts) != 0)
        return -1;
    found->row.ino = facts->ino;
    found->row.dev = device(facts->dev_major, facts->dev_minor);
    found->row.ctime = in_nanoseconds(&facts->ctime);
    found->row.mtime = in_nanoseconds(&facts->mtime);
    found->row.size = (i64)facts->size;
    found->row.mode = facts->mode;
    found->uid = facts->uid;
    found->gid = facts->gid;
    found->nlink = facts->nlink;
    found->rdev = device(facts->rdev_major, facts->rdev_minor);
    return 0;
}

static int is_same(const void *left, const void *right, i64 length)
{
    const u8 *a = left, *b = right;
    for (i64 i = 0; i < length; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

static i64 length_of(const char *text)
{
    i64 length = 0;
    while (text[length])
        length++;
    return length;
}

/* Directories ---------------------------------------------------------------------------------- */

struct listing {
    char *names; /* joined by zero bytes, with one after the last */
    i64 names_room, names_used;
    struct row *rows;
    struct status *statuses;
    i64 room, count;
};

static int add_name(int fd, const char *text, struct listing *to)
{
    struct statx facts;
    i64 length = length_of(text) + 1;
    if (to->count == to->room || to->names_used + length > to->names_room)
        return 0;
    if (look(fd, text, NO_FOLLOW, &facts, &to->statuses[to->count]) != 0)
        return -1;
    to->rows[to->count] = to->statuses[to->count].row;
    for (i64 i = 0; i < length; i++)
        to->names[to->names_used + i] = text[i];
    to->names_used += length;
    to->count++;
    return 1;
}

/* All names of a directory in the order of the kernel. Returns 1; 0 if there is not enough room;
 * -1 if the directory or a name in it cannot be read. The position of `fd` is at the start again. */
int pf_scan(int fd, char *buffer, i64 size, struct listing *to)
{
    int result = 1;
    to->count = to->names_used = 0;
    while (result == 1) {
        i64 got = syscall(LIST_NAMES, fd, buffer, size);
        if (got <= 0) {
            result = got < 0 ? -1 : 2;
            break;
        }
        for (i64 at = 0; at < got && result == 1;) {
            struct name *name = (struct name *)(buffer + at);
            const char *text = name->text;
            int is_dots = text[0] == '.' && (!text[1] || (text[1] == '.' && !text[2]));
            if (!is_dots)
                result = add_name(fd, text, to);
            at += name->length;
        }
    }
    if (syscall(SEEK, fd, 0L, 0L) < 0)
        return -1;
    return result == 2 ? 1 : result;
}

/* Reading small files -------------------------------------------------------------------------- */

static int open_file(int directory, const char *name, int flags, int no_atime)
{
    int fd = (int)syscall(OPEN_AT, directory, name, flags | no_atime, 0);
    if (fd < 0 && no_atime && *__errno_location() == EPERM)
        fd = (int)syscall(OPEN_AT, directory, name, flags, 0);
    return fd;
}

/* Bytes read, one more than `size` if there are more; -1 on an error. */
static i64 read_all(int fd, u8 *to, i64 size)
{
    i64 done = 0;
    while (done <= size) {
        i64 got = syscall(READ_AT, fd, to + done, size + 1 - done, done);
        if (got < 0 && *__errno_location() == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += got;
        if (done == size)
            break; /* as most are; that it did not grow is told by its size afterwards */
    }
    return done;
}

/* The label of SELinux is the machine's and never kept; nearly every file has it there. */
static int has_attributes(int fd)
{
    char names[64];
    i64 length = syscall(LIST_XATTRS, fd, names, (u64)sizeof names);
    if (length < 0)
        return *__errno_location() != EOPNOTSUPP && *__errno_location() != ENOSYS;
    return length != 0 && !(length == 17 && is_same(names, "security.selinux", 17));
}

static int read_flags(int fd, u32 *flags)
{
    u64 found = 0; /* some filesystems write a long, though flags have 32 bits */
    *flags = 0;
    if (syscall(IOCTL, fd, (u64)GET_FLAGS, &found) != 0) {
        int error = *__errno_location();
        return error == ENOTTY || error == EOPNOTSUPP || error == EINVAL || error == ENOSYS;
    }
    *flags = (u32)found & KEPT_FLAGS;
    return 1;
}

static int is_without_holes(int fd, i64 size)
{
    i64 hole = size ? syscall(SEEK, fd, 0L, (long)SEEK_HOLE) : 0;
    if (hole < 0)
        return *__errno_location() == EINVAL;
    return hole >= size;
}

static int read_plain(int fd, const struct row *expected, u8 *to, int holes, struct found *found)
{
    struct statx facts;
    i64 size = expected->size;
    if (read_all(fd, to, size) != size)
        return 0;
    if (look(fd, "", EMPTY_PATH, &facts, &found->status) != 0)
        return 0;
    if (!is_same(&found->status.row, expected, sizeof *expected))
        return 0;
    if ((facts.mode & FORMAT_MASK) != REGULAR || (i64)facts.blocks * 512 < size)
        return 0;
    if (holes && !is_without_holes(fd, size))
        return 0;
    return read_flags(fd, &found->flags) && !has_attributes(fd);
}

/* Read files of a directory one after the other, as long as each is plain: a regular file without
 * attributes and holes that is after the read what `expected` says. `names` end with zero bytes.
 * Returns how many were read; their contents lie one after the other in `buffer`. */
i64 pf_read_plain(int directory, const char *names, const struct row *expected, i64 count,
                  const i32 *flags, u8 *buffer, i64 room, struct found *found)
{
    i64 used = 0;
    for (i64 i = 0; i < count; i++) {
        int fd, is_plain;
        if (expected[i].size >= room - used)
            return i;
        fd = open_file(directory, names, flags[0], flags[1]);
        if (fd < 0)
            return i;
        is_plain = read_plain(fd, &expected[i], buffer + used, flags[2], &found[i]);
        syscall(CLOSE, fd);
        if (!is_plain)
            return i;
        used += expected[i].size;
        names += length_of(names) + 1;
    }
    return count;
}

/* Writing small files -------------------------------------------------------------------------- */

#pragma pack(push, 1)
struct file { /* one to be made: native.py */
    u64 offset, length;
    i64 mtime;
    u32 mode;
};
#pragma pack(pop)

enum { WRITTEN = 0, NOT_OPENED = 1, NOT_WRITTEN = 2, WITHOUT_TIME = 3 };

static int write_content(int fd, const u8 *data, u64 length)
{
    while (length) {
        i64 done = syscall(WRITE, fd, data, length);
        if (done < 0 && *__errno_location() == EINTR)
            continue;
        if (done < 0)
            return -1;
        data += done;
        length -= (u64)done;
    }
    return 0;
}

static int set_time(int fd, i64 nanoseconds)
{
    i64 times[4];
    i64 seconds = nanoseconds / 1000000000L, rest = nanoseconds % 1000000000L;
    if (rest < 0) {
        rest += 1000000000L;
        seconds--;
    }
    times[0] = times[2] = seconds;
    times[1] = times[3] = rest;
    return (int)syscall(SET_TIMES, fd, (char *)0, times, 0L);
}

static int write_file(int directory, const char *name, int flags, const u8 *data,
                      const struct file *file)
{
    int result = WRITTEN;
    int fd = (int)syscall(OPEN_AT, directory, name, flags, file->mode);
    if (fd < 0)
        return NOT_OPENED;
    if (write_content(fd, data + file->offset, file->length) != 0)
        result = NOT_WRITTEN;
    else if (set_time(fd, file->mtime) != 0)
        result = WITHOUT_TIME;
    if (result != WRITTEN) {
        int error = *__errno_location();
        syscall(CLOSE, fd);
        *__errno_location() = error;
        return result;
    }
    syscall(CLOSE, fd);
    return WRITTEN;
}

/* Make new files with content, rights and time. Returns how many were made; if that is not all,
 * `problem` has what went wrong with the next one, and the error number. */
i64 pf_write_plain(int directory, const char *names, const struct file *files, i64 count, int flags,
                   const u8 *data, i32 *problem)
{
    problem[0] = problem[1] = 0;
    for (i64 i = 0; i < count; i++) {
        problem[0] = write_file(directory, names, flags, data, &files[i]);
        if (problem[0] != WRITTEN) {
            problem[1] = *__errno_location();
            return i;
        }
        names += length_of(names) + 1;
    }
    return count;
}
