// Traps: SIGFPE codes and completion by SWCR, GENTRAP, unaligned data, get/setsysinfo.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <setjmp.h>
#include <ucontext.h>
#include <unistd.h>
#include <stdint.h>
#include <fenv.h>
#include <sys/syscall.h>
#include <sys/prctl.h>
typedef unsigned long u64;
static sigjmp_buf jb;
static siginfo_t last;
static u64 pc, ta0;
static void h(int s, siginfo_t*i, void*uv) {
    ucontext_t*u = uv;
    last = *i;
    pc = u->uc_mcontext.sc_pc;
    ta0 = u->uc_mcontext.sc_traparg_a0;
    siglongjmp(jb, 1);
}
static long raw(long n, long a, long b, long c, long d, long e, long*err) {
    register long v0 asm("$0") = n, a0 asm("$16") = a, a1 asm("$17") = b, a2 asm("$18") = c, a3 asm("$19") = d, a4 asm("$20") = e;
    asm volatile("callsys":"+r"(v0),"+r"(a3),"+r"(a4):"r"(a0),"r"(a1),"r"(a2):"$1","$2","$3","$4","$5","$6","$7","$8","$21","$22","$23","$24","$25","$27","$28","memory");
    *err = a3;
    return v0;
}
static u64 mf(void) {
    double d;
    u64 r;
    asm volatile("excb\n\tmf_fpcr %0\n\texcb":"=f"(d));
    memcpy(&r, &d, 8);
    return r;
}
static void mt(u64 r) {
    double d;
    memcpy(&d, &r, 8);
    asm volatile("excb\n\tmt_fpcr %0\n\texcb"::"f"(d));
}
static void set(u64 s) {
    long e;
    raw(257, 14, (long)&s, 8, 0, 0, &e);
}
static u64 get(void) {
    u64 s = 0;
    long e;
    raw(256, 45, (long)&s, 8, 0, 0, &e);
    return s;
}
#define T(name,insn,x,y) do{double a=x,b=y,r=-1;last.si_signo=0;if(!sigsetjmp(jb,1)){asm volatile(insn " %1,%2,%0\n\ttrapb":"=&f"(r):"f"(a),"f"(b));}\
 printf("%-12s sig %d code %d summ %lx r %g swcr %lx fpcr %lx\n", name, last.si_signo, last.si_signo?last.si_code:0, last.si_signo?ta0:0, last.si_signo?0.0:r, get(), mf()); }while (0)
