/* The two sides of sys.h: system calls of the Alpha guest, and the host's C library.
 *
 * Numbers and structures of the guest's side are Linux/Alpha's. Linked only into the programs
 * that need it, so that the others do not depend on it.
 */
#ifndef __alpha__
#define _GNU_SOURCE
#endif
#include "sys.h"

#ifdef __alpha__

static i64 call(i64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
    register u64 r0 __asm__("$0") = (u64)number;
    register u64 r16 __asm__("$16") = a, r17 __asm__("$17") = b, r18 __asm__("$18") = c;
    register u64 r19 __asm__("$19") = d, r20 __asm__("$20") = e, r21 __asm__("$21") = f;
    __asm__ volatile("call_pal 0x83"
                     : "+r"(r0), "+r"(r16), "+r"(r17), "+r"(r18), "+r"(r19), "+r"(r20), "+r"(r21)
                     :
                     : "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$22", "$23", "$24", "$25",
                       "$27", "$28", "memory");
    return r19 ? -(i64)r0 : (i64)r0;
}

/* The kernel calls a handler with $26 = this; $30 points to the frame. */
__asm__(".text\n"
        "	.globl sys_return_from_signal\n"
        "sys_return_from_signal:\n"
        "	mov $30,$16\n"
        "	lda $0,351($31)\n"
        "	call_pal 0x83\n"
        /* (flags, stack, body, argument): the child finds body and argument on its stack. */
        "	.globl sys_clone\n"
        "	.ent sys_clone\n"
        "sys_clone:\n"
        "	.frame $30,0,$26,0\n"
        "	.prologue 0\n"
        "	lda $17,-16($17)\n"
        "	stq $18,0($17)\n"
        "	stq $19,8($17)\n"
        "	mov $31,$18\n"
        "	mov $31,$19\n"
        "	mov $31,$20\n"
        "	lda $0,312($31)\n"
        "	call_pal 0x83\n"
        "	bne $19,1f\n"
        "	beq $0,2f\n"
        "	ret $31,($26),1\n"
        "1:	subq $31,$0,$0\n"
        "	ret $31,($26),1\n"
        "2:	ldq $27,0($30)\n"
        "	ldq $16,8($30)\n"
        "	mov $31,$15\n"
        "	jsr $26,($27)\n"
        "	lda $0,1($31)\n"
        "	mov $31,$16\n"
        "	call_pal 0x83\n"
        "	.end sys_clone\n");
void sys_return_from_signal(void);
i64 sys_clone(u64 flags, void *stack, void (*body)(void *), void *argument);

i64 sys_open(const char *path, int how)
{
    static const u64 flags[] = { 0, 2 | 01000 | 04000, 02000000 };
    return call(45, (u64)path, flags[how], 0600, 0, 0, 0);
}
i64 sys_close(int fd) { return call(6, (u64)fd, 0, 0, 0, 0, 0); }
i64 sys_read(int fd, void *data, u64 bytes) { return call(3, (u64)fd, (u64)data, bytes, 0, 0, 0); }
i64 sys_write(int fd, const void *data, u64 bytes)
{
    return call(4, (u64)fd, (u64)data, bytes, 0, 0, 0);
}
i64 sys_pread(int fd, void *data, u64 bytes, u64 at)
{
    return call(349, (u64)fd, (u64)data, bytes, at, 0, 0);
}
i64 sys_fsync(int fd) { return call(95, (u64)fd, 0, 0, 0, 0, 0); }
i64 sys_drop_cache(int fd) { return call(413, (u64)fd, 0, 0, 4, 0, 0); }
i64 sys_unlink(const char *path) { return call(10, (u64)path, 0, 0, 0, 0, 0); }
i64 sys_mkdir(const char *path) { return call(136, (u64)path, 0700, 0, 0, 0, 0); }
i64 sys_rmdir(const char *path) { return call(137, (u64)path, 0, 0, 0, 0, 0); }
i64 sys_list(int fd, void *data, u64 bytes) { return call(377, (u64)fd, (u64)data, bytes, 0, 0, 0); }
i64 sys_getpid(void) { return call(20, 0, 0, 0, 0, 0, 0); }
i64 sys_umask(u32 mask) { return call(60, mask, 0, 0, 0, 0, 0); }
i64 sys_fork(void) { return call(2, 0, 0, 0, 0, 0, 0); }
void sys_exit(int status)
{
    for (;;) call(405, (u64)status, 0, 0, 0, 0, 0);
}

