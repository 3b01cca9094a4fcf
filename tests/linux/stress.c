// Signals in numbers: sent to a thread that is about to wait, and by a timer into a hot loop whose
// registers must stay consistent; traps at every turn; many forks.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long count;
static volatile int done;

static void on_signal(int s) {
    count++;
}

static void on_wake(int s) {
}

static void *killer(void *thread) {
    for (int i = 0; i < 10000; i++) {
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
    pthread_create(&other, 0, killer, &self);
    while (count < 10000) pause();
    done = 1;
    pthread_join(other, 0);
    printf("signals %ld\n", count);
}

// All registers carry values that depend on each other; a lost or foreign one shows.
static long hot_loop(void) {
    unsigned long a = 1, b = 2, c = 3, d = 4;
    double x = 1, y = 2;
    for (int i = 0; i < 20000; i++) {
        a = a * 3 + 1;
        b += a;
        c ^= b;
        d = d * 5 + c;
        x = x * 1.5 + y;
        y = y + 0.25;
        if (x > 1e100) x = 1;
    }
    unsigned long bits;
    memcpy(&bits, &x, 8);
    return a ^ b ^ c ^ d ^ bits;
}

static void timer_in_loop(void) {
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_signal);
    long expected = hot_loop();
    count = 0;
    int wrong = 0;
    setitimer(ITIMER_REAL, &every, 0);
    while (count < 1000) wrong += hot_loop() != expected;
    setitimer(ITIMER_REAL, &never, 0);
    printf("wrong %d\n", wrong);
}

static void traps(void) {
    signal(SIGFPE, on_signal);
    count = 0;
    for (int i = 0; i < 100000; i++) {
        int big = 0x7fffffff, sum;
        asm volatile("addl/v %1, %1, %0\n\ttrapb" : "=r"(sum) : "r"(big));
    }
    printf("traps %ld\n", count);
}

static volatile int flag;
static volatile int other_flag;

static void on_flag(int s) {
    flag = 1;
}

static void *set_flag(void *x) {
    usleep(10000);
    other_flag = 1;
    return 0;
}

// Loops that only load, of what has been loaded before: by a signal and by another thread.
static void spins(void) {
    struct itimerval soon = {{0, 0}, {0, 10000}};
    pthread_t other;
    signal(SIGALRM, on_flag);
    setitimer(ITIMER_REAL, &soon, 0);
    int before = flag;
    while (flag == before) {
    }
    pthread_create(&other, 0, set_flag, 0);
    before = other_flag;
    while (other_flag == before) {
    }
    pthread_join(other, 0);
    printf("spins %d %d\n", flag, other_flag);
}

static void forks(void) {
    int right = 0;
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        int status;
        if (child == 0) _exit(i);
        waitpid(child, &status, 0);
        right += WEXITSTATUS(status) == i;
    }
    printf("forks %d\n", right);
}

int main() {
    kill_and_pause();
    timer_in_loop();
    traps();
    spins();
    forks();
    return 0;
}
