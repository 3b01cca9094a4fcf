/* Row first-result: a short program as a whole, from its start to its end.
 *
 * The lab takes the time of the process, not of the loop below. Many small routines each run
 * a few times: there is nothing to gain from translating them well.
 */
#include "lab.h"

#define RECORDS 24

static struct { char name[12]; u64 key; double weight; } records[RECORDS];
static char text[2048];
static u64 count, used, outcome;

static AX_NOINLINE void fill(void)
{
    struct ax_rng rng = { 7 };
    for (u64 i = 0; i < RECORDS; i++) {
        for (u64 j = 0; j < 11; j++) records[i].name[j] = (char)('a' + ax_below(&rng, 26));
        records[i].key = ax_next(&rng) >> 20;
        records[i].weight = ax_exp(-(double)i / 8) * ax_sin((double)i);
    }
}

static AX_NOINLINE void sort(void)
{
    for (u64 i = 1; i < RECORDS; i++)
        for (u64 j = i; j && ax_strcmp(records[j].name, records[j - 1].name) < 0; j--) {
            __typeof__(records[0]) held = records[j];
            records[j] = records[j - 1];
            records[j - 1] = held;
        }
}

static AX_NOINLINE void put_number(u64 value)
{
    char digits[24];
    int n = 0;
    do digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n) text[used++] = digits[--n];
}

static AX_NOINLINE void format(void)
{
    used = 0;
    for (u64 i = 0; i < RECORDS; i++) {
        u64 length = ax_strlen(records[i].name);
        ax_memcpy(text + used, records[i].name, length);
        used += length;
        text[used++] = ' ';
        put_number(records[i].key);
        text[used++] = ' ';
        put_number((u64)(ax_fabs(records[i].weight) * 1e6));
        text[used++] = '\n';
    }
}

static AX_NOINLINE u64 words(void)
{
    u64 n = 0, inside = 0;
    for (u64 i = 0; i < used; i++) {
        u64 blank = text[i] == ' ' || text[i] == '\n';
        n += !blank && !inside;
        inside = !blank;
    }
    return n;
}

static void prepare(u64 size) { count = size; }
static void run(void)
{
    fill();
    sort();
    format();
    outcome = words();
}
static u64 check(void) { return ax_hash(outcome, text, used); }
static u64 work(void) { return count; }

const struct lab_row lab_rows[] = {
    { "first-result", "runs", 1, 1, 1, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