void sys_cpu(u64 *user, u64 *system)
{
    i64 usage[18];
    call(364, 0, (u64)usage, 0, 0, 0, 0);
    *user = (u64)usage[0] * 1000000000 + (u64)usage[1] * 1000;
    *system = (u64)usage[2] * 1000000000 + (u64)usage[3] * 1000;
}

i64 sys_handle(int signal, void (*handler)(int))
{
    /* SA_SIGINFO: the frame that system call 351 takes down. */
    struct { void (*handler)(int); u64 flags, mask; } action = { handler, 0x40, 0 };
    return call(352, (u64)signal, (u64)&action, 0, 8, (u64)sys_return_from_signal, 0);
}
i64 sys_raise(int signal)
{
    static i64 thread;
    if (!thread) thread = call(378, 0, 0, 0, 0, 0, 0);
    return call(381, (u64)thread, (u64)signal, 0, 0, 0, 0);
}

i64 sys_thread(void (*body)(void *), void *argument, void *stack, u64 stack_bytes)
{
    /* VM, FS, FILES, SIGHAND, THREAD, SYSVSEM. */
    return sys_clone(0x50f00, (u8 *)stack + stack_bytes, body, argument);
}
/* FUTEX_PRIVATE_FLAG is 128. */
i64 sys_futex_wait(u32 *word, u32 value) { return call(394, (u64)word, 128, value, 0, 0, 0); }
i64 sys_futex_wake(u32 *word, int count) { return call(394, (u64)word, 129, (u64)count, 0, 0, 0); }

i64 sys_map_code(void) { return call(71, 0, 8192, 7, 0x12, (u64)-1, 0); }

struct address { u16 family, port; u32 host; u8 zero[8]; };
static i64 tcp_socket(void) { return call(97, 2, 1, 0, 0, 0, 0); }
static i64 tcp_listen(int fd, struct address *address)
{
    u32 length = sizeof *address;
    i64 error = call(104, (u64)fd, (u64)address, length, 0, 0, 0);
    if (error >= 0) error = call(106, (u64)fd, 1, 0, 0, 0, 0);
    return error < 0 ? error : call(150, (u64)fd, (u64)address, (u64)&length, 0, 0, 0);
}
static i64 tcp_connect(int fd, struct address *address)
{
    return call(98, (u64)fd, (u64)address, sizeof *address, 0, 0, 0);
}
static i64 tcp_accept(int fd) { return call(99, (u64)fd, 0, 0, 0, 0, 0); }
i64 sys_no_delay(int fd, int on)
{
    return call(105, (u64)fd, 6, 1, (u64)&on, sizeof on, 0);
}

#else

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static i64 result(i64 value) { return value < 0 ? -(i64)errno : value; }

i64 sys_open(const char *path, int how)
{
    static const int flags[] = { O_RDONLY, O_RDWR | O_CREAT | O_EXCL, O_RDONLY | O_DIRECT };
    return result(open(path, flags[how], 0600));
}
i64 sys_close(int fd) { return result(close(fd)); }
i64 sys_read(int fd, void *data, u64 bytes) { return result(read(fd, data, bytes)); }
i64 sys_write(int fd, const void *data, u64 bytes) { return result(write(fd, data, bytes)); }
i64 sys_pread(int fd, void *data, u64 bytes, u64 at)
{
    return result(pread(fd, data, bytes, (off_t)at));
}
i64 sys_fsync(int fd) { return result(fsync(fd)); }
i64 sys_drop_cache(int fd) { return -(i64)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); }
i64 sys_unlink(const char *path) { return result(unlink(path)); }
i64 sys_mkdir(const char *path) { return result(mkdir(path, 0700)); }
i64 sys_rmdir(const char *path) { return result(rmdir(path)); }
i64 sys_list(int fd, void *data, u64 bytes)
{
    return result(syscall(SYS_getdents64, fd, data, bytes));
}
i64 sys_getpid(void) { return getpid(); }
i64 sys_umask(u32 mask) { return umask(mask); }
i64 sys_fork(void) { return result(fork()); }
void sys_exit(int status) { _exit(status); }

void sys_cpu(u64 *user, u64 *system)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    *user = (u64)usage.ru_utime.tv_sec * 1000000000 + (u64)usage.ru_utime.tv_usec * 1000;
    *system = (u64)usage.ru_stime.tv_sec * 1000000000 + (u64)usage.ru_stime.tv_usec * 1000;
}

i64 sys_handle(int signal, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler };
    return result(sigaction(signal, &action, 0));
}
i64 sys_raise(int signal)
{
    static long thread;
    if (!thread) thread = syscall(SYS_gettid);
    return result(syscall(SYS_tkill, thread, signal));
}

