/* The kernel: page tables, system control block, the first process, system services.
 *
 * As VMS services do, each service proves by PROBE, in the name of the caller's mode, that what it is
 * about to read and write is the caller's. */
#include "exec.h"

#define PAGE 8192UL
#define PROBE_PAGES 0x280000UL
#define PTE(pfn, bits) ((u64)(pfn) << 32 | (bits))
#define V 1UL
#define ASM_BIT 16UL
#define KERNEL_ONLY (0x1100UL | ASM_BIT)
#define USER_ALL 0xff00UL

extern char exec_start[], exec_end[], dcl_start[], dcl_end[];
extern void chme_entry(void), dcl_entry(void), image_ended(void);
extern void access_violation(void), interrupted(void);
extern char kernel_start[], kernel_end[], user_start[], user_end[], shared_start[], shared_end[];
extern void chmk_entry(void), unexpected(void), user_entry(void);

u64 caller_mode;
static u64 event_flags;
static u64 memory_size, user_stack;

/* CSERVE: the machine's console. */
static u64 console(u64 function, u64 a, u64 b, u64 c)
{
    register u64 r0 __asm__("$0");
    register u64 r16 __asm__("$16") = function;
    register u64 r17 __asm__("$17") = a;
    register u64 r18 __asm__("$18") = b;
    register u64 r19 __asm__("$19") = c;
    __asm__ volatile("call_pal 0x09"
                     : "=r"(r0) : "r"(r16), "r"(r17), "r"(r18), "r"(r19) : "memory");
    return r0;
}

static void mtpr_scbb(u64 frame)
{
    register u64 r16 __asm__("$16") = frame;
    __asm__ volatile("call_pal 0x17" : : "r"(r16) : "memory");
}

/* What an item says: address and length. */
static const void *value_of(u32 code, u64 *length, u64 *number)
{
    *length = 8;
    switch (code) {
    case SYI_VERSION:
        return "V8.4-L1 ";
    case SYI_NODENAME:
        *length = 6;
        return "AXPLAB";
    case SYI_MEMSIZE:
        *length = 4;
        *number = memory_size / PAGE;
        return number;
    case JPI_CPUTIM:
        *length = 4;
        *number = console(5, 0, 0, 0) / 10000000;
        return number;
    default:
        return 0;
    }
}

/* SYS$GETSYI and SYS$GETJPI: event flag, two ignored selectors, item list, IOSB. */
static u64 get_items(u64 efn, u64 selector, u64 name, u64 list, u64 iosb_address, u64 ast)
{
    u64 mode = caller_mode;
    struct iosb *iosb = (struct iosb *)iosb_address;
    u64 status = SS_NORMAL;
    (void)selector, (void)name, (void)ast;
    event_flags &= ~(1UL << (efn & 63));
    if (!writable(iosb_address, sizeof *iosb - 1, mode))
        return SS_ACCVIO;
    iosb->status = 0;
    iosb->count = 0;
    for (struct item *item = (struct item *)list;; item++) {
        u64 length, number, n;
        const u8 *from;
        u8 *to;
        /* Near a page's end the list may end with its first longword. */
        u64 near_end = ((u64)item & (PAGE - 1)) > PAGE - sizeof *item;
        if (!readable((u64)item, near_end ? 3 : sizeof *item - 1, mode)) {
            status = SS_ACCVIO;
            break;
        }
        if (item->code == ITEM_END)
            break;
        if (near_end && !readable((u64)item, sizeof *item - 1, mode)) {
            status = SS_ACCVIO;
            break;
        }
        from = value_of(item->code, &length, &number);
        if (!from) {
            status = SS_BADPARAM;
            break;
        }
        to = (u8 *)(u64)item->buffer;
        n = item->length < length ? item->length : length;
        if (n && !writable((u64)to, item->length - 1, mode)) {
            status = SS_ACCVIO;
            break;
        }
        for (u64 i = 0; i < n; i++)
            to[i] = from[i];
        if (item->return_length) {
            if (!writable(item->return_length, 1, mode)) {
                status = SS_ACCVIO;
                break;
            }
            *(u16 *)(u64)item->return_length = (u16)n;
        }
    }
    iosb->status = (u32)status;
    event_flags |= 1UL << (efn & 63);
    return status;
}

static u64 service_exit(SERVICE_ARGS)
{
    (void)b, (void)c, (void)d, (void)e, (void)f;
    return console(2, a, 0, 0);
}

static u64 service_time(SERVICE_ARGS)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return console(5, 0, 0, 0);
}

static u64 service_result(SERVICE_ARGS)
{
    (void)c, (void)d, (void)e, (void)f;
    return console(10, a, b, 0);
}

static u64 service_put(SERVICE_ARGS)
{
    (void)b, (void)c, (void)d, (void)e, (void)f;
    return console(0, a, 0, 0);
}

