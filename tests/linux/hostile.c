// Guests that mean harm: each child attacks its own surroundings; the parent sees what Linux makes of it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define IMB asm volatile("call_pal 0x86" ::: "memory")
#define RET 0x6bfa8001
static const unsigned long end = 1ul << 42;

static unsigned lda(int value) {
    return 0x201f0000 | value; // lda v0,value(zero)
}

static void *map_at(unsigned long at, unsigned long size, int prot) {
    return mmap((void *)at, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
}

static long hot(int turns) {
    unsigned long a = 1;
    for (int i = 0; i < turns; i++) a = a * 6364136223846793005 + (a >> 7);
    return a;
}

static volatile int seen, depth;
static volatile unsigned long seen_at, seen_pc;

static void count(int s) {
    seen++;
}

static void nested(int s) {
    seen++;
    if (depth < 200) {
        depth++;
        raise(s);
        depth--;
    }
}

static void exits(int s, siginfo_t *info, void *context) {
    seen_at = (unsigned long)info->si_addr;
    _exit(100 + s);
}

static void handle(int s, void *handler, int flags) {
    struct sigaction act = {.sa_sigaction = handler, .sa_flags = flags};
    sigaction(s, &act, 0);
}

static void *spin(void *unused) {
    for (;;) hot(1000);
}

static void *work(void *unused) {
    return (void *)hot(100000);
}

static unsigned *shared_code;

static void *rewriter(void *unused) {
    for (int i = 0; i < 20000; i++) {
        shared_code[0] = lda(i & 1 ? 11 : 22);
        IMB;
    }
    seen = 1;
    return 0;
}

static void *exit_soon(void *unused) {
    usleep(3000);
    exit(37);
}

static int limit(int resource, unsigned long value) {
    struct rlimit limit = {value, value};
    return setrlimit(resource, &limit);
}

// Child processes and threads that translate code must work whatever was taken away.
static int still_works(void) {
    pthread_t thread;
    void *result;
    int status;
    long expected = hot(100000);
    pid_t child = fork();
    if (child == 0) _exit(hot(100000) == expected ? 5 : 6);
    if (waitpid(child, &status, 0) != child || status != 0x500) return 0;
    if (pthread_create(&thread, 0, work, 0) || pthread_join(thread, &result)) return 0;
    return (long)result == expected;
}

static void bad_frame(unsigned long at, int rt) {
    register unsigned long v0 asm("$0") = rt ? 351 : 103;
    register unsigned long a0 asm("$16") = at;
    asm volatile("call_pal 0x83" : "+r"(v0) : "r"(a0) : "$19", "memory");
}

static int case_number;
#define CASE if (what == case_number++)

static void attack(int what) {
    pthread_t thread;
    case_number = 0;
    close(2);
    CASE { // handlers in handlers, from a timer and by hand
        struct itimerval often = {{0, 30}, {0, 30}}, never = {{0, 0}, {0, 0}};
        handle(SIGALRM, count, SA_NODEFER);
        handle(SIGUSR1, nested, SA_NODEFER);
        setitimer(ITIMER_REAL, &often, 0);
        for (int i = 0; i < 20; i++) raise(SIGUSR1);
        while (seen < 5000) hot(100);
        setitimer(ITIMER_REAL, &never, 0);
        exit(1);
    }
    CASE { // a handler that overflows the alternate stack
        stack_t alt = {.ss_sp = map_at(0, 16384, 3), .ss_size = 16384};
        munmap((char *)alt.ss_sp - 8192, 8192);
        sigaltstack(&alt, 0);
        depth = -100000000;
        handle(SIGUSR1, nested, SA_NODEFER | SA_ONSTACK);
        raise(SIGUSR1);
        exit(0);
    }
    CASE bad_frame(0, 1);
    CASE bad_frame(end - 8, 1);
    CASE bad_frame(-8ul, 0);
    CASE bad_frame(0x7f0000000000, 0);
    CASE { // garbage as a frame: the pc is where nothing is
        char *page = map_at(0, 8192, 3);
        memset(page, 0xff, 8192);
        handle(SIGSEGV, exits, SA_SIGINFO);
        bad_frame((unsigned long)page, 0);
    }
    CASE { // a misaligned frame
        char *page = map_at(0, 8192, 3);
        bad_frame((unsigned long)page + 3, 1);
    }
    CASE { // the stack is gone when a signal comes
        unsigned long sp;
        asm volatile("mov $30, %0" : "=r"(sp));
        handle(SIGUSR1, count, 0);
        unsigned long from = (sp & ~8191ul) - 65536;
        syscall(SYS_mprotect, from, 0x120000000 - from, PROT_NONE);
        syscall(SYS_kill, getpid(), SIGUSR1);
    }
    CASE { // the same with another stack for the handler
        unsigned long sp;
        stack_t alt = {.ss_sp = malloc(65536), .ss_size = 65536};
        sigaltstack(&alt, 0);
        asm volatile("mov $30, %0" : "=r"(sp));
        handle(SIGSEGV, exits, SA_SIGINFO | SA_ONSTACK);
        unsigned long from = (sp & ~8191ul) - 65536;
        syscall(SYS_munmap, from, 0x120000000 - from);
        hot(1);
        *(volatile long *)(sp - 8) = 1;
    }
    CASE { // code in the window's last page runs over its end
        unsigned *last = map_at(end - 8192, 8192, 7);
        handle(SIGSEGV, exits, SA_SIGINFO);
        last[2046] = last[2047] = 0x47ff041f;
        IMB;
        ((void (*)(void))(last + 2046))();
    }
    CASE { // code on the lowest page, hot
        unsigned *low = map_at(0x10000, 8192, 7);
        long sum = 0;
        if (low == MAP_FAILED) exit(9);
        low[0] = lda(3);
        low[1] = RET;
        IMB;
        for (int i = 0; i < 3000; i++) sum += ((long (*)(void))low)();
        exit(sum == 9000 ? 2 : 3);
    }
    CASE { // code with two names, written by the other
        int fd = memfd_create("code", 0);
        ftruncate(fd, 8192);
        unsigned *w = mmap(0, 8192, 3, MAP_SHARED, fd, 0);
        unsigned *x = mmap(0, 8192, 5, MAP_SHARED, fd, 0);
        long sum = 0;
        for (int i = 0; i < 500; i++) {
            w[0] = lda(i);
            w[1] = RET;
            IMB;
            for (int k = 0; k < 20; k++) sum += ((long (*)(void))x)();
        }
        exit(sum == 20l * 500 * 499 / 2 ? 3 : 4);
    }
    CASE { // jumps with the low bits set go to the instruction
        unsigned *x = map_at(0, 8192, 7);
        long sum = 0;
        x[0] = lda(7);
        x[1] = RET;
        IMB;
        for (int i = 0; i < 3000; i++) sum += ((long (*)(void))((char *)x + (i & 3)))();
        exit(sum == 21000 ? 4 : 5);
    }
    CASE { // rewritten by another thread while it runs
        shared_code = map_at(0, 8192, 7);
        shared_code[0] = lda(11);
        shared_code[1] = RET;
        IMB;
        pthread_create(&thread, 0, rewriter, 0);
        long wrong = 0, turn = 0;
        while (!seen) {
            long v = ((long (*)(void))shared_code)();
            wrong += v != 11 && v != 22;
            if ((turn++ & 63) == 0) IMB;
        }
        pthread_join(thread, 0);
        exit(wrong ? 6 : 5);
    }
    CASE { // the page is taken away by another thread while it loops
        shared_code = map_at(0, 8192, 7);
        shared_code[0] = 0xc3ffffff; // br .
        IMB;
        handle(SIGSEGV, exits, SA_SIGINFO);
        if (fork() == 0) _exit(0);
        struct itimerval soon = {{0, 0}, {0, 3000}};
        handle(SIGALRM, 0, 0);
        // The handler itself unmaps what it returns to.
        extern void unmap_code(int);
        handle(SIGALRM, unmap_code, 0);
        setitimer(ITIMER_REAL, &soon, 0);
        ((void (*)(void))shared_code)();
    }
    CASE { // eight threads loop, one exits
        for (int i = 0; i < 8; i++) pthread_create(&thread, 0, spin, 0);
        pthread_create(&thread, 0, exit_soon, 0);
        for (;;) hot(1000);
    }
    CASE { // files may not grow
        int fd = open("limited", O_RDWR | O_CREAT | O_TRUNC, 0600);
        char block[8192] = {0};
        limit(RLIMIT_FSIZE, 4096);
        handle(SIGXFSZ, (void *)1, 0);
        long n = write(fd, block, 8192), m = write(fd, block, 1);
        exit(n == 4096 && m == -1 && errno == EFBIG && still_works() ? 6 : 7);
    }
    CASE { // the same without a handler
        int fd = open("limited", O_RDWR | O_CREAT | O_TRUNC, 0600);
        limit(RLIMIT_FSIZE, 10);
        pwrite(fd, "x", 1, 10);
        exit(0);
    }
    CASE { // no descriptors left
        limit(RLIMIT_NOFILE, 8);
        while (dup(0) >= 0);
        int full = errno == EMFILE;
        exit(full && open("/proc/self/maps", 0) == -1 && errno == EMFILE && still_works() ? 7 : 8);
    }
    CASE { // every descriptor closed, then taken over
        for (int fd = 0; fd < 1024; fd++) close(fd);
        syscall(546, 0, ~0u, 0);
        int works = still_works(), first = open("first", O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (int fd = 1; fd < 300; fd++) dup2(first, fd);
        works &= still_works();
        exit(works && first == 0 && lseek(first, 0, SEEK_END) == 0 ? 8 : 9);
    }
    CASE { // no more threads of execution on the host
        limit(RLIMIT_NPROC, 0);
        long expected = hot(50000);
        exit(hot(50000) == expected ? 9 : 10);
    }
    CASE { // little address space
        void *big = 0;
        limit(RLIMIT_AS, 64 << 20);
        big = mmap(0, 100 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int refused = big == MAP_FAILED && errno == ENOMEM;
        int n = 0;
        while (n < 10000 && malloc(1 << 20)) n++;
        exit(refused && n > 10 && n < 64 ? 10 : 11);
    }
    CASE { // little data
        limit(RLIMIT_DATA, 16 << 20);
        long more = syscall(SYS_brk, syscall(SYS_brk, 0) + (32 << 20));
        int no_brk = more == -1 && errno == ENOMEM;
        void *private = mmap(0, 32 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        void *readable = mmap(0, 32 << 20, 1, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        exit(no_brk && private == MAP_FAILED && readable != MAP_FAILED ? 11 : 12);
    }
    CASE { // all signals blocked, and the fault and the emulator's among them
        unsigned long all = ~0ul;
        syscall(SYS_rt_sigprocmask, 3, &all, 0, 8);
        // 32 and 33 are the library's, which opens its mask for them.
        for (int s = 1; s <= 64; s++)
            if (s != SIGKILL && s != SIGSTOP && s != 32 && s != 33) syscall(SYS_tgkill, getpid(), getpid(), s);
        int works = still_works();
        exit(works ? 12 : 13);
    }
    CASE { // stopped and continued from within
        pid_t child = fork();
        if (child == 0) {
            usleep(20000);
            kill(getppid(), SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
        exit(13);
    }
    CASE { // too many mappings
        long n = 0;
        while (n < 200000 && mmap((void *)(0x300000000 + n * 16384), 8192, n & 1 ? 1 : 3,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) n++;
        int full = n < 200000 && errno == ENOMEM;
        exit(full ? 14 : 15);
    }
    CASE { // a robust list and a join word that lead outside
        unsigned long head[3] = {0x7f0000000000, 0, 0x7f0000000008};
        syscall(SYS_set_robust_list, head, 24);
        syscall(SYS_set_tid_address, 0x7f0000000000);
        syscall(SYS_exit, 15);
    }
    CASE { // unaligned accesses over the window's end, forward and back
        char *last = map_at(end - 8192, 8192, 3);
        handle(SIGSEGV, exits, SA_SIGINFO);
        long sum = 0;
        for (int i = 0; i < 2000; i++) sum += *(volatile long *)(last + 8184);
        *(volatile long *)(last + 8188) = sum;
    }
    exit(99);
}

void unmap_code(int s) {
    munmap(shared_code, 8192);
}

int main() {
    for (int what = 0; what < 29; what++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) attack(what);
        waitpid(child, &status, 0);
        printf("%d: %x\n", what, status & 0xff7f);
    }
    return 0;
}