int main() {
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_sigaction = h;
    sa.sa_flags = SA_SIGINFO;
    sigaction(SIGFPE, &sa, 0);
    sigaction(SIGTRAP, &sa, 0);
    sigaction(SIGILL, &sa, 0);
    sigaction(SIGBUS, &sa, 0);
    printf("init %lx %lx\n", mf(), get());
    volatile double z = 0, one = 1, big = 1e308, tiny = 1e-308, m1 = -1;
    set(0);
    T("div/su", "divt/su", one, z);
    T("inv/su", "divt/su", z, z);
    T("ovf/su", "mult/su", big, big);
    T("unf/su", "mult/su", tiny, tiny);
    T("ine/sui", "divt/sui", one, 3.0);
    u64 en[] = {2, 4, 8, 16, 32, 0x7e};
    for (int i = 0; i<6; i++) {
        set(en[i]);
        printf("set %lx get %lx fpcr %lx\n", en[i], get(), mf());
        T("div/su", "divt/su", one, z);
        T("inv/su", "divt/su", z, z);
        T("ovf/su", "mult/su", big, big);
        T("unf/su", "mult/su", tiny, tiny);
        T("ine/sui", "divt/sui", one, 3.0);
    }
    set(0);
    T("div", "divt", one, z);
    T("inv", "divt", z, z);
    T("ovf", "mult", big, big);
    set(0);
    mt(mf()&~(1UL<<49|1UL<<50));
    T("div/su-fpcr", "divt/su", one, z);
    set(0);
    long r, e;
    if (!sigsetjmp(jb, 1)) {
        long a = 0x7fffffffffffffff, b = 1, c;
        asm volatile("addq/v %1,%2,%0\n\ttrapb":"=r"(c):"r"(a),"r"(b));
    }
    printf("addq/v %d %d %d\n", last.si_signo, last.si_code, last.si_addr == (void*)pc);
    int codes[] = {-1, -2, -3, -4, -5, -6, -7, -8, -11, -18, 5};
    for (int i = 0; i<11; i++) {
        if (!sigsetjmp(jb, 1)) {
            register long a0 asm("$16") = codes[i];
            asm volatile("call_pal 0xaa"::"r"(a0));
        }
        printf("gentrap %d: %d %d\n", codes[i], last.si_signo, last.si_code);
    }
    if (!sigsetjmp(jb, 1))asm volatile("call_pal 0x80");
    printf("bpt %d %d\n", last.si_signo, last.si_code);
    if (!sigsetjmp(jb, 1))asm volatile("call_pal 0x81");
    printf("bugchk %d %d\n", last.si_signo, last.si_code);
    if (!sigsetjmp(jb, 1))asm volatile("call_pal 0");
    printf("halt %d %d %d\n", last.si_signo, last.si_code, last.si_addr == (void*)pc);
    if (!sigsetjmp(jb, 1))asm volatile(".long 0x1c000000");
    printf("ill %d %d %d\n", last.si_signo, last.si_code, last.si_addr == (void*)pc);
    asm volatile("call_pal 0xae");
    T("clrfen", "addt/su", one, one);
    long q[2] = {0, 0};
    if (!sigsetjmp(jb, 1))asm volatile("ldq_l %0,1(%1)":"=r"(r):"r"(q));
    printf("ldq_l %d %d %ld\n", last.si_signo, last.si_code, (long)last.si_addr-(long)q);
    *(char*)q = 1;
    q[1] = 2;
    asm volatile("ldq %0,1(%1)":"=r"(r):"r"(q));
    printf("ldq %lx\n", r);
    prctl(PR_SET_UNALIGN, 2);
    last.si_signo = 0;
    if (!sigsetjmp(jb, 1))asm volatile("ldq %0,1(%1)":"=r"(r):"r"(q));
    printf("ldq sigbus %d %d\n", last.si_signo, last.si_code);
    prctl(PR_SET_UNALIGN, 0);
    unsigned nv[2] = {6, 2};
    r = raw(257, 1, (long)nv, 1, 0, 0, &e);
    printf("nvpairs %ld %ld\n", r, e);
    unsigned uac = 9;
    r = raw(256, 8, (long)&uac, 4, 0, 0, &e);
    printf("uac %ld %ld %u\n", r, e, uac);
    r = 77;
    asm volatile("ldq %0,1(%1)":"+r"(r):"r"(q));
    printf("nofix %ld\n", r);
    nv[1] = 0;
    raw(257, 1, (long)nv, 1, 0, 0, &e);
    u64 st = 0x20000;
    r = raw(257, 1001, (long)&st, 0, 0, 0, &e);
    printf("raise %ld %ld %lx\n", r, e, get());
    u64 pt = 0;
    r = raw(256, 60, (long)&pt, 8, 0, 0, &e);
    printf("proctype %ld %ld %lu\n", r, e, pt);
    r = raw(256, 99, 0, 0, 0, 0, &e);
    printf("gsi99 %ld %ld\n", r, e);
    set(0x7e0000);
    printf("%lx\n", mf());
    set(0x1000);
    printf("%lx\n", mf());
    set(0x2000);
    printf("%lx\n", mf());
    set(0x7e);
    printf("%lx\n", mf());
    set(0);
    fesetround(FE_UPWARD);
    printf("%d %lx\n", fegetround(), mf());
    return 0;
}
