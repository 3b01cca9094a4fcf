/* Row string-sort (nbench-style): heap sort of strings of unequal length inside one arena.
 *
 * Strings lie end to end, each behind its length byte; exchanging two of unequal length moves
 * everything between and behind them and corrects the offsets, as nbench does. One repetition
 * sorts one arena.
 */
#include "lab.h"

#define MOST 32768
#define LONGEST 80

static u8 original[MOST + 2 * LONGEST], arena[MOST + 2 * LONGEST];
static u64 first_offset[MOST / 4], offset[MOST / 4];
static u64 strings, filled;

/* nbench compares as many bytes as the shorter string has, beginning with the length byte. */
static int less(u64 a, u64 b)
{
    const u8 *x = arena + offset[a], *y = arena + offset[b];
    int order = lib_memcmp(x, y, x[0] < y[0] ? x[0] : y[0]);
    return order ? order < 0 : x[0] > y[0];
}

/* Makes room for `length` bytes in string i; what lies behind is moved even if by nothing. */
static AX_NOINLINE void resize(u64 i, u64 length)
{
    i64 grow = (i64)length - arena[offset[i]];
    if (i == strings - 1) return;
    u64 tail = offset[strings - 1] + arena[offset[strings - 1]] + 1 - offset[i + 1];
    lib_memmove(arena + offset[i + 1] + grow, arena + offset[i + 1], tail);
    u64 j = i + 1;
    for (; j + 4 <= strings; j += 4) {
        offset[j] += (u64)grow;
        offset[j + 1] += (u64)grow;
        offset[j + 2] += (u64)grow;
        offset[j + 3] += (u64)grow;
    }
    for (; j < strings; j++) offset[j] += (u64)grow;
}

static void exchange(u64 a, u64 b)
{
    u8 held[LONGEST + 8];
    lib_memmove(held, arena + offset[a], arena[offset[a]] + 1u);
    resize(a, arena[offset[b]]);
    lib_memmove(arena + offset[a], arena + offset[b], arena[offset[b]] + 1u);
    resize(b, held[0]);
    lib_memmove(arena + offset[b], held, held[0] + 1u);
}

static AX_NOINLINE void sift(u64 at, u64 last)
{
    while (at + at <= last) {
        u64 child = at + at;
        if (child < last && less(child, child + 1)) child++;
        if (!less(at, child)) return;
        exchange(at, child);
        at = child;
    }
}

static void prepare(u64 size)
{
    struct ax_rng rng = { 13 };
    u64 at = 0;
    strings = 0;
    while (at + 1 < size) {
        u64 length = 1 + ax_below(&rng, 76);
        if (at + 1 + length > size) length = size - at - 1;
        first_offset[strings++] = at;
        original[at++] = (u8)length;
        for (u64 i = 0; i < length; i++) original[at++] = (u8)(1 + ax_below(&rng, 254));
    }
    filled = at;
}

static void restore(void)
{
    ax_memcpy(arena, original, filled);
    ax_memcpy(offset, first_offset, strings * 8);
}

static void run(void)
{
    u64 top = strings - 1;
    for (u64 i = top / 2; i > 0; i--) sift(i, top);
    for (u64 i = top; i > 0; i--) {
        sift(0, i);
        exchange(0, i);
    }
}

static u64 check(void)
{
    for (u64 i = 1; i < strings; i++)
        if (less(i, i - 1)) return i;
    return ax_hash(strings, arena, filled);
}

static u64 work(void) { return 1; }

const struct lab_row lab_rows[] = {
    { "string-sort", "iterations", 8111, 256, MOST, prepare, restore, run, check, work },
};
const u64 lab_row_count = 1;
