/* Row memory-copy: copies 1 MiB by quadwords; work is counted in bytes copied. */
#include "lab.h"

#define MOST (1 << 20)
#define PASSES 16

static u64 source[MOST / 8] AX_LINE, target[MOST / 8] AX_LINE;
static u64 bytes;

static void prepare(u64 size)
{
    struct ax_rng rng = { 8 };
    bytes = size;
    for (u64 i = 0; i < bytes / 8; i++) source[i] = ax_next(&rng);
}

static void restore(void) { ax_memset(target, 0, bytes); }

static void run(void)
{
    for (u64 pass = 0; pass < PASSES; pass++) {
        u64 *to = target;
        AX_OPAQUE(to);
        lib_memcpy(to, source, bytes);
    }
}

static u64 check(void) { return ax_hash(bytes, target, bytes); }
static u64 work(void) { return PASSES * bytes; }

const struct lab_row lab_rows[] = {
    { "memory-copy", "bytes", MOST, 64, MOST, prepare, restore, run, check, work },
};
const u64 lab_row_count = 1;
