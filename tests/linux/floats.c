// Floating point where emulators differ from the manual: FPCR's image, CVTTQ's corners, denormals under
// each qualifier; and the cycle counter against the clock.
#include <signal.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
typedef unsigned long u64;

static u64 mf(void) {
    double d;
    u64 bits;
    asm volatile("excb\n\tmf_fpcr %0\n\texcb" : "=f"(d));
    memcpy(&bits, &d, 8);
    return bits;
}

static void mt(u64 bits) {
    double d;
    memcpy(&d, &bits, 8);
    asm volatile("excb\n\tmt_fpcr %0\n\texcb" : : "f"(d));
}

static double from(u64 bits) {
    double d;
    memcpy(&d, &bits, 8);
    return d;
}

static u64 to(double d) {
    u64 bits;
    memcpy(&bits, &d, 8);
    return bits;
}

static sigjmp_buf back;

static void trapped(int s) {
    siglongjmp(back, 1);
}

#define START 0x680e800000000000ul

// AARM 4.7.8: bits 46:0 read as zero, SUM is the OR of 57:52 whatever was written.
static void image(void) {
    mt(~0ul);
    printf("all ones: %lx\n", mf());
    mt(1ul << 63);
    printf("only SUM: %lx\n", mf());
    mt(~(0x3ful << 52));
    printf("all but the status: %lx\n", mf());
    for (int bit = 47; bit < 64; bit++) {
        mt(1ul << bit);
        printf("%d: %lx\n", bit, mf());
    }
    mt(START);
}

#define CONVERT(insn) do { \
    for (int i = 0; i < sizeof in / sizeof *in; i++) { \
        double result = from(77); \
        mt(START); \
        if (!sigsetjmp(back, 1)) { \
            asm volatile(insn " %1,%0\n\ttrapb" : "+&f"(result) : "f"(in[i])); \
            printf(insn " %g: %lx %lx\n", in[i], to(result), mf() & ~START); \
        } else { \
            printf(insn " %g: trap\n", in[i]); \
        } \
    } } while (0)

static void conversions(void) {
    double in[] = {0x1p63, -0x1p63, 0x1p64, 0x1.cccp64, 1.5, -2.5, from(0x7ff0000000000000),
                   from(0x7ff8000000000001), from(0x7ff0000000000001)};
    CONVERT("cvttq/svic");
    CONVERT("cvttq/svc");
    CONVERT("cvttq/svi");
    CONVERT("cvttq/sv");
    for (int mode = 0; mode < 4; mode++) {
        double half[] = {2.5, -2.5}, result;
        for (int i = 0; i < 2; i++) {
            mt(START & ~(3ul << 58) | (u64)mode << 58);
            asm volatile("cvttq/svd %1,%0\n\ttrapb" : "=f"(result) : "f"(half[i]));
            printf("rounding %d: %ld\n", mode, (long)to(result));
        }
    }
    mt(START);
}

#define DENORMAL(insn, x, y) do { \
    double result = 0; \
    u64 flags = 0; \
    if (!sigsetjmp(back, 1)) { \
        asm volatile(insn " %1,%2,%0\n\ttrapb" : "=&f"(result) : "f"(x), "f"(y)); \
        printf(insn ": %lx %lx\n", to(result), mf() & 0x3ful << 52); \
    } else { \
        printf(insn ": trap\n"); \
    } } while (0)

static void denormals(void) {
    volatile double small = from(0x10000000000000), tiny = from(1), half = 0.5, one = 1;
    u64 modes[] = {START, START | 1ul << 48, START | 1ul << 60};
    for (int i = 0; i < 3; i++) {
        printf("mode %lx\n", modes[i]);
        mt(modes[i]);
        DENORMAL("mult", small, half);
        mt(modes[i]);
        DENORMAL("mult/su", small, half);
        mt(modes[i]);
        DENORMAL("mult/su", -small, half);
        mt(modes[i]);
        DENORMAL("addt/su", tiny, tiny);
        mt(modes[i]);
        DENORMAL("addt/su", tiny, one);
    }
    mt(START);
    DENORMAL("addt", tiny, one);
    mt(START);
}

// Cycles per microsecond of the clock.
static double rate(long microseconds) {
    struct timespec a, b;
    u64 start, end, total = 0;
    long passed;
    clock_gettime(CLOCK_MONOTONIC, &a);
    asm volatile("rpcc %0" : "=r"(start));
    do {
        asm volatile("rpcc %0" : "=r"(end));
        total += (unsigned)(end - start);
        start = end;
        clock_gettime(CLOCK_MONOTONIC, &b);
        passed = (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000;
    } while (passed < microseconds);
    return (double)total / passed;
}

int main() {
    signal(SIGFPE, trapped);
    image();
    conversions();
    denormals();
    // The counter keeps one pace, whatever runs; a window may be spoilt by another process.
    int same = 0;
    for (int i = 0; i < 50 && !same; i++) {
        double shorter = rate(5000), longer = rate(20000);
        same = shorter > longer * 0.9 && shorter < longer * 1.1;
    }
    printf("pace: %d\n", same);
    return 0;
}
