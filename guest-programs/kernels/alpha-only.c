/* Rows trap-addlv and smc-imb: what has no counterpart on the host.
 *
 * trap-addlv overflows an ADDL/V: the result is truncated and written, SIGFPE is delivered, and
 * the program goes on behind the instruction. smc-imb rewrites an instruction of a routine,
 * makes it visible by IMB and calls the routine.
 */
#include "lab.h"
#include "sys.h"

#ifndef __alpha__
#error "these rows are for the Alpha only"
#endif

static u64 count, sum;
static volatile u64 seen;

static void handler(int signal)
{
    seen += (u64)signal == SYS_SIGFPE;
}
static void traps_prepare(u64 size)
{
    count = size;
    i64 error = sys_handle(SYS_SIGFPE, handler);
    if (error < 0) sys_give_up("handle", "a signal", error);
}
static void traps(void)
{
    seen = sum = 0;
    for (u64 i = 0; i < count; i++) {
        u64 value;
        __asm__ volatile("addl/v %1,%2,%0\n\ttrapb"
                         : "=r"(value)
                         : "r"(0x7fffffffl), "r"(i + 1)
                         : "memory");
        sum = ax_mix(sum, value);
    }
}
static u64 traps_check(void) { return ax_mix(sum, seen); }
static u64 work(void) { return count; }

/* LDA $0,N($16); RET. Code lies in a segment of its own by a mapping that may be written. */
static u32 *code;
#define LDA_V0_A0 0x20100000u
#define RET 0x6bfa8001u

static void imb_prepare(u64 size)
{
    count = size;
    i64 at = sys_map_code();
    if (at < 0) sys_give_up("map", "memory for code", at);
    code = (u32 *)at;
    code[1] = RET;
}
static void imb(void)
{
    u64 x = 0;
    for (u64 i = 0; i < count; i++) {
        code[0] = LDA_V0_A0 | (u32)(i & 0x7fff);
        __asm__ volatile("call_pal 0x86" : : : "memory");
        x = ((u64 (*)(u64))code)(x);
    }
    sum = x;
}
static u64 imb_check(void) { return sum; }

const struct lab_row lab_rows[] = {
    { "trap-addlv", "traps", 1024, 1, 65536, traps_prepare, 0, traps, traps_check, work },
    { "smc-imb", "changes", 1024, 1, 65536, imb_prepare, 0, imb, imb_check, work },
};
const u64 lab_row_count = 2;