static u64 service_parameter(SERVICE_ARGS)
{
    (void)b, (void)c, (void)d, (void)e, (void)f;
    return console(9, a, 0, 0);
}

/* Blocks of the disk to the caller's buffer, whose pages are where their addresses say. */
static u64 service_read_blocks(SERVICE_ARGS)
{
    (void)d, (void)e, (void)f;
    if (b - 1 >= 64 || !writable(c, b * 512 - 1, caller_mode))
        return SS_ACCVIO;
    /* Beyond the end of the disk what there is. */
    while (b && !console(3, a, b, c))
        b--;
    return b ? SS_NORMAL : SS_BADPARAM;
}

static u64 service_write_text(SERVICE_ARGS)
{
    (void)c, (void)d, (void)e, (void)f;
    if (b - 1 >= 4096 || !readable(a, b - 1, caller_mode))
        return SS_ACCVIO;
    return console(7, a, b, 0);
}

static u64 service_calendar(SERVICE_ARGS)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return console(11, 0, 0, 0);
}

/* Where the stack of an image starts. */
static u64 service_user_stack(SERVICE_ARGS)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return user_stack;
}

extern u64 service_none(SERVICE_ARGS);

u64 (*const services[SERVICES])(SERVICE_ARGS) = {
    get_items,      get_items,   service_exit, service_time,
    service_result, service_put, service_none, service_parameter,
    service_read_blocks, service_write_text, service_calendar, service_user_stack,
};

static u64 *page_at(u64 *next)
{
    u64 *page = (u64 *)*next;
    for (u64 i = 0; i < PAGE / 8; i++)
        page[i] = 0;
    *next += PAGE;
    return page;
}

/* Maps the pages of a range to themselves. */
static void map(u64 *l2, u64 start, u64 end, u64 bits)
{
    for (u64 va = start & ~(PAGE - 1); va < end; va += PAGE) {
        u64 *l3 = (u64 *)(l2[va >> 23 & 1023] >> 32 << 13);
        l3[va >> 13 & 1023] = PTE(va >> 13, bits | V);
    }
}

/* Builds everything; the address of the first context. Runs with translation off. */
u64 kernel_main(u64 memory, u64 free)
{
    u64 next = free < 0x800000 ? 0x800000 : free;
    u64 first = next;
    u64 *l1 = page_at(&next), *l2 = page_at(&next), *scb = page_at(&next);
    u64 *context = page_at(&next);
    u64 stacks[4], *frame;
    memory_size = memory;
    l1[0] = PTE((u64)l2 >> 13, KERNEL_ONLY | V);
    for (int i = 0; i < 4; i++)
        l2[i] = PTE((u64)page_at(&next) >> 13, KERNEL_ONLY | V);
    for (int i = 0; i < 0x1000 / 8; i += 2) {
        scb[i] = (u64)unexpected;
        scb[i + 1] = (u64)i * 8;
    }
    scb[0x480 / 8] = (u64)chmk_entry;
    scb[0x490 / 8] = (u64)chme_entry;
    scb[0x4a0 / 8] = (u64)image_ended;
    scb[0x600 / 8] = scb[0x610 / 8] = (u64)interrupted;
    scb[0x80 / 8] = scb[0x90 / 8] = (u64)access_violation;
    for (int mode = 0; mode < 4; mode++) {
        /* A stack of 16 pages for each mode, writable from it inwards. */
        u64 base = next;
        for (int i = 0; i < 16; i++)
            page_at(&next);
        stacks[mode] = user_stack = next;
        map(l2, base, next, 0x1100UL * ((2UL << mode) - 1));
    }
    map(l2, first, (u64)context + PAGE, KERNEL_ONLY);
    map(l2, (u64)kernel_start, (u64)kernel_end, KERNEL_ONLY);
    map(l2, (u64)exec_start, (u64)exec_end, 0x3300UL | ASM_BIT);
    map(l2, (u64)dcl_start, (u64)dcl_end, 0x7700UL);
    map(l2, (u64)user_start, (u64)user_end, USER_ALL);
    map(l2, (u64)shared_start, (u64)shared_end, 0x0f00UL | ASM_BIT);
    /* For programs that probe: four pages for user mode, then pages that are not there. */
    map(l2, PROBE_PAGES, PROBE_PAGES + 4 * PAGE, USER_ALL);
    mtpr_scbb((u64)scb >> 13);
    frame = (u64 *)(stacks[0] - 64);
    frame[6] = (u64)user_entry;
    frame[7] = 3 << 3;
    if (console(9, PARAMETER_PROGRAM, 0, 0) == PROGRAM_DCL) {
        frame[6] = (u64)dcl_entry;
        frame[7] = 2 << 3;
    }
    context[0] = (u64)frame;
    for (int mode = 1; mode < 4; mode++)
        context[mode] = stacks[mode];
    context[4] = (u64)l1 >> 13;
    context[5] = 1;
    context[7] = 1;
    return (u64)context;
}
