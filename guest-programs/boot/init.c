/* The first program of the kernel's own test: makes the kernel work - processes, pipes, page
   faults, copies on write, unaligned data, floating point - checks what comes of it, and powers off.
   Freestanding; run by tests of `axplab boot`. NEVER run it but in a machine of its own: it ends in
   reboot(). */

typedef unsigned long u64;
typedef long s64;

enum { EXIT = 1, FORK = 2, READ = 3, WRITE = 4, GETXPID = 20, PIPE = 42, MMAP = 71, REBOOT = 311, YIELD = 334, NANOSLEEP = 340,
       WAIT4 = 365 };

static s64 second; /* what a call returns in $20 */

static s64 call(s64 number, s64 a, s64 b, s64 c, s64 d, s64 e, s64 f)
{
    register s64 v0 __asm__("$0") = number;
    register s64 a0 __asm__("$16") = a;
    register s64 a1 __asm__("$17") = b;
    register s64 a2 __asm__("$18") = c;
    register s64 a3 __asm__("$19") = d;
    register s64 a4 __asm__("$20") = e;
    register s64 a5 __asm__("$21") = f;
    __asm__ volatile("callsys"
                     : "+r"(v0), "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3), "+r"(a4), "+r"(a5)
                     :
                     : "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$22", "$23", "$24", "$25",
                       "$27", "$28", "memory");
    second = a4;
    return a3 ? -v0 : v0;
}

static void say(const char *text)
{
    u64 length = 0;
    while (text[length])
        length++;
    call(WRITE, 1, (s64)text, length, 0, 0, 0);
}

static void finish(void)
{
    call(REBOOT, 0xfee1dead, 672274793, 0x4321fedc, 0, 0, 0);
    for (;;)
        ;
}

static void check(int right, const char *what)
{
    if (right)
        return;
    say("init: wrong: ");
    say(what);
    say("\n");
    finish();
}

/* Children that count down through a pipe; their exit statuses come back. */
static void processes(void)
{
    s64 in = call(PIPE, 0, 0, 0, 0, 0, 0), out = second;
    static volatile s64 shared = 5;
    for (s64 i = 0; i < 20; i++) {
        s64 pid = call(FORK, 0, 0, 0, 0, 0, 0);
        if (second) { /* the child */
            shared = i;
            call(WRITE, out, (s64)&shared, 8, 0, 0, 0);
            call(EXIT, i, 0, 0, 0, 0, 0);
        }
        s64 got = -1;
        int status = 0;
        check(pid > 0, "fork");
        check(call(READ, in, (s64)&got, 8, 0, 0, 0) == 8 && got == i, "pipe");
        check(call(WAIT4, pid, (s64)&status, 0, 0, 0, 0) == pid && status == i << 8, "wait4");
        check(shared == 5, "a page that was written by another process");
    }
}

static void memory(void)
{
    /* Read, write; private, anonymous: 0x12. */
    char *at = (char *)call(MMAP, 0, 4096 * 1024, 3, 0x12, -1, 0);
    u64 sum = 0;
    for (u64 i = 0; i < 512; i++)
        at[i * 8192 + i] = (char)i;
    for (u64 i = 0; i < 512; i++)
        sum += (u64)(unsigned char)at[i * 8192 + i] + (u64)at[i * 8192 + i + 1];
    check(sum == 2 * 255 * 128, "pages");
    /* The kernel puts unaligned data together. */
    *(volatile u64 *)(at + 64) = 0x1122334455667788;
    *(volatile u64 *)(at + 72) = 0x99;
    check(*(volatile u64 *)(at + 65) == 0x9911223344556677, "unaligned load");
    *(volatile unsigned *)(at + 131) = 0xabcdef01;
    check(at[131] == 1 && (unsigned char)at[134] == 0xab, "unaligned store");
}

static void arithmetic(void)
{
    volatile double third = 3.0;
    double sum = 0;
    for (int i = 0; i < 1000; i++) {
        sum += i / third;
        /* Another process uses the registers in between. */
        if (i % 100 == 0) {
            s64 pid = call(FORK, 0, 0, 0, 0, 0, 0);
            if (second) {
                volatile double other = 1.5;
                call(EXIT, (s64)(other * 2), 0, 0, 0, 0, 0);
            }
            call(WAIT4, pid, 0, 0, 0, 0, 0);
        }
    }
    check(sum > 166499.99 && sum < 166500.01, "floating point");
}

static void calls(void)
{
    s64 pid = call(GETXPID, 0, 0, 0, 0, 0, 0);
    for (int i = 0; i < 20000; i++)
        check(call(GETXPID, 0, 0, 0, 0, 0, 0) == pid, "getxpid");
}

