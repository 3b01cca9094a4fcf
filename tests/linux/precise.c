// Faults in hot compiled code: the handler sees exact registers, changes them and goes on, or jumps away.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile long faults; static long bad; static char *page; static sigjmp_buf jb;
static void seg(int s, siginfo_t*i, void*v){ ucontext_t*u=v; long*r=u->uc_mcontext.sc_regs;
  // r1 = i, r2 = i*3, r3 = r1^r2 , r4 = addr
  faults++;
  if(r[2]!=r[1]*3 || r[3]!=(r[1]^r[2]) || (char*)i->si_addr!=(char*)r[4] || u->uc_mcontext.sc_regs[5]!=r[3]+1) bad++;
  double f; memcpy(&f,&u->uc_mcontext.sc_fpregs[10],8); if(f!=(double)r[1]) bad++;
  u->uc_mcontext.sc_pc+=4; r[6]=r[1]+1000; 
}
__attribute__((noinline)) static long run(long n,char*p,int mask){ long sum=0;
 for(long i=0;i<n;i++){ register long a asm("$1")=i; register char*q asm("$4")=p+(((i&mask)==mask)?8192:0)+ (i&7)*8; register long out asm("$6");
  double d=i; register double fd asm("$f10")=d;
  asm volatile("addq $1,$1,$2\n addq $2,$1,$2\n xor $1,$2,$3\n lda $5,1($3)\n ldq $6,0($4)\n lda $3,0($31)\n lda $5,0($31)\n lda $2,0($31)":"=r"(out),"+r"(a),"+r"(q):"f"(fd):"$2","$3","$5","memory");
  sum+=out; }
 return sum; }
static void longj(int s){ siglongjmp(jb,1);}
__attribute__((noinline)) static long deep(long n){ volatile long x=n; return n? deep(n-1)+x : *(volatile long*)(page+8192); }
int main(){ page=mmap(0,16384,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); mprotect(page+8192,8192,PROT_NONE);
 for(int i=0;i<8;i++)((long*)page)[i]=7;
 long a=run(50000,page,0x7fffffff); // hot without handler
 struct sigaction sa={0}; sa.sa_sigaction=seg; sa.sa_flags=SA_SIGINFO; sigaction(SIGSEGV,&sa,0);
 long b=run(50000,page,15);
 printf("%ld %ld faults %ld bad %ld\n",a,b,faults,bad);
 // handler longjmps out of deep recursion
 sa.sa_flags=SA_SIGINFO|SA_NODEFER; sa.sa_sigaction=(void*)longj; sigaction(SIGSEGV,&sa,0);
 int n=0; for(int i=0;i<2000;i++){ if(!sigsetjmp(jb,1)) deep(50); else n++; } printf("longjmps %d\n",n);
 { static jmp_buf j; volatile int k=0; setjmp(j); if(k++<100000) longjmp(j,1); printf("storm %d\n",k); }
 return 0; }
