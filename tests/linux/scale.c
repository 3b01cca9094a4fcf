// The same demands in numbers: small ones, or with AXP_SCALE=full those that a fault of one in a million
// shows up in. Atomic increments of eight threads, a timer into a hot loop, traps, signals sent to a thread
// that is about to wait.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static long increments = 10000, ticks = 200, trapped = 2000, pairs = 2000;

static volatile long count;

static void on_signal(int s) {
    count++;
}

static long quadwords;
static int longwords;

static void *increment(void *x) {
    for (long i = 0; i < increments; i++) {
        __sync_fetch_and_add(&quadwords, 1);
        __sync_fetch_and_add(&longwords, 1);
    }
    return 0;
}

static void threads(void) {
    pthread_t t[8];
    for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, increment, 0);
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
    printf("increments lost: %ld %ld\n", 8 * increments - quadwords, 8 * increments - longwords);
}

// Integer and floating-point registers that depend on each other; memory traffic, a call in the loop.
__attribute__((noinline)) static long step(long x) {
    return x * 3 + 1;
}

static long hot_loop(void) {
    unsigned long a = 1, b = 2, c = 3, d = 4, e = 5, table[16] = {0};
    double x = 1, y = 2;
    for (int i = 0; i < 20000; i++) {
        a = step(a);
        b += a;
        c ^= b;
        d = d * 5 + c;
        e = (e << 7 | e >> 57) + table[d & 15];
        table[c & 15] += e ^ d;
        x = x * 1.5 + y;
        y = y + 0.25;
        if (x > 1e100) x = 1;
    }
    unsigned long bits;
    memcpy(&bits, &x, 8);
    return a ^ b ^ c ^ d ^ e ^ bits;
}

static void timer(void) {
    struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_signal);
    long expected = hot_loop(), wrong = 0;
    count = 0;
    setitimer(ITIMER_REAL, &every, 0);
    while (count < ticks) wrong += hot_loop() != expected;
    setitimer(ITIMER_REAL, &never, 0);
    printf("loops with wrong registers: %ld\n", wrong);
}

static void traps(void) {
    signal(SIGFPE, on_signal);
    count = 0;
    long wrong = 0;
    for (long i = 0; i < trapped; i++) {
        int big = 0x7fffffff - (i & 7), sum;
        asm volatile("addl/v %1, %1, %0\n\ttrapb" : "=r"(sum) : "r"(big));
        wrong += sum != (int)(2u * big);
    }
    printf("traps lost: %ld, wrong sums: %ld\n", trapped - count, wrong);
}

static volatile int done;

static void on_wake(int s) {
}

static void *killer(void *thread) {
    for (long i = 0; i < pairs; i++) {
        long before = count;
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
        while (count == before) {
        }
    }
    // The last signal may have come before the last pause.
    while (!done) {
        pthread_kill(*(pthread_t *)thread, SIGUSR2);
        usleep(1000);
    }
    return 0;
}

static void kill_and_pause(void) {
    pthread_t self = pthread_self(), other;
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_wake);
    count = 0;
    pthread_create(&other, 0, killer, &self);
    while (count < pairs) pause();
    done = 1;
    pthread_join(other, 0);
    printf("signals too many: %ld\n", count - pairs);
}

int main() {
    const char *scale = getenv("AXP_SCALE");
    if (scale && !strcmp(scale, "full")) {
        increments = 1000000, ticks = 10000, trapped = 100000, pairs = 100000;
    }
    threads();
    timer();
    traps();
    kill_and_pause();
    return 0;
}
