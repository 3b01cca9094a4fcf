/* Row pi-40000: PI to 40 000 decimal digits by the spigot of Rabinowitz and Wagon.
 *
 * Four digits a round from a mixed-radix expansion that shrinks by 14 places each round, with
 * one quotient and remainder per place: the work is integer division. SIZE is the number of
 * digits, a multiple of four. Time grows with its square.
 */
#include "lab.h"

#define MOST 100000
#define BASE 10000

static u32 place[MOST / 4 * 14 + 14];
static u16 group[MOST / 4 + 1];
static u64 groups;

static void prepare(u64 size) { groups = size / 4; }

static void run(void)
{
    u64 places = groups * 14, held = 0;
    for (u64 i = 0; i < places; i++) place[i] = BASE / 5;
    for (u64 done = 0; done < groups; done++, places -= 14) {
        u64 value = 0;
        for (u64 i = places - 1;; i--) {
            u64 radix = 2 * i + 1;
            value += (u64)place[i] * BASE;
            if (i == 0) break;
            u64 quotient = value / radix;
            place[i] = (u32)(value - quotient * radix);
            value = quotient * i;
        }
        group[done] = (u16)(held + value / BASE);
        held = value % BASE;
        place[0] = 0;
    }
}

static u64 check(void)
{
    u64 hash = groups;
    /* A group may come out as 10000 or more: the spigot leaves carries to its reader. */
    for (u64 i = groups; i-- > 1;) {
        if (group[i] < BASE) continue;
        group[i] -= BASE;
        group[i - 1]++;
    }
    for (u64 i = 0; i < groups; i++) hash = ax_mix(hash, group[i]);
    return hash;
}

static u64 work(void) { return groups * 4; }

const struct lab_row lab_rows[] = {
    { "pi-40000", "digits", 40000, 4, MOST, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
