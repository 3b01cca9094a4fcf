/* Row assignment (nbench-style): assign 101 tasks to 101 machines at least cost.
 *
 * The Hungarian method in nbench's form: reduce rows and columns, mark independent zeros, and
 * while some row stays without one, cover lines and shift the smallest uncovered cost. One
 * repetition solves one cost matrix.
 */
#include "lab.h"

#define MOST 101
#define NOT_COVERED ((i64)1 << 40)

enum mark { FREE, CHOSEN, CROSSED };

static i64 original[MOST][MOST], cost[MOST][MOST];
static u16 mark[MOST][MOST];
static u16 row_line[MOST], column_line[MOST];
static u64 n;

static AX_NOINLINE void reduce(void)
{
    for (u64 i = 0; i < n; i++) {
        i64 least = NOT_COVERED;
        for (u64 j = 0; j < n; j++)
            if (cost[i][j] < least) least = cost[i][j];
        for (u64 j = 0; j < n; j++) cost[i][j] -= least;
    }
    for (u64 j = 0; j < n; j++) {
        i64 least = NOT_COVERED;
        for (u64 i = 0; i < n; i++)
            if (cost[i][j] < least) least = cost[i][j];
        if (least)
            for (u64 i = 0; i < n; i++) cost[i][j] -= least;
    }
}

/* Chooses zeros that are alone in their row or column until none is left, then any free ones;
 * returns how many rows have a choice. */
static AX_NOINLINE u64 choose(void)
{
    u64 total = 0, found, at = 0;
    for (u64 i = 0; i < n; i++)
        for (u64 j = 0; j < n; j++) mark[i][j] = FREE;
    do {
        found = 0;
        for (u64 i = 0; i < n; i++) {
            u64 zeros = 0;
            for (u64 j = 0; j < n; j++)
                if (cost[i][j] == 0 && mark[i][j] == FREE) zeros++, at = j;
            if (zeros != 1) continue;
            found++;
            mark[i][at] = CHOSEN;
            for (u64 k = 0; k < n; k++)
                if (k != i && cost[k][at] == 0) mark[k][at] = CROSSED;
        }
        for (u64 j = 0; j < n; j++) {
            u64 zeros = 0;
            for (u64 i = 0; i < n; i++)
                if (cost[i][j] == 0 && mark[i][j] == FREE) zeros++, at = i;
            if (zeros != 1) continue;
            found++;
            mark[at][j] = CHOSEN;
            for (u64 k = 0; k < n; k++)
                if (k != j && cost[at][k] == 0) mark[at][k] = CROSSED;
        }
        total += found;
    } while (found);
    if (total == n) return total;
    for (u64 i = 0; i < n; i++) {
        for (u64 j = 0; j < n; j++) {
            if (cost[i][j] != 0 || mark[i][j] != FREE) continue;
            mark[i][j] = CHOSEN;
            total++;
            for (u64 k = 0; k < n; k++)
                if (k != j && cost[i][k] == 0) mark[i][k] = CROSSED;
            for (u64 k = 0; k < n; k++)
                if (k != i && cost[k][j] == 0) mark[k][j] = CROSSED;
            break;
        }
    }
    return total;
}

/* Draws the lines that cover all zeros and shifts the smallest uncovered cost. */
static AX_NOINLINE void shift(void)
{
    u64 added;
    for (u64 i = 0; i < n; i++) {
        row_line[i] = 1;
        column_line[i] = 0;
        for (u64 j = 0; j < n; j++)
            if (mark[i][j] == CHOSEN) row_line[i] = 0;
    }
    do {
        added = 0;
        for (u64 i = 0; i < n; i++) {
            if (!row_line[i]) continue;
            for (u64 j = 0; j < n; j++)
                if (cost[i][j] == 0) column_line[j] = 1;
        }
        for (u64 j = 0; j < n; j++) {
            if (!column_line[j]) continue;
            for (u64 i = 0; i < n; i++)
                if (mark[i][j] == CHOSEN && !row_line[i]) row_line[i] = 1, added++;
        }
    } while (added);
    i64 least = NOT_COVERED;
    for (u64 i = 0; i < n; i++) {
        if (!row_line[i]) continue;
        for (u64 j = 0; j < n; j++)
            if (!column_line[j] && cost[i][j] < least) least = cost[i][j];
    }
    for (u64 i = 0; i < n; i++) {
        if (!row_line[i]) continue;
        for (u64 j = 0; j < n; j++)
            if (!column_line[j]) cost[i][j] -= least;
    }
    for (u64 i = 0; i < n; i++) {
        if (row_line[i]) continue;
        for (u64 j = 0; j < n; j++)
            if (column_line[j]) cost[i][j] += least;
    }
}

static void prepare(u64 size)
{
    struct ax_rng rng = { 10101 };
    n = size;
    for (u64 i = 0; i < n; i++)
        for (u64 j = 0; j < n; j++) original[i][j] = (i64)ax_below(&rng, 5000000);
}

static void restore(void) { ax_memcpy(cost, original, sizeof cost); }

static void run(void)
{
    reduce();
    while (choose() != n) shift();
}

/* A permutation is required; its total cost is part of the checksum. */
static u64 check(void)
{
    u64 hash = n;
    i64 total = 0;
    u8 taken[MOST] = { 0 };
    for (u64 i = 0; i < n; i++) {
        u64 chosen = n;
        for (u64 j = 0; j < n; j++)
            if (mark[i][j] == CHOSEN) chosen = j;
        if (chosen == n || taken[chosen]) return i;
        taken[chosen] = 1;
        total += original[i][chosen];
        hash = ax_mix(hash, chosen);
    }
    return ax_mix(hash, (u64)total);
}

static u64 work(void) { return 1; }

const struct lab_row lab_rows[] = {
    { "assignment", "iterations", 101, 2, MOST, prepare, restore, run, check, work },
};
const u64 lab_row_count = 1;
