// Compiled loops of every shape let a timer's signal through: computed jumps, calls, recursion, spins.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
static sigjmp_buf jb; static volatile int hits;
static void alrm(int s){ hits++; siglongjmp(jb,1);}
static void arm(int us){struct itimerval it={{0,0},{0,us}};setitimer(ITIMER_REAL,&it,0);}
static int flag;
static void *tab[4];
__attribute__((noinline)) static void jumps(void){ // computed gotos
  static void *t[]={&&a,&&b,&&c}; long i=0; volatile long n=0; void **tt=t; asm("":"+r"(tt));
  a: i=(i+1)%3; goto *tt[i]; b: i=(i+1)%3; goto *tt[i]; c: i=(i+1)%3; goto *tt[i]; }
__attribute__((noinline)) static int self(int n){ return n; }
static int (*fp)(int)=self;
__attribute__((noinline)) static void calls(void){ int (*volatile f)(int)=self; for(;;) f(1); }
__attribute__((noinline)) static void tight(void){ asm volatile("1: br $31,1b"); }
__attribute__((noinline)) static void tightc(void){ asm volatile("lda $1,1($31)\n1: bne $1,1b":::"$1"); }
__attribute__((noinline)) static void waitflag(void){ int *p=&flag; asm("":"+r"(p)); if(*p==0) while(*p==0); }
__attribute__((noinline)) static void mut2(long n); 
__attribute__((noinline)) static void mut1(long n){ if(n) mut2(n-1);} 
static void mut2(long n){ if(n) mut1(n-1);} 
__attribute__((noinline)) static void rec(void){ for(;;) mut1(1000);} 
__attribute__((noinline)) static void jmpself(void){ asm volatile("br $1,2f\n2: lda $1,0($1)\n jmp $31,($1)":::"$1"); }
__attribute__((noinline)) static void jsrco(void){ asm volatile("br $1,2f\n2: jsr_coroutine $1,($1)\n br $31,2b":::"$1"); }
__attribute__((noinline)) static void fpl(void){ double x=1; for(;;){ x=x*1.0000001; if(x>1e9)x=1; asm volatile(""::"f"(x)); } }
__attribute__((noinline)) static void lock(void){ long v; for(;;) __sync_fetch_and_add(&v,1); }
__attribute__((noinline)) static void sysl(void){ for(;;) getppid(); }
__attribute__((noinline)) static void jb2(void){ static jmp_buf b; volatile int n=0; setjmp(b); n++; longjmp(b,1); }
int main(){ struct sigaction sa; memset(&sa,0,sizeof sa); sa.sa_handler=alrm; sigaction(SIGALRM,&sa,0);
 void(*v[])(void)={jumps,calls,tight,tightc,waitflag,rec,jmpself,jsrco,fpl,lock,sysl,jb2};
 for(int rep=0;rep<2;rep++) for(int i=0;i<12;i++){ if(!sigsetjmp(jb,1)){ arm(20000+rep*20000); v[i](); } printf("%d.%d ",rep,i); fflush(stdout);} 
 printf("hits %d\n",hits); return 0; }
