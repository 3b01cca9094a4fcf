/* Row numeric-sort (nbench-style): heap sort of 8111 quadwords.
 *
 * One repetition sorts one array, the unit nbench counts; the unsorted copy is restored
 * outside the timed part.
 */
#include "lab.h"

#define MOST 65536

static i64 original[MOST] AX_LINE, array[MOST] AX_LINE;
static u64 count;

/* Lets the element at `at` sink in the heap that ends with `last` (inclusive). */
static AX_NOINLINE void sift(i64 *a, u64 at, u64 last)
{
    while (at + at <= last) {
        u64 child = at + at;
        if (child < last && a[child] < a[child + 1]) child++;
        if (a[at] >= a[child]) return;
        i64 held = a[child];
        a[child] = a[at];
        a[at] = held;
        at = child;
    }
}

static void prepare(u64 size)
{
    struct ax_rng rng = { 8111 };
    count = size;
    for (u64 i = 0; i < count; i++) original[i] = (i64)(ax_next(&rng) >> 33);
}

static void restore(void) { ax_memcpy(array, original, count * 8); }

static void run(void)
{
    u64 top = count - 1;
    for (u64 i = top / 2; i > 0; i--) sift(array, i, top);
    for (u64 i = top; i > 0; i--) {
        sift(array, 0, i);
        i64 held = array[0];
        array[0] = array[i];
        array[i] = held;
    }
}

static u64 check(void)
{
    for (u64 i = 1; i < count; i++)
        if (array[i - 1] > array[i]) return i;
    return ax_hash(1, array, count * 8);
}

static u64 work(void) { return 1; }

const struct lab_row lab_rows[] = {
    { "numeric-sort", "iterations", 8111, 2, MOST, prepare, restore, run, check, work },
};
const u64 lab_row_count = 1;
