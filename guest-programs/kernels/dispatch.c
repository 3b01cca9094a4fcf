/* Row dispatch-1000: indirect calls over 1000 targets in a shuffled order.
 *
 * SIZE is the number of targets used. Each target is a distinct small function, so that every
 * call is a jump through a register whose destination changes.
 */
#include "lab.h"

#define SEQUENCE 4096
#define PASSES 16

/* Numbers start at 1000, because a leading zero would make them octal. */
#define TARGET(i) \
    static AX_NOINLINE u64 target_##i(u64 x) { return (x ^ (x >> (i % 31 + 3))) + i * 0x10001ul; }
#define NAME(i) target_##i,
#define TEN(m, i) m(i##0) m(i##1) m(i##2) m(i##3) m(i##4) m(i##5) m(i##6) m(i##7) m(i##8) m(i##9)
#define HUNDRED(m, i) \
    TEN(m, i##0) TEN(m, i##1) TEN(m, i##2) TEN(m, i##3) TEN(m, i##4) \
    TEN(m, i##5) TEN(m, i##6) TEN(m, i##7) TEN(m, i##8) TEN(m, i##9)
#define THOUSAND(m) \
    HUNDRED(m, 10) HUNDRED(m, 11) HUNDRED(m, 12) HUNDRED(m, 13) HUNDRED(m, 14) \
    HUNDRED(m, 15) HUNDRED(m, 16) HUNDRED(m, 17) HUNDRED(m, 18) HUNDRED(m, 19)

THOUSAND(TARGET)

typedef u64 (*target)(u64);
static target const targets[1000] = { THOUSAND(NAME) };

static u16 sequence[SEQUENCE];
static u64 result;

static void prepare(u64 size)
{
    struct ax_rng rng = { 1000 };
    for (u64 i = 0; i < SEQUENCE; i++) sequence[i] = (u16)ax_below(&rng, size);
}

static void run(void)
{
    u64 x = 1;
    for (u64 pass = 0; pass < PASSES; pass++)
        for (u64 i = 0; i < SEQUENCE; i++) x = targets[sequence[i]](x);
    result = x;
}

static u64 check(void) { return ax_mix(result, SEQUENCE); }
static u64 work(void) { return PASSES * SEQUENCE; }

const struct lab_row lab_rows[] = {
    { "dispatch-1000", "calls", 1000, 1, 1000, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
