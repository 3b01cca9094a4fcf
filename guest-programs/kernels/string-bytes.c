/* Row string-bytes: copy and compare zero-terminated strings byte by byte.
 *
 * The ev4 build has no byte loads and stores, so it shows what BWX is worth. Each pass
 * copies every string of an arena, compares each copy with its source and with its neighbour;
 * work is counted in bytes copied.
 */
#include "lab.h"

#define MOST 65536
#define PASSES 32

static char source[MOST] AX_LINE, copy[MOST] AX_LINE;
static u32 start[MOST / 4];
static u64 strings, bytes, outcome;

static void prepare(u64 size)
{
    struct ax_rng rng = { 77 };
    u64 at = 0;
    strings = 0;
    while (at + 66 < size) {
        u64 length = 3 + ax_below(&rng, 62);
        start[strings++] = (u32)at;
        /* Neighbours share a prefix, so that comparing them takes more than one byte. */
        for (u64 i = 0; i < length; i++)
            source[at++] = (char)(i < 12 ? 'a' + (char)i : '0' + (char)ax_below(&rng, 70));
        source[at++] = 0;
    }
    bytes = at;
}

static void run(void)
{
    u64 total = 0;
    for (u64 pass = 0; pass < PASSES; pass++) {
        for (u64 i = 0; i < strings; i++) lib_strcpy(copy + start[i], source + start[i]);
        for (u64 i = 0; i < strings; i++) {
            const char *next = source + start[i + 1 < strings ? i + 1 : 0];
            int same = lib_strcmp(copy + start[i], source + start[i]);
            int other = lib_strcmp(copy + start[i], next);
            total = total * 3 + (u64)(same != 0) + (u64)(other > 0);
        }
    }
    outcome = total;
}

static u64 check(void) { return ax_hash(outcome, copy, bytes); }
static u64 work(void) { return PASSES * bytes; }

const struct lab_row lab_rows[] = {
    { "string-bytes", "bytes", 16384, 128, MOST, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
