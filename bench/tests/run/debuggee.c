/* What bench/tests/gdb.rs debugs: calls, a thread, a signal, a loop without an end, a fault. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int counter;
double half = 0.5;
volatile int spinning = 1;
volatile int finish;

__attribute__((noinline)) int add(int a, int b)
{
    counter += a;
    return a + b;
}

static void on_signal(int signal)
{
    counter += 1000;
}

__attribute__((noinline)) void in_thread(void)
{
    counter += 10;
}

static void *thread(void *argument)
{
    in_thread();
    while (!finish)
        ;
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t other;
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 3; i++)
        add(i, 2 * i);
    raise(SIGUSR1);
    printf("counter %d\n", counter);
    fflush(stdout);
    pthread_create(&other, 0, thread, 0);
    while (spinning)
        ;
    finish = 1;
    pthread_join(other, 0);
    if (fork() == 0) {
        add(1, 1);
        _exit(0);
    }
    if (argc > 1)
        *(volatile int *)16 = 1;
    return 7;
}
