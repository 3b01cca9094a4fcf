/* Row bitfield (nbench-style): set, clear and complement runs of bits, one bit at a time.
 *
 * The runs lie in the first 262 140 bits, as in nbench; work is counted in bit operations.
 */
#include "lab.h"

#define WORDS 32768
#define OPERATIONS 30

static u64 map[WORDS];
static u64 words, bits;
static struct { u64 at, length; } runs[OPERATIONS];

static AX_NOINLINE void assign(u64 *m, u64 at, u64 length, int value)
{
    if (value)
        for (; length; length--, at++) m[at >> 6] |= 1ul << (at & 63);
    else
        for (; length; length--, at++) m[at >> 6] &= ~(1ul << (at & 63));
}

static AX_NOINLINE void complement(u64 *m, u64 at, u64 length)
{
    for (; length; length--, at++) m[at >> 6] ^= 1ul << (at & 63);
}

/* nbench draws from 8 bits for each of its words, whatever their width. */
static void prepare(u64 size)
{
    struct ax_rng rng = { 64 };
    words = size;
    bits = 0;
    for (u64 i = 0; i < OPERATIONS; i++) {
        runs[i].at = ax_below(&rng, 8 * words - 4);
        runs[i].length = ax_below(&rng, 8 * words - 4 - runs[i].at);
        bits += runs[i].length;
    }
}

static void restore(void)
{
    for (u64 i = 0; i < words; i++) map[i] = 0x5555555555555555ul;
}

static void run(void)
{
    for (u64 i = 0; i < OPERATIONS; i++) {
        switch (i % 3) {
        case 0: assign(map, runs[i].at, runs[i].length, 1); break;
        case 1: assign(map, runs[i].at, runs[i].length, 0); break;
        default: complement(map, runs[i].at, runs[i].length); break;
        }
    }
}

static u64 check(void) { return ax_hash(bits, map, words); }
static u64 work(void) { return bits; }

const struct lab_row lab_rows[] = {
    { "bitfield", "bits", WORDS, 64, WORDS, prepare, restore, run, check, work },
};
const u64 lab_row_count = 1;
