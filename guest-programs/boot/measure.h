/* What `axplab bench --booted` times: work in a booted system, each kind followed by a line with its name and, in
   hexadecimal, how much of it there was and what came of it. Whoever reads the lines has the clock. */

enum { EXECVE = 59 };

static char *hexadecimal(char *at, u64 value)
{
    *at++ = ' ';
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[value >> shift & 15];
    return at;
}

static void tell(const char *name, u64 count, u64 result)
{
    char line[96], *at = line;
    for (const char *word = "bench: "; *word;)
        *at++ = *word++;
    while (*name)
        *at++ = *name++;
    at = hexadecimal(hexadecimal(at, count), result);
    *at++ = '\n';
    call(WRITE, 1, (s64)line, at - line, 0, 0, 0);
}

static void integers(u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++)
        sum += i ^ sum >> 3;
    tell("int", n, sum);
    u64 x = 88172645463325252;
    for (u64 i = 0; i < n / 4; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    tell("xorshift", n / 4, x);
}

static void floating(u64 n)
{
    volatile double factor = 0.999999, more = 1.25;
    union {
        double value;
        u64 bits;
    } x = {1.0};
    double a = factor, b = more;
    for (u64 i = 0; i < n; i++)
        x.value = x.value * a + b;
    tell("fp", n, x.bits);
}

static void loads_and_stores(u64 rounds)
{
    static volatile u64 words[8192];
    for (u64 round = 0; round < rounds; round++)
        for (u64 i = 0; i < 8192; i++)
            words[i] = words[i] + i + round;
    u64 sum = 0;
    for (u64 i = 0; i < 8192; i++)
        sum += words[i] * (i | 1);
    tell("memory", rounds * 8192, sum);
}

static void kernel_calls(u64 n)
{
    s64 pid = 0;
    for (u64 i = 0; i < n; i++)
        pid = call(GETXPID, 0, 0, 0, 0, 0, 0);
    tell("syscalls", n, pid);
}

static void page_faults(u64 n)
{
    volatile char *at = (volatile char *)call(MMAP, 0, n * 8192, 3, 0x12, -1, 0);
    u64 sum = 0;
    for (u64 i = 0; i < n; i++) {
        at[i * 8192] = 1;
        sum += at[i * 8192];
    }
    tell("faults", n, sum);
}

/* Two processes that wait for each other by pipes: two switches a round. */
static void switches(u64 rounds)
{
    s64 in = call(PIPE, 0, 0, 0, 0, 0, 0), out = second;
    s64 back_in = call(PIPE, 0, 0, 0, 0, 0, 0), back = second;
    char token = 1;
    call(FORK, 0, 0, 0, 0, 0, 0);
    if (second) {
        for (u64 i = 0; i < rounds; i++) {
            call(READ, in, (s64)&token, 1, 0, 0, 0);
            call(WRITE, back, (s64)&token, 1, 0, 0, 0);
        }
        call(EXIT, 0, 0, 0, 0, 0, 0);
    }
    u64 got = 0;
    for (u64 i = 0; i < rounds; i++) {
        call(WRITE, out, (s64)&token, 1, 0, 0, 0);
        got += call(READ, back_in, (s64)&token, 1, 0, 0, 0);
    }
    call(WAIT4, -1, 0, 0, 0, 0, 0);
    tell("switches", 2 * rounds, got);
}

/* A process that becomes this program again, which ends at once. */
static void programs(u64 n)
{
    static char *const words[] = {"/init", "leave", 0};
    u64 right = 0;
    for (u64 i = 0; i < n; i++) {
        call(FORK, 0, 0, 0, 0, 0, 0);
        if (second) {
            call(EXECVE, (s64)words[0], (s64)words, 0, 0, 0, 0);
            call(EXIT, 1, 0, 0, 0, 0, 0);
        }
        int status = -1;
        call(WAIT4, -1, (s64)&status, 0, 0, 0, 0);
        right += status == 7 << 8;
    }
    tell("programs", n, right);
}

static void measure(void)
{
    s64 three[2] = {3, 0};
    tell("begin", 0, 0);
    integers(160000000);
    floating(16000000);
    loads_and_stores(2000);
    kernel_calls(200000);
    page_faults(4000);
    switches(10000);
    programs(300);
    /* What a translator does aside for the work before comes to its end. */
    call(NANOSLEEP, (s64)three, 0, 0, 0, 0, 0);
    tell("settled", 0, 0);
    call(NANOSLEEP, (s64)three, 0, 0, 0, 0, 0);
    tell("idle", 3, 0);
}
