// What only several threads show: LDx_L and STx_C against a store of another thread, neighbouring bytes,
// code that one thread changes and another executes, thread pointers, the stack's alignment; and a
// computed jump over a thousand targets.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long turn, word;

static void await(long n) {
    while (turn != n) sched_yield();
}

static void go(long n) {
    __sync_synchronize();
    turn = n;
}

static void *storer(void *x) {
    for (long i = 0; i < 200; i++) {
        await(2 * i + 1);
        word = -i - 1;
        go(2 * i + 2);
    }
    return 0;
}

// Another thread's plain store between LDQ_L and STQ_C: the store of the condition has to fail. A
// fault-free path between the two has no guarantee on hardware, but that it may fail, so this holds there.
static void store_between(void) {
    pthread_t other;
    int stored = 0, kept = 0;
    pthread_create(&other, 0, storer, 0);
    for (long i = 0; i < 200; i++) {
        long seen, ok = 12345;
        word = i;
        asm volatile("ldq_l %0,%1" : "=r"(seen) : "m"(word) : "memory");
        go(2 * i + 1);
        await(2 * i + 2);
        asm volatile("stq_c %0,%1" : "+r"(ok), "+m"(word) : : "memory");
        stored += ok != 0;
        kept += word == -i - 1;
    }
    pthread_join(other, 0);
    printf("between: stored %d kept %d\n", stored, kept);
}

static volatile char bytes[16] __attribute__((aligned(16)));
static volatile short words[8] __attribute__((aligned(16)));

static void *neighbour(void *x) {
    long me = (long)x;
    for (int i = 0; i < 30000; i++) {
        bytes[me]++;
        words[me]++;
    }
    return 0;
}

// Bytes and words of one quadword belong to different threads.
static void neighbours(void) {
    pthread_t t[8];
    int wrong = 0;
    for (long i = 0; i < 8; i++) pthread_create(&t[i], 0, neighbour, (void *)i);
    for (int i = 0; i < 8; i++) {
        pthread_join(t[i], 0);
        wrong += bytes[i] != (char)30000 || words[i] != 30000;
    }
    printf("neighbours: wrong %d\n", wrong);
}

static unsigned *code;
static volatile long version, stop;

#define IMB asm volatile("call_pal 0x86" : : : "memory")

static void set(int value) {
    code[0] = 0x201f0000 | value; // lda v0,value(zero)
    code[1] = 0x6bfa8001;         // ret
}

static void *patcher(void *x) {
    for (int i = 1; i <= 200; i++) {
        await(2 * i - 1);
        set(i);
        go(2 * i);
    }
    return 0;
}

// One thread stores instructions, the other, after an IMB of its own, executes the new ones.
static void changed_by_another(void) {
    pthread_t other;
    int wrong = 0;
    code = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    set(0);
    IMB;
    turn = 0;
    pthread_create(&other, 0, patcher, 0);
    long (*f)(void) = (void *)code;
    for (int i = 1; i <= 200; i++) {
        for (int k = 0; k < 100; k++) wrong += f() != i - 1;
        go(2 * i - 1);
        await(2 * i);
        IMB;
        wrong += f() != i;
    }
    pthread_join(other, 0);
    printf("changed: wrong %d\n", wrong);
}

static long pointers[8], misaligned;
static pthread_barrier_t barrier;

#define SP ({ long sp_; asm volatile("mov $30,%0" : "=r"(sp_)); sp_; })

static void *whoami(void *x) {
    register long v0 asm("$0");
    asm volatile("call_pal 0x9e" : "=r"(v0));
    pointers[(long)x] = v0;
    misaligned += (SP & 15) != 0;
    pthread_barrier_wait(&barrier);
    return 0;
}

static void handler(int s) {
    misaligned += (SP & 15) != 0;
}

static void thread_pointers(void) {
    pthread_t t[8];
    int same = 0;
    pthread_barrier_init(&barrier, 0, 8);
    for (long i = 0; i < 8; i++) pthread_create(&t[i], 0, whoami, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < i; k++) same += pointers[i] == pointers[k];
    }
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    printf("thread pointers: same %d, stacks misaligned %ld\n", same, misaligned);
}

// vfork: the child is told by a second result of one, and the parent goes on when it has ended.
static void children(void) {
    for (int number = 2; number <= 66; number += 64) {
        register long v0 asm("$0") = number, a3 asm("$19"), a4 asm("$20");
        asm volatile("callsys"
                     : "+r"(v0), "=r"(a3), "=r"(a4)
                     :
                     : "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$16", "$17", "$18", "$21", "$22",
                       "$23", "$24", "$25", "$27", "$28", "memory");
        long pid = v0, error = a3, child = a4;
        if (child) _exit(pid == 0 && error == 0 ? child + 20 : 1);
        int status;
        waitpid(pid, &status, 0);
        printf("child of call %d: second result %ld, status %d\n", number, child, WEXITSTATUS(status));
    }
}

// 1000 targets of one computed jump: each adds its own number.
static void targets(void) {
    enum { N = 1000 };
    unsigned *at = mmap(0, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < N; i++) {
        at[2 * i] = 0x20100000 | i; // lda v0,i(a0)
        at[2 * i + 1] = 0x6bfa8001; // ret
    }
    IMB;
    long sum = 0;
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < N; i++) {
            long (*f)(long) = (void *)(at + 2 * (i * 7 % N));
            sum += f(round);
        }
    }
    printf("targets: %ld\n", sum);
}

int main() {
    misaligned += (SP & 15) != 0;
    store_between();
    neighbours();
    changed_by_another();
    thread_pointers();
    fflush(stdout);
    children();
    targets();
    return 0;
}
