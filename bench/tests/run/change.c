/* Threads run a loop at one address whose code changes between rounds, by stores and IMB, by another mapping
   in its place, and in a forked child: each must see the code of its round. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 12, TIMES = 3000 };

static uint32_t *code;
static pthread_barrier_t start, end;
static int wrong;

/* long f(long n): adds `step` n times. */
static void make(int step)
{
    uint32_t words[] = {
        0x47ff0400,                          /* clr v0 */
        0x40001400 | (uint32_t)step << 13,   /* addq v0,step,v0 */
        0x42003530,                          /* subq a0,1,a0 */
        0xf61ffffd,                          /* bgt a0,-3 */
        0x6bfa8001,                          /* ret */
    };
    memcpy(code, words, sizeof words);
    __asm__ volatile("imb" ::: "memory");
}

static long call(long n)
{
    return ((long (*)(long))code)(n);
}

static int step_of(int round)
{
    /* Some come again. */
    return 1 + round % 5;
}

static void *work(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&start);
        __asm__ volatile("imb" ::: "memory");
        for (int i = 0; i < 60; i++)
            if (call(TIMES) != (long)TIMES * step_of(round))
                __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&end);
    }
    return unused;
}

static void *map(void *at)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0);
    return mmap(at, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0);
}

int main(void)
{
    pthread_t ids[THREADS];
    code = map(0);
    if (code == MAP_FAILED)
        return 2;
    pthread_barrier_init(&start, 0, THREADS + 1);
    pthread_barrier_init(&end, 0, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&ids[i], 0, work, 0))
            return 3;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 3 == 2 && (munmap(code, 8192) || map(code) == MAP_FAILED))
            return 4;
        make(step_of(round));
        pthread_barrier_wait(&start);
        pid_t child = -1;
        if (round % 4 == 1) {
            child = fork();
            if (child == 0) {
                long sum = 0;
                for (int step = 1; step < 6; step++) {
                    make(step);
                    for (int i = 0; i < 60; i++)
                        sum += call(TIMES) != (long)TIMES * step;
                }
                _exit(sum != 0);
            }
        }
        pthread_barrier_wait(&end);
        int status = 0;
        if (child > 0 && (waitpid(child, &status, 0) != child || status))
            wrong++;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], 0);
    puts(wrong ? "wrong" : "right");
    return wrong != 0;
}
