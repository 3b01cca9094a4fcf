/* Command line, timing and report of every kernel: PROG [ROW [REPS [SIZE]]].
 *
 * Prints one AXPLAB1 line; exit 0, 1 for results that differ between repetitions, 2 for bad
 * arguments. Only `run` is timed, by CLOCK_MONOTONIC around each repetition.
 */
#include "lab.h"

static char line[512];
static u64 used;

static void put(const char *s)
{
    while (*s && used < sizeof line - 1) line[used++] = *s++;
}

/* Decimal without division by a variable: guests have no divide instruction, but constants
 * become multiplications. */
static void put_decimal(u64 value, int digits)
{
    char text[24];
    int n = 0;
    do {
        text[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value || n < digits);
    while (n && used < sizeof line - 1) line[used++] = text[--n];
}

static void put_hex(u64 value)
{
    for (int shift = 60; shift >= 0; shift -= 4) {
        char digit[2] = { "0123456789abcdef"[(value >> shift) & 15], 0 };
        put(digit);
    }
}

static int flush(int fd)
{
    u64 done = 0;
    while (done < used) {
        i64 n = ax_write(fd, line + done, used - done);
        if (n <= 0) return 1;
        done += (u64)n;
    }
    used = 0;
    return 0;
}

static int refuse(const char *what, const char *argument)
{
    put("axplab kernel: ");
    put(what);
    put(" '");
    put(argument);
    put("'; usage: PROG [ROW [REPS [SIZE]]], ROW one of");
    for (u64 i = 0; i < lab_row_count; i++) {
        put(" ");
        put(lab_rows[i].name);
    }
    put("\n");
    flush(2);
    return 2;
}

static int parse(const char *s, u64 *out)
{
    u64 value = 0;
    if (!*s) return 0;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || value > 1000000000000000ul) return 0;
        value = value * 10 + (u64)(*s - '0');
    }
    *out = value;
    return 1;
}

int main(int argc, char **argv)
{
    const struct lab_row *row = &lab_rows[0];
    u64 reps = 1, spent = 0, first = 0;
    int same = 1;

    if (argc > 1) {
        row = 0;
        for (u64 i = 0; i < lab_row_count; i++)
            if (!ax_strcmp(argv[1], lab_rows[i].name)) row = &lab_rows[i];
        if (!row) return refuse("unknown row", argv[1]);
    }
    if (argc > 2 && (!parse(argv[2], &reps) || reps == 0))
        return refuse("bad number of repetitions", argv[2]);
    u64 size = row->size;
    if (argc > 3 && (!parse(argv[3], &size) || size < row->least || size > row->most))
        return refuse("size out of range", argv[3]);
    if (argc > 4) return refuse("unexpected argument", argv[4]);

    row->prepare(size);
    for (u64 rep = 0; rep < reps && same; rep++) {
        if (row->restore) row->restore();
        u64 start = ax_now();
        row->run();
        spent += ax_now() - start;
        u64 sum = row->check();
        if (rep == 0) first = sum;
        same = sum == first;
    }

    put("AXPLAB1 row=");
    put(row->name);
    put(" size=");
    put_decimal(size, 1);
    put(" reps=");
    put_decimal(reps, 1);
    put(" work=");
    put_decimal(row->work() * reps, 1);
    put(" unit=");
    put(row->unit);
    put(" seconds=");
    put_decimal(spent / 1000000000, 1);
    put(".");
    put_decimal(spent % 1000000000, 9);
    put(" checksum=");
    if (same) put_hex(first);
    else put("mismatch");
    put("\n");
    return flush(1) || !same;
}