struct start { void (*body)(void *); void *argument; };
static void *thread_main(void *pointer)
{
    struct start *start = pointer;
    start->body(start->argument);
    return 0;
}
i64 sys_thread(void (*body)(void *), void *argument, void *stack, u64 stack_bytes)
{
    pthread_t thread;
    pthread_attr_t attributes;
    struct start *start = stack; /* at the far end of the stack */
    *start = (struct start){ body, argument };
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, stack_bytes);
    return -(i64)pthread_create(&thread, &attributes, thread_main, start);
}
i64 sys_futex_wait(u32 *word, u32 value)
{
    return result(syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, 0, 0, 0));
}
i64 sys_futex_wake(u32 *word, int count)
{
    return result(syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, 0, 0, 0));
}

struct address { u16 family, port; u32 host; u8 zero[8]; };
static i64 tcp_socket(void) { return result(socket(AF_INET, SOCK_STREAM, 0)); }
static i64 tcp_listen(int fd, struct address *address)
{
    socklen_t length = sizeof *address;
    i64 error = result(bind(fd, (struct sockaddr *)address, length));
    if (error >= 0) error = result(listen(fd, 1));
    return error < 0 ? error : result(getsockname(fd, (struct sockaddr *)address, &length));
}
static i64 tcp_connect(int fd, struct address *address)
{
    return result(connect(fd, (struct sockaddr *)address, sizeof *address));
}
static i64 tcp_accept(int fd) { return result(accept(fd, 0, 0)); }
i64 sys_no_delay(int fd, int on)
{
    return result(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

#endif

i64 sys_tcp_pair(int fd[2])
{
    /* Port 0: the kernel chooses. 127.0.0.1 in network order. */
    struct address address = { 2, 0, 0x0100007f, { 0 } };
    i64 listener = tcp_socket(), near, far;
    if (listener < 0) return listener;
    i64 error = tcp_listen((int)listener, &address);
    if (error < 0) return error;
    if ((near = tcp_socket()) < 0) return near;
    if ((error = tcp_connect((int)near, &address)) < 0) return error;
    if ((far = tcp_accept((int)listener)) < 0) return far;
    sys_close((int)listener);
    fd[0] = (int)near, fd[1] = (int)far;
    return 0;
}

#define PIECE 65536

int sys_scratch_file(u64 bytes, int numbered, int *direct)
{
    static u8 piece[PIECE] __attribute__((aligned(4096)));
    char name[64];
    sys_name(name, "axplab-scratch", 0);
    i64 fd = sys_open(name, OPEN_NEW);
    if (fd < 0) sys_give_up("create", name, fd);
    if (direct) *direct = (int)sys_open(name, OPEN_DIRECT);
    sys_unlink(name);
    for (u64 i = 0; i < PIECE; i++) piece[i] = sys_byte(i);
    for (u64 at = 0; at < bytes; at += PIECE) {
        u64 length = bytes - at < PIECE ? bytes - at : PIECE;
        for (u64 i = 0; numbered && i < PIECE; i += 512) *(u64 *)(piece + i) = (at + i) >> 9;
        i64 n = sys_write((int)fd, piece, length);
        if (n != (i64)length) sys_give_up("write", name, n < 0 ? n : 0);
    }
    /* Clean pages, so that none is written back while the row is measured. */
    i64 error = sys_fsync((int)fd);
    if (error < 0) sys_give_up("sync", name, error);
    /* Some file systems refuse only the read. */
    if (direct && *direct >= 0 && sys_pread(*direct, piece, 512, 512) != 512) {
        sys_close(*direct);
        *direct = -1;
    }
    return (int)fd;
}

char *sys_put(char *at, const char *text)
{
    while (*text) *at++ = *text++;
    *at = 0;
    return at;
}

char *sys_put_number(char *at, u64 value)
{
    char digits[24];
    int n = 0;
    do digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n) *at++ = digits[--n];
    *at = 0;
    return at;
}

void sys_name(char *out, const char *name, u64 number)
{
    out = sys_put(sys_put(out, name), "-");
    out = sys_put(sys_put_number(out, (u64)sys_getpid()), "-");
    sys_put_number(out, number);
}

void sys_give_up(const char *what, const char *name, i64 error)
{
    static char text[400];
    char *at = sys_put(sys_put(sys_put(text, "axplab kernel: cannot "), what), " ");
    at = sys_put(sys_put(at, name), ": error ");
    at = sys_put(sys_put_number(at, (u64)-error), "\n");
    sys_write(2, text, (u64)(at - text));
    sys_exit(3);
}
