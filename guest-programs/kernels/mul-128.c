/* Row mul-128: 64 x 64 -> 128-bit products (MULQ and UMULH), summed in 128 bits, and a chain
 * in which each product feeds the next.
 */
#include "lab.h"

#define MOST 8192
#define PASSES 64

static u64 left[MOST], right[MOST];
static u64 count, outcome;

static void prepare(u64 size)
{
    struct ax_rng rng = { 128 };
    count = size;
    for (u64 i = 0; i < count; i++) {
        left[i] = ax_next(&rng);
        right[i] = ax_next(&rng) | 1;
    }
}

static void run(void)
{
    u128 sum = 0;
    u64 chain = 1;
    for (u64 pass = 0; pass < PASSES; pass++) {
        for (u64 i = 0; i < count; i++) sum += (u128)left[i] * right[i];
        for (u64 i = 0; i < count; i++) {
            u128 product = (u128)(chain ^ left[i]) * right[i];
            chain = (u64)product + (u64)(product >> 64);
        }
    }
    outcome = ax_mix(ax_mix((u64)sum, (u64)(sum >> 64)), chain);
}

static u64 check(void) { return outcome; }
static u64 work(void) { return 2 * PASSES * count; }

const struct lab_row lab_rows[] = {
    { "mul-128", "products", 1024, 1, MOST, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
