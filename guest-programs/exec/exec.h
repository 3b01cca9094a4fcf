/* What the executive and its images share: services, items, status values, calls of PALcode. */
#ifndef EXEC_H
#define EXEC_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

/* Services by the number in $0 of CHMK. */
enum { SERVICE_GETSYI, SERVICE_GETJPI, SERVICE_EXIT, SERVICE_TIME, SERVICE_RESULT, SERVICE_PUT,
       SERVICE_NONE, SERVICE_PARAMETER, SERVICE_READ_BLOCKS, SERVICE_WRITE_TEXT,
       SERVICE_CALENDAR, SERVICE_USER_STACK, SERVICES };

/* Record services by the number in $0 of CHME. */
enum { RMS_OPEN, RMS_GET, RMS_FIND, RMS_TELL, RMS_PUT, RMS_SERVICES };

/* Item codes. */
enum { ITEM_END = 0, SYI_VERSION = 4096, SYI_NODENAME = 4313, SYI_MEMSIZE = 4405, JPI_CPUTIM = 1031 };

/* Status values. */
enum { SS_NORMAL = 1, SS_ACCVIO = 12, SS_BADPARAM = 20, SS_ILLSER = 2100, RMS_EOF = 98938 };

/* An entry of an item list: addresses are of 32 bits. */
struct item {
    u16 length;
    u16 code;
    u32 buffer;
    u32 return_length;
};

/* An I/O status block. */
struct iosb {
    u32 status;
    u32 count;
};

/* What the machine was started with: numbers of boot parameters. */
enum { PARAMETER_PROGRAM, PARAMETER_ITERATIONS, PARAMETER_BASE, PARAMETER_OFFSET, PARAMETER_MODE,
       PARAMETER_WRITE };

/* User programs. */
enum { PROGRAM_GETSYI, PROGRAM_CHMK, PROGRAM_PROBE, PROGRAM_DCL };

/* Images that RUN starts, and the codes of CHMS by which they end: with a status, or by a fault. */
enum { IMAGE_GETSYI, IMAGE_HELLO, IMAGE_BADADDR, IMAGES };
enum { IMAGE_EXIT, IMAGE_ACCVIO };

/* Results. */
enum { RESULT_NANOSECONDS = 1, RESULT_SUM = 2, RESULT_EMPTY = 3 };

#define SERVICE_ARGS u64 a, u64 b, u64 c, u64 d, u64 e, u64 f

#define CHANGE_MODE(name, call)                                                                 \
    static inline u64 name(u64 number, SERVICE_ARGS)                                            \
    {                                                                                           \
        register u64 r0 __asm__("$0") = number;                                                 \
        register u64 r16 __asm__("$16") = a;                                                    \
        register u64 r17 __asm__("$17") = b;                                                    \
        register u64 r18 __asm__("$18") = c;                                                    \
        register u64 r19 __asm__("$19") = d;                                                    \
        register u64 r20 __asm__("$20") = e;                                                    \
        register u64 r21 __asm__("$21") = f;                                                    \
        __asm__ volatile("call_pal " call                                                       \
                         : "+r"(r0), "+r"(r16), "+r"(r17), "+r"(r18), "+r"(r19), "+r"(r20),     \
                           "+r"(r21)                                                            \
                         :                                                                      \
                         : "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$22", "$23", "$24", \
                           "$25", "$27", "$28", "memory");                                      \
        return r0;                                                                              \
    }
/* A service of the kernel, and one of executive mode. */
CHANGE_MODE(chmk, "0x83")
CHANGE_MODE(chme, "0x82")

#define PROBE(name, call)                                                                       \
    static inline int name(u64 base, u64 last, u64 mode)                                        \
    {                                                                                           \
        register u64 r0 __asm__("$0");                                                          \
        register u64 r16 __asm__("$16") = base;                                                 \
        register u64 r17 __asm__("$17") = last;                                                 \
        register u64 r18 __asm__("$18") = mode;                                                 \
        __asm__ volatile("call_pal " call                                                       \
                         : "=r"(r0) : "r"(r16), "r"(r17), "r"(r18) : "memory");                 \
        return (int)r0;                                                                         \
    }
/* Whether a mode may read or write from a base to an offset. */
PROBE(readable, "0x8f")
PROBE(writable, "0x90")

#endif
