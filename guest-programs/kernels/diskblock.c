/* Rows diskblock-*: sequential reads of SIZE blocks of 512 bytes, twenty of them in flight.
 *
 * Twenty threads take the next piece of a 32 MiB file in turn. The rows without -cached read
 * past the page cache (O_DIRECT); where the file system refuses that, the cache is dropped
 * before each repetition instead and the line says direct=0.
 */
#include "lab.h"
#include "sys.h"

#define THREADS 20
#define FILE_BYTES (32ul << 20)
#define BLOCK 512
#define MOST 300
#define STACK 65536

static u8 stacks[THREADS][STACK] __attribute__((aligned(4096)));
/* Direct reads go to aligned memory; rounded up to whole 4 KiB. */
static u8 buffers[THREADS][(MOST * BLOCK + 4095) & ~4095] __attribute__((aligned(4096)));
static u64 pieces, piece_bytes, blocks, next, sum, errors;
static u32 generation, done;
static int cached, direct;
static char unit[32];

static void read_pieces(u8 *buffer)
{
    u64 mine = 0, wrong = 0;
    for (;;) {
        u64 i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
        if (i >= pieces) break;
        i64 n = sys_pread(direct >= 0 ? direct : cached, buffer, piece_bytes, i * piece_bytes);
        u64 first = *(u64 *)buffer, last = *(u64 *)(buffer + piece_bytes - BLOCK);
        wrong += n != (i64)piece_bytes || first != i * blocks || last != (i + 1) * blocks - 1;
        mine += first + last;
    }
    __atomic_fetch_add(&sum, mine, __ATOMIC_RELAXED);
    __atomic_fetch_add(&errors, wrong, __ATOMIC_RELAXED);
}

static void body(void *buffer)
{
    u32 seen = 0;
    for (;;) {
        u32 now;
        while ((now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE)) == seen)
            sys_futex_wait(&generation, seen);
        seen = now;
        read_pieces(buffer);
        if (__atomic_add_fetch(&done, 1, __ATOMIC_RELEASE) == THREADS) sys_futex_wake(&done, 1);
    }
}

static void prepare_any(u64 size)
{
    blocks = size;
    piece_bytes = size * BLOCK;
    pieces = FILE_BYTES / piece_bytes;
    for (u64 i = 0; i < THREADS; i++) {
        i64 error = sys_thread(body, buffers[i], stacks[i], STACK);
        if (error < 0) sys_give_up("start", "a thread", error);
    }
}

static void prepare_direct(u64 size)
{
    cached = sys_scratch_file(FILE_BYTES, 1, &direct);
    sys_put(unit, direct >= 0 ? "bytes direct=1" : "bytes direct=0");
    prepare_any(size);
}

static void prepare_cached(u64 size)
{
    cached = sys_scratch_file(FILE_BYTES, 1, 0);
    direct = -1;
    sys_put(unit, "bytes");
    prepare_any(size);
}

static void restore(void) { next = done = 0, sum = errors = 0; }

static void restore_direct(void)
{
    restore();
    if (direct < 0) sys_drop_cache(cached);
}

static void run(void)
{
    u32 ended;
    __atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
    sys_futex_wake(&generation, THREADS);
    while ((ended = __atomic_load_n(&done, __ATOMIC_ACQUIRE)) < THREADS) sys_futex_wait(&done, ended);
}

static u64 check(void) { return ax_mix(ax_mix(blocks, sum), errors); }
static u64 work(void) { return pieces * piece_bytes; }

#define ROWS(n) \
    { "diskblock-" #n, unit, n, n, n, prepare_direct, restore_direct, run, check, work }, \
    { "diskblock-" #n "-cached", unit, n, n, n, prepare_cached, restore, run, check, work },

const struct lab_row lab_rows[] = { ROWS(100) ROWS(200) ROWS(300) };
const u64 lab_row_count = 6;