__asm__(".globl _start\n"
        ".ent _start\n"
        "_start: br $27, 1f\n"
        "1: ldgp $29, 0($27)\n"
        "   mov $30, $16\n"
        "   jsr $26, begin\n"
        ".end _start\n");

/* Says again what is typed, a line. */
static void echo(void)
{
    char line[80];
    s64 length = call(READ, 0, (s64)line, sizeof line, 0, 0, 0);
    say("init: read ");
    call(WRITE, 1, (s64)line, length, 0, 0, 0);
}

/* Adds by LDQ_L and STQ_C. */
static void add(volatile u64 *at, u64 n)
{
    u64 value, done;
    __asm__ volatile("1: ldq_l %0,%2\n   addq %0,%3,%0\n   mov %0,%1\n   stq_c %1,%2\n   beq %1,1b"
                     : "=&r"(value), "=&r"(done), "+m"(*at)
                     : "r"(n)
                     : "memory");
}

#define MB __asm__ volatile("mb" ::: "memory")

enum { WORKERS = 4, ROUNDS = 200000, PASSES = 20000 };

/* What the workers share, a quadword in a block of memory of its own each. */
struct shared {
    volatile u64 sum[8], turn[8], inside[8], clashes[8], data[8], flag[8], ready[WORKERS][8], wants[2][8];
};

/* Several processes at a time, on as many processors as there are: sums by locked stores, data behind a flag,
   and two that keep each other out by stores and loads with a barrier between (Peterson's way). */
static void parallel(void)
{
    /* Shared, anonymous: 0x11. */
    struct shared *s = (struct shared *)call(MMAP, 0, 8192, 3, 0x11, -1, 0);
    for (u64 me = 0; me < WORKERS; me++) {
        call(FORK, 0, 0, 0, 0, 0, 0);
        if (!second)
            continue;
        for (u64 i = 0; i < ROUNDS; i++)
            add(&s->sum[0], me + 1);
        if (me < 2) {
            for (u64 i = 0; i < PASSES; i++) {
                s->wants[me][0] = 1;
                s->turn[0] = !me;
                MB;
                for (u64 n = 0; s->wants[!me][0] && s->turn[0] == !me; n++)
                    if (n % 1000 == 999)
                        call(YIELD, 0, 0, 0, 0, 0, 0);
                MB;
                s->clashes[0] += s->inside[0]++ != 0;
                s->data[1]++;
                s->inside[0]--;
                MB;
                s->wants[me][0] = 0;
            }
        } else if (me == 2) {
            for (u64 i = 1; i <= PASSES; i++) {
                s->data[0] = i * 3;
                MB;
                s->flag[0] = i;
                for (u64 n = 0; s->ready[3][0] != i; n++)
                    if (n % 1000 == 999)
                        call(YIELD, 0, 0, 0, 0, 0, 0);
            }
        } else {
            for (u64 i = 1; i <= PASSES; i++) {
                for (u64 n = 0; s->flag[0] != i; n++)
                    if (n % 1000 == 999)
                        call(YIELD, 0, 0, 0, 0, 0, 0);
                MB;
                s->clashes[1] += s->data[0] != i * 3;
                s->ready[3][0] = i;
            }
        }
        call(EXIT, 0, 0, 0, 0, 0, 0);
    }
    for (u64 me = 0; me < WORKERS; me++)
        call(WAIT4, -1, 0, 0, 0, 0, 0);
    check(s->sum[0] == ROUNDS * (1 + 2 + 3 + 4), "a sum of four");
    check(s->data[1] == 2 * PASSES && s->clashes[0] == 0, "mutual exclusion");
    check(s->data[0] == 3 * PASSES && s->clashes[1] == 0, "data behind a flag");
    say("init: four agree\n");
}

#include "measure.h"

/* What the kernel does not know of its command line comes as arguments: `echo`, `sleep` for three seconds,
   `parallel`, `bench`; `leave` is what a process of `bench` begins with. */
void begin(const s64 *stack)
{
    if (stack[0] == 2 && ((const char *)stack[2])[0] == 'l')
        call(EXIT, 7, 0, 0, 0, 0, 0);
    say("init: started\n");
    for (s64 i = 1; i < stack[0]; i++) {
        const char *word = (const char *)stack[1 + i];
        s64 three[2] = {3, 0};
        if (word[0] == 'e' && word[1] == 'c')
            echo();
        if (word[0] == 's' && word[1] == 'l')
            call(NANOSLEEP, (s64)three, 0, 0, 0, 0, 0);
        if (word[0] == 'p' && word[1] == 'a')
            parallel();
        if (word[0] == 'b' && word[1] == 'e')
            measure();
    }
    calls();
    memory();
    processes();
    arithmetic();
    say("init: all is well\n");
    finish();
}
