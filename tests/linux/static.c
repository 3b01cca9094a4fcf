// No library: the start-up stack, registers at entry, write, brk, mmap, clock_gettime, exit.
#include "raw.h"

static long call(long n, long a, long b, long c, long d, long e, long f) {
    long error;
    long result = raw6(n, a, b, c, d, e, f, &error, 0);
    return error ? -result : result;
}

static void text(const char *s) {
    long n = 0;
    while (s[n]) n++;
    call(4, 1, (long)s, n, 0, 0, 0);
}

static void number(const char *name, unsigned long value) {
    char out[24];
    int at = 23;
    out[at] = 0;
    out[--at] = '\n';
    do {
        out[--at] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value);
    text(name);
    text(" ");
    text(out + at);
}

void run(unsigned long *sp) {
    number("sp mod 16", (unsigned long)sp & 15);
    number("sp below text", (unsigned long)sp < 0x120000000ul);
    number("argc", sp[0]);
    for (unsigned long i = 0; i < sp[0]; i++) text((char *)sp[1 + i]), text("\n");
    unsigned long *at = sp + 1 + sp[0];
    number("argv end", *at++);
    while (*at) at++;
    at++;
    for (; at[0]; at += 2) {
        if (at[0] == 6) number("AT_PAGESZ", at[1]);
        if (at[0] == 16) number("AT_HWCAP", at[1]);
        if (at[0] == 17) number("AT_CLKTCK", at[1]);
        if (at[0] == 15) text("AT_PLATFORM "), text((char *)at[1]), text("\n");
        if (at[0] == 4) number("AT_PHENT", at[1]);
        if (at[0] == 34) number("AT_L1I", at[1]);
    }
    long brk = call(17, 0, 0, 0, 0, 0, 0);
    number("brk", call(17, brk + 8192, 0, 0, 0, 0, 0) - brk);
    *(long *)brk = 5;
    long map = call(71, 0, 8192, 3, 0x12, -1, 0);
    number("mmap", map);
    *(long *)map = 6;
    number("munmap", call(73, map, 8192, 0, 0, 0, 0));
    long time[2] = {0, -1};
    number("clock", call(420, 1, (long)time, 0, 0, 0, 0));
    number("nanoseconds", time[1] >= 0 && time[1] < 1000000000);
    call(405, 42, 0, 0, 0, 0, 0);
}

asm(".globl _start\n.ent _start\n_start:\n\tbr $27, 1f\n1:\tldgp $29, 0($27)\n\tmov $30, $16\n"
    "\tlda $27, run\n\tjsr $26, ($27)\n\thalt\n.end _start");
