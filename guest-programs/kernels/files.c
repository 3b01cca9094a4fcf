/* Rows files-*: what a file server does: many small files, a directory, a large copy, a read.
 *
 * The rows with -fsync write each change through to disk as VMS does. What a repetition makes
 * is removed after it; a signal that ends the program removes it, too. The folder in which the
 * program is started has to be writable.
 */
#include "lab.h"
#include "sys.h"

#define SMALL 1024          /* bytes in a small file */
#define PIECE 65536         /* bytes moved at a time when copying */
#define EDITOR_PIECE 4096   /* bytes that an editor reads at a time */
#define OPEN_PASSES 20
#define LIST_PASSES 100
#define READ_PASSES 4

static u8 data[PIECE];
static char folder[64], name[128];
static u64 count, outcome, made; /* made: files that may exist */
static int synced, directory = -1, source = -1, has_folder;

static const char *file_name(u64 i)
{
    sys_put_number(sys_put(sys_put(name, folder), "/small-file-number-"), i);
    return name;
}

static void must(i64 result, const char *what)
{
    if (result >= 0) return;
    static char held[128];
    sys_put(held, name);
    sys_give_up(what, held, result);
}

static void clean(void)
{
    for (u64 i = 0; i < made; i++) sys_unlink(file_name(i));
    made = 0;
    if (directory >= 0) sys_close(directory);
    directory = -1;
    if (has_folder) sys_rmdir(folder);
    has_folder = 0;
}

static void end(int signal)
{
    clean();
    sys_exit(128 + signal);
}

static void prepare(u64 size)
{
    count = size;
    made = 0;
    for (u64 i = 0; i < PIECE; i++) data[i] = sys_byte(i);
    sys_handle(SYS_SIGHUP, end);
    sys_handle(SYS_SIGINT, end);
    sys_handle(SYS_SIGTERM, end);
    sys_name(folder, "axplab-files", 0);
}
static void prepare_synced(u64 size)
{
    prepare(size);
    synced = 1;
}

static void make_folder(void)
{
    sys_put(name, folder);
    has_folder = 1;
    must(sys_mkdir(folder), "make the folder");
    directory = (int)sys_open(folder, OPEN_READ);
    must(directory, "open the folder");
    outcome = 0;
}

static void create(void)
{
    made = count;
    for (u64 i = 0; i < count; i++) {
        i64 fd = sys_open(file_name(i), OPEN_NEW);
        must(fd, "create");
        i64 n = sys_write((int)fd, data, SMALL);
        must(n == SMALL ? n : -1, "write");
        if (synced) must(sys_fsync((int)fd), "sync");
        sys_close((int)fd);
        outcome++;
    }
}
static void make_files(void)
{
    make_folder();
    int held = synced;
    synced = 0;
    create();
    synced = held;
    outcome = 0;
}

static void open_close(void)
{
    for (u64 pass = 0; pass < OPEN_PASSES; pass++)
        for (u64 i = 0; i < count; i++) {
            i64 fd = sys_open(file_name(i), OPEN_READ);
            must(fd, "open");
            outcome += sys_close((int)fd) == 0;
        }
}

static void delete(void)
{
    for (u64 i = 0; i < count; i++) {
        must(sys_unlink(file_name(i)), "delete");
        if (synced) must(sys_fsync(directory), "sync");
        outcome++;
    }
}

/* Entries of getdents64: 8 bytes number, 8 bytes position, 2 bytes length, type, name. */
static void list(void)
{
    for (u64 pass = 0; pass < LIST_PASSES; pass++) {
        i64 fd = sys_open(folder, OPEN_READ), n;
        must(fd, "open the folder");
        while ((n = sys_list((int)fd, data, sizeof data)) > 0)
            for (u64 at = 0; at < (u64)n; at += *(u16 *)(data + at + 16)) outcome += data[at + 19] != '.';
        must(n, "list");
        sys_close((int)fd);
    }
}

static u64 check_files(void)
{
    u64 sum = ax_mix(ax_mix(1, count), outcome);
    clean();
    return sum;
}

static void prepare_source(u64 size)
{
    prepare(size);
    source = sys_scratch_file(size, 0, 0);
}
static void prepare_source_synced(u64 size)
{
    prepare_source(size);
    synced = 1;
}

static void copy(void)
{
    made = 1;
    i64 to = sys_open(file_name(0), OPEN_NEW);
    must(to, "create");
    for (u64 at = 0; at < count;) {
        i64 n = sys_pread(source, data, PIECE, at);
        must(n, "read");
        must(sys_write((int)to, data, (u64)n) == n ? 0 : -1, "write");
        at += (u64)n;
    }
    if (synced) must(sys_fsync((int)to), "sync");
    outcome = (u64)sys_pread((int)to, data, PIECE, count - PIECE);
    sys_close((int)to);
}

static u64 check_copy(void)
{
    u64 sum = ax_hash(ax_mix(count, outcome), data, PIECE);
    clean();
    return sum;
}

static void read_file(void)
{
    u64 sum = 0;
    for (u64 pass = 0; pass < READ_PASSES; pass++)
        for (u64 at = 0; at < count; at += EDITOR_PIECE) {
            must(sys_pread(source, data, EDITOR_PIECE, at), "read");
            sum += *(u64 *)data;
        }
    outcome = sum;
}
static u64 check_read(void) { return ax_hash(ax_mix(count, outcome), data, EDITOR_PIECE); }

static u64 work_files(void) { return count; }

#define MB(n) ((u64)(n) << 20)
#define ROW(name, size, least, most, prepare, restore, run, check) \
    { name, size < MB(1) ? "files" : "bytes", size, least, most, prepare, restore, run, check, work_files },

const struct lab_row lab_rows[] = {
    ROW("files-create-200", 200, 1, 1000, prepare, make_folder, create, check_files)
    ROW("files-create-200-fsync", 200, 1, 1000, prepare_synced, make_folder, create, check_files)
    ROW("files-open-close-200", 200, 1, 1000, prepare, make_files, open_close, check_files)
    ROW("files-delete-200", 200, 1, 1000, prepare, make_files, delete, check_files)
    ROW("files-delete-200-fsync", 200, 1, 1000, prepare_synced, make_files, delete, check_files)
    ROW("files-list-300", 300, 1, 1000, prepare, make_files, list, check_files)
    ROW("files-copy-8mb", MB(8), MB(1), MB(64), prepare_source, make_folder, copy, check_copy)
    ROW("files-copy-8mb-fsync", MB(8), MB(1), MB(64), prepare_source_synced, make_folder, copy, check_copy)
    ROW("files-read-4mb", MB(4), MB(1), MB(64), prepare_source, 0, read_file, check_read)
};
const u64 lab_row_count = sizeof lab_rows / sizeof lab_rows[0];
