// Threads: mutexes, conditions, TLS, atomics, robust lists, cancellation, exit of the process.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <semaphore.h>
#include <errno.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/wait.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cv = PTHREAD_COND_INITIALIZER;
static long n, a;
static int ready;
static __thread int tls = 5;
static void*f(void*x) {
    tls += (long)x;
    for (int i = 0; i<20000; i++) {
        pthread_mutex_lock(&m);
        n++;
        pthread_mutex_unlock(&m);
        __sync_fetch_and_add(&a, 1);
    }
    pthread_mutex_lock(&m);
    ready++;
    pthread_cond_signal(&cv);
    pthread_mutex_unlock(&m);
    return(void*)(long)tls;
}
static void*dead(void*x) {
    pthread_mutex_lock(x);
    return 0;
}
static void*sleeper(void*x) {
    for (; ; )pause();
}
// Adds with LDQ_L and STQ_C: code that is hot while nobody else can write, and then not.
__attribute__((noinline)) static void add(long*at, int times) {
    for (int i = 0; i<times; i++)__sync_fetch_and_add(at, 1);
}
static void processes(void) {
    long*sum = mmap(0, 8192, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    add(sum, 300000);
    if (!child)_exit(0);
    waitpid(child, 0, 0);
    printf("shared %ld\n", *sum);
}
int main() {
    pthread_t t[8];
    long own = 0;
    add(&own, 50000);
    printf("own %ld\n", own);
    fflush(stdout);
    processes();
    for (long i = 0; i<8; i++)pthread_create(&t[i], 0, f, (void*)i);
    pthread_mutex_lock(&m);
    while (ready<8)pthread_cond_wait(&cv, &m);
    pthread_mutex_unlock(&m);
    long s = 0;
    for (int i = 0; i<8; i++) {
        void*r;
        pthread_join(t[i], &r);
        s += (long)r;
    }
    printf("%ld %ld %ld %d\n", n, a, s, tls);
    pthread_mutexattr_t ma;
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_setrobust(&ma, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_t rm;
    pthread_mutex_init(&rm, &ma);
    pthread_create(&t[0], 0, dead, &rm);
    pthread_join(t[0], 0);
    int r = pthread_mutex_lock(&rm);
    printf("robust %d %d\n", r, r == EOWNERDEAD);
    pthread_mutex_consistent(&rm);
    pthread_mutex_unlock(&rm);
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_nsec += 10000000;
    if (ts.tv_nsec >= 1000000000) {
        ts.tv_sec++;
        ts.tv_nsec -= 1000000000;
    }
    sem_t se;
    sem_init(&se, 0, 0);
    r = sem_timedwait(&se, &ts);
    printf("timed %d %d\n", r, errno == ETIMEDOUT);
    pthread_create(&t[1], 0, sleeper, 0);
    usleep(1000);
    pthread_cancel(t[1]);
    void*res;
    pthread_join(t[1], &res);
    printf("cancel %d\n", res == PTHREAD_CANCELED);
    pthread_create(&t[1], 0, sleeper, 0);
    fflush(stdout);
    return 9;
}
