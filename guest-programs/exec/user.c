/* Images in user mode: the loops that the lab measures. Parameters come in the first page's words
 * that the executive's start puts in place; results go to the machine through a service. */
#include "exec.h"

#define service chmk

static u64 parameter(u64 number)
{
    return service(SERVICE_PARAMETER, number, 0, 0, 0, 0, 0);
}

static u64 nanoseconds(void)
{
    return service(SERVICE_TIME, 0, 0, 0, 0, 0, 0);
}

static u16 version_length;
static u8 version[8];
static struct iosb iosb;
static struct item items[2];

/* SYS$GETSYIW: queues the request, then waits for the status block, which is there at once. */
static u64 getsyiw(void)
{
    u64 status = service(SERVICE_GETSYI, 1, 0, 0, (u64)items, (u64)&iosb, 0);
    if (!(status & 1))
        return status;
    while (!*(volatile u32 *)&iosb.status)
        ;
    return iosb.status;
}

/* One item: five probes a call, of the block, the item, buffer, return length and terminator. */
static u64 getsyi_loop(u64 iterations)
{
    u64 sum = 0;
    items[0].length = sizeof version;
    items[0].code = SYI_VERSION;
    items[0].buffer = (u32)(u64)version;
    items[0].return_length = (u32)(u64)&version_length;
    for (u64 i = 0; i < iterations; i++)
        sum += getsyiw() + version_length + version[i & 7];
    return sum;
}

static u64 chmk_loop(u64 iterations)
{
    for (u64 i = 0; i < iterations; i++)
        service(SERVICE_NONE, 0, 0, 0, 0, 0, 0);
    return iterations;
}

/* PROBE alone, in user mode; an empty loop of the same form is timed beside it. */
static u64 probe_loop(u64 iterations, u64 base, u64 offset, u64 write)
{
    u64 sum = 0;
    register u64 r0 __asm__("$0");
    register u64 r16 __asm__("$16") = base;
    register u64 r17 __asm__("$17") = offset;
    register u64 r18 __asm__("$18") = 3;
    for (u64 i = 0; i < iterations; i++) {
        if (write)
            __asm__ volatile("call_pal 0x90" : "=r"(r0) : "r"(r16), "r"(r17), "r"(r18));
        else
            __asm__ volatile("call_pal 0x8f" : "=r"(r0) : "r"(r16), "r"(r17), "r"(r18));
        sum += r0;
    }
    return sum;
}

static u64 empty_loop(u64 iterations)
{
    u64 sum = 0;
    for (u64 i = 0; i < iterations; i++) {
        __asm__ volatile("" : "+r"(i));
        sum += 1;
        __asm__ volatile("" : "+r"(sum));
    }
    return sum;
}

void user_main(void)
{
    u64 iterations = parameter(PARAMETER_ITERATIONS);
    u64 base = parameter(PARAMETER_BASE), offset = parameter(PARAMETER_OFFSET);
    u64 write = parameter(PARAMETER_WRITE);
    u64 program = parameter(PARAMETER_PROGRAM);
    u64 sum = 0, start, end;
    /* The first round makes the engine see all code; the second is timed. */
    for (int round = 0; round < 2; round++) {
        u64 n = round ? iterations : iterations < 2000 ? iterations : 2000;
        start = nanoseconds();
        if (program == PROGRAM_GETSYI)
            sum = getsyi_loop(n);
        else if (program == PROGRAM_CHMK)
            sum = chmk_loop(n);
        else
            sum = probe_loop(n, base, offset, write);
        end = nanoseconds();
    }
    service(SERVICE_RESULT, RESULT_NANOSECONDS, end - start, 0, 0, 0, 0);
    service(SERVICE_RESULT, RESULT_SUM, sum, 0, 0, 0, 0);
    start = nanoseconds();
    empty_loop(iterations);
    service(SERVICE_RESULT, RESULT_EMPTY, nanoseconds() - start, 0, 0, 0, 0);
    service(SERVICE_EXIT, 0, 0, 0, 0, 0, 0);
}

static void say(const char *text)
{
    u64 n = 0;
    while (text[n])
        n++;
    service(SERVICE_WRITE_TEXT, (u64)text, n, 0, 0, 0, 0);
}

/* The images that RUN starts from the command interpreter; what they return becomes $STATUS. */
u64 image_main(u64 number)
{
    switch (number) {
    case IMAGE_GETSYI:
        getsyi_loop(1000);
        say("1000 calls of SYS$GETSYIW\n");
        return SS_NORMAL;
    case IMAGE_HELLO:
        say("Hello from user mode\n");
        return SS_NORMAL;
    case IMAGE_BADADDR:
        /* Not a page of this mode. */
        return *(volatile u64 *)0x8000000;
    default:
        return SS_BADPARAM;
    }
}
