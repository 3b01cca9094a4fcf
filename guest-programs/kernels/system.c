/* Rows syscalls and signals: what it costs to enter the kernel and to be entered by it.
 *
 * syscalls sets the mask of file modes, about the least that a kernel can do, and one call on
 * both sides (the Alpha's number of a process comes with its parent's); signals sends one to the
 * own thread, whose handler counts it.
 */
#include "lab.h"
#include "sys.h"

static u64 count, wrong;
static volatile u64 seen;

static void prepare(u64 size) { count = size; }

static void syscalls(void)
{
    sys_umask(0);
    wrong = 0;
    for (u32 i = 1; i < count; i++) wrong += sys_umask(i & 0777) != ((i - 1) & 0777);
}
static u64 syscalls_check(void) { return ax_mix(ax_mix(1, count), wrong); }
static u64 work(void) { return count; }

static void handler(int signal)
{
    seen += (u64)signal == SYS_SIGUSR1;
}
static void signals_prepare(u64 size)
{
    count = size;
    i64 error = sys_handle(SYS_SIGUSR1, handler);
    if (error < 0) sys_give_up("handle", "a signal", error);
}
static void signals(void)
{
    seen = 0;
    for (u64 i = 0; i < count; i++) sys_raise(SYS_SIGUSR1);
}
static u64 signals_check(void) { return ax_mix(ax_mix(1, count), seen); }

const struct lab_row lab_rows[] = {
    { "syscalls", "calls", 8192, 1, 65536, prepare, 0, syscalls, syscalls_check, work },
    { "signals", "signals", 1024, 1, 65536, signals_prepare, 0, signals, signals_check, work },
};
const u64 lab_row_count = 2;
