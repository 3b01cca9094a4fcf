/* Row int-divide: 64-bit unsigned and signed quotients and remainders over operands of all
 * lengths; the Alpha calls a library routine for each.
 */
#include "lab.h"

#define MOST 8192
#define PASSES 16

static u64 dividend[MOST], divisor[MOST];
static u64 count, outcome;

/* Lengths are drawn first, so that short and long quotients are equally frequent. */
static void prepare(u64 size)
{
    struct ax_rng rng = { 64 };
    count = size;
    for (u64 i = 0; i < count; i++) {
        dividend[i] = ax_next(&rng) >> ax_below(&rng, 32);
        divisor[i] = (ax_next(&rng) >> ax_below(&rng, 63)) | 1;
    }
}

static void run(void)
{
    u64 hash = 0;
    for (u64 pass = 0; pass < PASSES; pass++) {
        for (u64 i = 0; i < count; i++) {
            u64 a = dividend[i], b = divisor[i];
            hash = (hash ^ (a / b)) * 5 + a % b;
        }
        for (u64 i = 0; i < count; i++) {
            i64 a = -(i64)(dividend[i] >> 1), b = (i64)(divisor[i] >> 1 | 1);
            hash = (hash ^ (u64)(a / b)) * 5 + (u64)(a % b);
        }
    }
    outcome = hash;
}

static u64 check(void) { return outcome; }
static u64 work(void) { return 2 * PASSES * count; }

const struct lab_row lab_rows[] = {
    { "int-divide", "divisions", 1024, 1, MOST, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
