/* The contract between a kernel and the driver in lab.c: a kernel defines lab_rows and lab_row_count.
 *
 * A repetition is restore (untimed), run (timed), check (untimed). Every repetition must
 * compute the same result; the driver compares each checksum with the first.
 */
#ifndef AX_LAB_H
#define AX_LAB_H

/* Big arrays start at a cache line, guest and native alike: otherwise placement is luck. */
#define AX_LINE __attribute__((aligned(64)))

#include "mini.h"

struct lab_row {
    const char *name;
    /* Printed after the last repetition; ` name=value` fields that a row adds may follow it. */
    const char *unit;
    u64 size;                   /* the published size, the default */
    u64 least, most;            /* sizes accepted */
    void (*prepare)(u64 size);  /* once, untimed */
    void (*restore)(void);      /* before each repetition, untimed; may be 0 */
    void (*run)(void);          /* the timed work */
    u64 (*check)(void);         /* checksum of the result, untimed */
    u64 (*work)(void);          /* units of work in one repetition, constant */
};

extern const struct lab_row lab_rows[];
extern const u64 lab_row_count;

#endif
