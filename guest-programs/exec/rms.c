/* Record services in executive mode: the command procedure on the disk, record by record, and the
 * output stream. Callers' buffers are validated by PROBE in the name of their mode; blocks come from
 * the kernel, by a CHMK of this mode's own. */
#include "exec.h"

#define BUFFER_BLOCKS 4
#define BLOCK 512

u64 exec_caller_mode;
static u8 buffer[BUFFER_BLOCKS * BLOCK] __attribute__((aligned(512)));
static u64 buffered = ~0UL;
static u64 file_length, position;

static u64 kernel(u64 number, u64 a, u64 b, u64 c)
{
    return chmk(number, a, b, c, 0, 0, 0);
}

/* The byte at a position of the file; the blocks around it are read where they are not there. */
static u8 byte_at(u64 at)
{
    u64 first = at / (BUFFER_BLOCKS * BLOCK) * BUFFER_BLOCKS;
    if (first != buffered) {
        kernel(SERVICE_READ_BLOCKS, first, BUFFER_BLOCKS, (u64)buffer);
        buffered = first;
    }
    return buffer[at - first * BLOCK];
}

static u64 rms_open(SERVICE_ARGS)
{
    (void)b, (void)c, (void)d, (void)e, (void)f;
    file_length = a;
    position = 0;
    return SS_NORMAL;
}

/* $GET: the next record to a buffer; its length to another. */
static u64 rms_get(SERVICE_ARGS)
{
    u8 *to = (u8 *)a;
    u64 n = 0, mode = exec_caller_mode;
    (void)d, (void)e, (void)f;
    if (!b || !writable(a, b - 1, mode) || !writable(c, 7, mode))
        return SS_ACCVIO;
    if (position >= file_length)
        return RMS_EOF;
    while (position < file_length) {
        u8 character = byte_at(position++);
        if (character == '\n')
            break;
        if (character != '\r' && n < b)
            to[n++] = character;
    }
    *(u64 *)c = n;
    return SS_NORMAL;
}

/* $FIND by record address, and where the next record is. */
static u64 rms_find(SERVICE_ARGS)
{
    (void)b, (void)c, (void)d, (void)e, (void)f;
    position = a;
    return SS_NORMAL;
}

static u64 rms_tell(SERVICE_ARGS)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return position;
}

/* $PUT: a record to the output. */
static u64 rms_put(SERVICE_ARGS)
{
    static u8 line[1026];
    u64 n = b < 1024 ? b : 1024;
    (void)c, (void)d, (void)e, (void)f;
    if (n && !readable(a, n - 1, exec_caller_mode))
        return SS_ACCVIO;
    for (u64 i = 0; i < n; i++)
        line[i] = ((u8 *)a)[i];
    line[n] = '\n';
    return kernel(SERVICE_WRITE_TEXT, (u64)line, n + 1, 0);
}

u64 (*const exec_services[RMS_SERVICES])(SERVICE_ARGS) = {
    rms_open, rms_get, rms_find, rms_tell, rms_put,
};
