// Programs that go wrong: each child does one bad thing; the parent sees what Linux makes of it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int deep(int n) {
    volatile char room[256];
    room[0] = n;
    return n == 0 ? 0 : deep(n - 1) + room[0];
}

static void on_overflow(int s, siginfo_t *info, void *context) {
    _exit(s == SIGSEGV && info->si_code == SEGV_MAPERR ? 21 : 1);
}

static void *forker(void *unused) {
    pid_t child = fork();
    if (child == 0) exit(33);
    int status;
    waitpid(child, &status, 0);
    return (void *)(long)status;
}

static void *killer(void *unused) {
    raise(SIGABRT);
    return 0;
}

static int data[2] = {0x47ff041f, 0x6bfa8001}; // nop; ret

static void run(const char *name, int what) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        void *result;
        close(2);
        switch (what) {
        case 0: *(volatile int *)0 = 1; break;
        case 1: ((void (*)(void))0x7fffff0)(); break;
        case 2: ((void (*)(void))0xfffffc0000000000)(); break;
        case 3: ((void (*)(void))data)(); break;
        case 4: deep(1000000); break;
        case 5: {
            stack_t alt = {.ss_sp = malloc(65536), .ss_size = 65536};
            struct sigaction act = {.sa_sigaction = on_overflow, .sa_flags = SA_SIGINFO | SA_ONSTACK};
            sigaltstack(&alt, 0);
            sigaction(SIGSEGV, &act, 0);
            deep(1000000);
            break;
        }
        case 6: *(volatile char *)0x4000000000000 = 1; break;
        case 7: {
            char *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(p, 8192);
            *p = 1;
            break;
        }
        case 8: {
            int fd = open("short", O_RDWR | O_CREAT | O_TRUNC, 0600);
            char *p = mmap(0, 16384, PROT_READ, MAP_PRIVATE, fd, 0);
            exit(p[8192]);
        }
        case 9: {
            unsigned long total = 0;
            while (mmap(0, 1ul << 34, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED)
                total++;
            exit(errno == ENOMEM && total > 10 && malloc(1) ? 12 : 1);
        }
        case 10: close(0); close(1); exit(getchar() == EOF ? 13 : 1);
        case 11: {
            int fd = open("/dev/full", O_WRONLY);
            exit(write(fd, "x", 1) == -1 && errno == ENOSPC ? 14 : 1);
        }
        case 12: {
            int fds[2];
            pipe(fds);
            close(fds[0]);
            write(fds[1], "x", 1);
            break;
        }
        case 13:
            pthread_create(&thread, 0, forker, 0);
            pthread_join(thread, &result);
            exit(result == (void *)0x2100 ? 15 : 1);
        case 14:
            pthread_create(&thread, 0, killer, 0);
            for (;;) pause();
        case 15: {
            sigset_t all;
            sigfillset(&all);
            sigprocmask(SIG_BLOCK, &all, 0);
            *(volatile int *)0 = 1;
            break;
        }
        case 16: {
            unsigned long *sp;
            asm volatile("mov $30, %0" : "=r"(sp));
            asm volatile("mov %0, $30\n\tstq $31, 0($30)" : : "r"(8ul) : "memory");
            break;
        }
        case 17: signal(SIGUSR1, (void (*)(int))0x10); raise(SIGUSR1); break;
        }
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%s: %x\n", name, status & 0xff7f);
}

int main() {
    static const char *names[] = {"store to 0", "wild jump", "jump to kernel", "run data",
        "deep recursion", "overflow handled", "beyond window", "unmapped", "behind file end",
        "no memory", "closed stdin", "disk full", "broken pipe", "fork in thread",
        "thread aborts", "blocked fault", "bad stack", "bad handler"};
    for (int i = 0; i < 18; i++) run(names[i], i);
    return 0;
}
