// Signals: both frames, registers changed by a handler, masks, restart, deaths seen by wait.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <unistd.h>
#include <errno.h>
#include <ucontext.h>
#include <sys/time.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <setjmp.h>
#include <stdint.h>
static volatile int got;
static siginfo_t last;
static void h(int s, siginfo_t*i, void*u) {
    got = s;
    last = *i;
}
static void old(int s) {
    got = s+1000;
}
static sigjmp_buf jb;
static void segv(int s, siginfo_t*i, void*u) {
    last = *i;
    siglongjmp(jb, 1);
}
static volatile char *skip_at;
static void fix(int s, siginfo_t*i, void*uv) {
    ucontext_t*u = uv;
    last = *i;
    u->uc_mcontext.sc_pc += 4;
    u->uc_mcontext.sc_regs[1] = 0x1234;
    u->uc_mcontext.sc_fpregs[10] = 0;
}
int main() {
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_sigaction = h;
    sa.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &sa, 0);
    sigaction(SIGALRM, &sa, 0);
    sigaction(SIGCHLD, &sa, 0);
    raise(SIGUSR1);
    printf("usr1 %d %d %d\n", got, last.si_signo, last.si_code);
    kill(getpid(), SIGUSR1);
    printf("kill %d %d %d\n", got, last.si_code, last.si_pid == getpid());
    signal(SIGUSR2, old);
    raise(SIGUSR2);
    printf("old %d\n", got);
    // frame regs: load to $1 faults, handler sets $1 and skips
    sa.sa_sigaction = fix;
    sigaction(SIGSEGV, &sa, 0);
    register long r1 asm("$1");
    asm volatile("lda $2,64($31)\n\tldq $1,0($2)":"=r"(r1)::"$2","memory");
    printf("fix %lx %d %d %p\n", r1, last.si_signo, last.si_code, last.si_addr);
    sa.sa_sigaction = segv;
    sigaction(SIGSEGV, &sa, 0);
    sigaction(SIGBUS, &sa, 0);
    char*p = mmap(0, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    if (!sigsetjmp(jb, 1)) {
        *p = 1;
    }
    printf("acc %d %d %d\n", last.si_signo, last.si_code, (char*)last.si_addr == p);
    mprotect(p, 8192, PROT_READ|PROT_WRITE);
    *p = 5;
    printf("ok %d\n", *p);
    if (!sigsetjmp(jb, 1)) {
        ((void(*)(void))0x5000000)();
    }
    printf("jump %d %d %p\n", last.si_signo, last.si_code, last.si_addr);
    // altstack
    stack_t ss = {0};
    ss.ss_size = 16384;
    ss.ss_sp = malloc(16384);
    sigaltstack(&ss, 0);
    sa.sa_flags = SA_SIGINFO|SA_ONSTACK;
    sa.sa_sigaction = h;
    sigaction(SIGUSR1, &sa, 0);
    raise(SIGUSR1);
    sigaltstack(0, &ss);
    printf("alt %d\n", ss.ss_flags);
    // alarm & pause; it repeats, for it may ring before the call that is to be interrupted
    struct itimerval it = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &it, 0);
    int r = pause();
    printf("pause %d %d %d\n", r, errno, got);
    // busy loop hit by the timer
    got = 0;
    setitimer(ITIMER_REAL, &it, 0);
    while (got != SIGALRM);
    setitimer(ITIMER_REAL, &never, 0);
    printf("loop %d\n", got);
    // blocked, pending, sigsuspend
    sigset_t s, o;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, &o);
    got = 0;
    raise(SIGUSR1);
    sigset_t pe;
    sigpending(&pe);
    printf("pend %d got %d\n", sigismember(&pe, SIGUSR1), got);
    sigsuspend(&o);
    printf("susp %d\n", got);
    sigprocmask(SIG_SETMASK, 0, &pe);
    printf("mask %d\n", sigismember(&pe, SIGUSR1));
    got = 0;
    kill(getpid(), SIGUSR1);
    usleep(1000);
    sigpending(&pe);
    printf("process %d got %d\n", sigismember(&pe, SIGUSR1), got);
    sigprocmask(SIG_SETMASK, &o, 0);
    // The test's runner has a thread that may have taken the signal and hands it back when it gets to run.
    for (int i = 0; i < 1000 && !got; i++)
        usleep(1000);
    printf("unblocked got %d\n", got);
    sigprocmask(SIG_BLOCK, &s, 0);
    raise(SIGUSR1);
    siginfo_t si;
    r = sigwaitinfo(&s, &si);
    printf("wait %d %d\n", r, si.si_code);
    sigprocmask(SIG_SETMASK, &o, 0);
    // restart
    int fd[2];
    pipe(fd);
    sa.sa_flags = SA_SIGINFO|SA_RESTART;
    sigaction(SIGALRM, &sa, 0);
    sigaction(SIGCHLD, &sa, 0);
    pid_t c = fork();
    if (!c) {
        usleep(60000);
        write(fd[1],"x", 1);
        _exit(5);
    }
    got = 0;
    setitimer(ITIMER_REAL, &it, 0);
    char b;
    r = read(fd[0], &b, 1);
    setitimer(ITIMER_REAL, &never, 0);
    printf("restart %d %c %d\n", r, b, got == SIGALRM || got == SIGCHLD);
    int st;
    while (waitpid(c, &st, 0)<0);
    printf("status %x\n", st);
    sa.sa_flags = SA_SIGINFO;
    sigaction(SIGALRM, &sa, 0);
    setitimer(ITIMER_REAL, &it, 0);
    r = read(fd[0], &b, 1);
    printf("eintr %d %d\n", r, errno);
    setitimer(ITIMER_REAL, &never, 0);
    for (int i = 0; i<4; i++) {
        int sg[] = {SIGUSR1, SIGKILL, SIGABRT, SIGSEGV};
        signal(sg[i], SIG_DFL);
        c = fork();
        if (!c) {
            raise(sg[i]);
            _exit(1);
        }
        while (waitpid(c, &st, 0)<0);
        printf("died %x\n", st&0x7f);
    }
    c = fork();
    if (!c) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile int*)0 = 0;
    }
    while (waitpid(c, &st, 0)<0);
    printf("segv %x\n", st&0x7f);
    // rt queue
    sa.sa_sigaction = h;
    sigaction(SIGRTMIN+1, &sa, 0);
    union sigval sv = {.sival_int = 77};
    sigqueue(getpid(), SIGRTMIN+1, sv);
    printf("rt %d %d\n", last.si_value.sival_int, last.si_code);
    return 0;
}
