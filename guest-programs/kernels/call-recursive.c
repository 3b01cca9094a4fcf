/* Row call-recursive: plain and mutual recursion, counted in calls.
 *
 * A Fibonacci-shaped function whose results are combined so that no compiler turns the
 * recursion into a loop, and Hofstadter's female and male sequences, which call each other
 * with arguments that depend on earlier results.
 */
#include "lab.h"

#define SERIES 72

static u64 depth;
static u64 calls, result;
static u64 female_calls[256], male_calls[256], female_value[256], male_value[256];

static AX_NOINLINE u64 fib(u64 n)
{
    if (n < 2) return n + 1;
    return (fib(n - 1) * 3) ^ (fib(n - 2) + n);
}

static AX_NOINLINE u64 male(u64 n);

static AX_NOINLINE u64 female(u64 n)
{
    return n ? n - male(female(n - 1)) : 1;
}

static AX_NOINLINE u64 male(u64 n)
{
    return n ? n - female(male(n - 1)) : 0;
}

/* The number of calls follows from the same recurrences, in a table. */
static void prepare(u64 size)
{
    u64 a = 1, b = 1;
    depth = size;
    for (u64 i = 2; i <= depth; i++) {
        u64 next = a + b + 1;
        a = b;
        b = next;
    }
    female_calls[0] = male_calls[0] = 1;
    female_value[0] = 1;
    male_value[0] = 0;
    for (u64 i = 1; i <= SERIES; i++) {
        u64 f = female_value[i - 1], m = male_value[i - 1];
        female_value[i] = i - male_value[f];
        female_calls[i] = 1 + female_calls[i - 1] + male_calls[f];
        male_value[i] = i - female_value[m];
        male_calls[i] = 1 + male_calls[i - 1] + female_calls[m];
    }
    calls = b + female_calls[SERIES] + male_calls[SERIES];
}

static void run(void)
{
    u64 n = depth, m = SERIES;
    AX_OPAQUE(n);
    AX_OPAQUE(m);
    result = ax_mix(ax_mix(fib(n), female(m)), male(m));
}

static u64 check(void) { return result; }
static u64 work(void) { return calls; }

const struct lab_row lab_rows[] = {
    { "call-recursive", "calls", 24, 2, 40, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
