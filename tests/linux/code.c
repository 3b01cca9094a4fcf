// Code that changes: patched with IMB, protected, unmapped, mapped anew, data executed.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <signal.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>
#define IMB asm volatile("call_pal 0x86":::"memory")
static sigjmp_buf jb; static void h(int s){siglongjmp(jb,s);}
typedef long (*fn)(long);
static unsigned lda(int r,int i){ return 0x20000000|r<<21|31<<16|(i&0xffff);} // lda r,i(zero)
int main(){ unsigned*p=mmap(0,65536,PROT_READ|PROT_WRITE|PROT_EXEC,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); fn f=(fn)p; long s=0; signal(SIGSEGV,h); signal(SIGILL,h);
 for(int i=0;i<10000;i++){ p[0]=lda(0,i&0x3fff); p[1]=0x6bfa8001; IMB; s+=f(0); if((i&15)==0) for(int k=0;k<600;k++) s+=f(0)-(i&0x3fff); } printf("patch %ld\n",s);
 // self-patch within block, next insn after IMB
 p[0]=0x47ff041f; p[1]=0x6bfa8001; IMB; f(0);
 // loop whose body is patched by itself: stores new insn then imb then continues
 { unsigned c[]={ 0x20000000|0<<21|31<<16, /*lda v0,0*/ 0x20000000|1<<21|31<<16|100 /*lda t0,100*/,
   /*2:*/ 0x40001400|0<<21|0<<16|1<<13|0 ,/*addq v0,1,v0 (patched)*/ 0 };
   int n=0; p[n++]=lda(0,0); p[n++]=lda(1,1000); int L=n; p[n++]=0x40003400|0<<21|0/*addq v0,1,v0*/; p[n++]=0x40203521/*subq t0,1,t0*/; 
   p[n]=0xf4200000|((L-n-1)&0x1fffff); n++; p[n++]=0x6bfa8001; IMB; long a=f(0); for(int k=0;k<3;k++) a+=f(0);
   p[L]=0x40005400|0; IMB; long b=f(0); for(int k=0;k<3;k++) b+=f(0); printf("loop %ld %ld\n",a,b); }
 // mprotect
 p[0]=lda(0,5); p[1]=0x6bfa8001; IMB; s=0; for(int i=0;i<2000;i++) s+=f(0); 
 mprotect(p,8192,PROT_READ|PROT_WRITE); int r; if(!(r=sigsetjmp(jb,1))) s+=f(0),printf("ran!\n"); printf("noexec sig %d\n",r);
 mprotect(p,8192,PROT_READ|PROT_EXEC); printf("again %ld\n",f(0)+s);
 // munmap then call
 munmap(p,8192); if(!(r=sigsetjmp(jb,1))) f(0),printf("ran!\n"); printf("unmapped sig %d\n",r);
 unsigned*q=mmap(p,8192,PROT_READ|PROT_WRITE|PROT_EXEC,MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED,-1,0); q[0]=lda(0,77); q[1]=0x6bfa8001; printf("new %ld\n",((fn)q)(0));
 // munmap of executing code: code that calls munmap on itself: callsys inside
 { int n=0; for(int i=0;i<2000;i++)f(0); unsigned *c=q; n=0; c[n++]=lda(0,73); c[n++]=0x47f00410|0 /*mov a0? */; c[1]=0x47ff041f; c[n++]=0x00000083; c[n++]=0x6bfa8001; IMB;
   register long v0 asm("$0"); if(!(r=sigsetjmp(jb,1))) { ((long(*)(void*,long))q)(q,8192); printf("ran!\n"); } printf("self munmap sig %d\n",r); }
 // execution of data
 static unsigned d[2]={0x47ff041f,0x6bfa8001}; if(!(r=sigsetjmp(jb,1))) ((fn)d)(0),printf("ran!\n"); printf("data sig %d\n",r);
 // branch at end of page into unmapped
 unsigned*e=mmap(0,16384,PROT_READ|PROT_WRITE|PROT_EXEC,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); munmap((char*)e+8192,8192); e[2046]=lda(0,1); e[2047]=lda(0,2); IMB; if(!(r=sigsetjmp(jb,1))) ((fn)(e+2046))(0),printf("ran!\n"); printf("page end sig %d\n",r);
 // illegal insn mid block
 e[0]=lda(0,1); e[1]=0x1c<<26|0x7ff<<5; e[2]=0x6bfa8001; IMB; if(!(r=sigsetjmp(jb,1))) ((fn)e)(0),printf("ran!\n"); printf("illegal sig %d\n",r);
 return 0; }
