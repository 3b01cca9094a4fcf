// Accesses and jumps to wild addresses, the emulator's own among them, with a handler, cold and hot.
#include <signal.h>
#include <stdio.h>
#include <setjmp.h>
#include <string.h>
static sigjmp_buf jb; static siginfo_t last; static void h(int s,siginfo_t*i,void*u){last=*i;siglongjmp(jb,s);}
__attribute__((noinline)) static long ld(char*p,int k){ long s=0; switch(k){case 0:s=*(volatile char*)p;break;case 1:s=*(volatile long*)p;break;case 2:*(volatile long*)p=1;break;case 3:s=*(volatile int*)(p+32000);break;case 4:s=*(volatile long*)(p-32000);break;case 5:asm volatile("ldq_l %0,0(%1)":"=r"(s):"r"(p));break;case 6:asm volatile("stq_u $31,5(%0)"::"r"(p):"memory");break;case 7:((void(*)(void))p)();break; case 8: asm volatile("stt $f31,0(%0)"::"r"(p):"memory");break;case 9: asm volatile("ldq $31,0(%0)\n ldt $f31,0(%0)\n wh64 (%0)\n ecb (%0)"::"r"(p):"memory");break;} return s;}
int main(){ struct sigaction sa; memset(&sa,0,sizeof sa); sa.sa_sigaction=h; sa.sa_flags=SA_SIGINFO|SA_NODEFER; sigaction(SIGSEGV,&sa,0);sigaction(SIGBUS,&sa,0);sigaction(SIGILL,&sa,0);
 unsigned long A[]={0,8,0x1ff8,0x10000,0x555555554000,0x555555556000,0x7ffff7ff0000,0x7fffffffe000,0x7f1234560000,(1ul<<42)-8,(1ul<<42)-4,1ul<<42,(1ul<<42)+8192,(1ul<<42)+0x10000,1ul<<43,1ul<<47,(1ul<<47)-8,1ul<<63,-8ul,-1ul,-4096ul,-8192ul,-32768ul,0xfffffc0000000000ul,0xffffffff80000000ul,0xffff800000000000ul,0x8000000000000008ul};
 for(int rep=0;rep<40;rep++) for(int i=0;i<sizeof A/8;i++) for(int k=0;k<10;k++){ int r=sigsetjmp(jb,1); if(!r){ ld((char*)(A[i]&(k==1||k==2||k==5||k==8?~7ul:~0ul)),k); if(rep==0||rep==39) printf("%lx.%d -\n",A[i],k);} else if(rep==0||rep==39) printf("%lx.%d %d %d %lx\n",A[i],k,r,last.si_code,(long)last.si_addr); }
 return 0;}
