/* Operating-system services for the rows that measure them: files, sockets, threads, signals.
 *
 * Same calls on both sides: the guest makes them itself, without a C library; the native twin
 * makes them through the host's. Results below zero are errors; their numbers differ by side.
 */
#ifndef AX_SYS_H
#define AX_SYS_H

#include "mini.h"

/* How a file is opened. */
enum { OPEN_READ, OPEN_NEW, OPEN_DIRECT }; /* NEW: must not exist; read and written */

i64 sys_open(const char *path, int how);
i64 sys_close(int fd);
i64 sys_read(int fd, void *data, u64 bytes);
i64 sys_write(int fd, const void *data, u64 bytes);
i64 sys_pread(int fd, void *data, u64 bytes, u64 at);
i64 sys_fsync(int fd);
i64 sys_drop_cache(int fd);             /* asks for the file's pages to leave the cache */
i64 sys_unlink(const char *path);
i64 sys_mkdir(const char *path);
i64 sys_rmdir(const char *path);
i64 sys_list(int fd, void *data, u64 bytes); /* getdents64 */

/* A TCP connection to this process itself over loopback; fd[0] connected, fd[1] accepted. */
i64 sys_tcp_pair(int fd[2]);
i64 sys_no_delay(int fd, int on);

i64 sys_getpid(void);
i64 sys_umask(u32 mask);
i64 sys_fork(void);
void sys_exit(int status) __attribute__((noreturn));
/* Processor time of this process, in nanoseconds. */
void sys_cpu(u64 *user, u64 *system);

i64 sys_handle(int signal, void (*handler)(int)); /* SYS_SIG... */
i64 sys_raise(int signal);                        /* to the calling thread */
enum { SYS_SIGHUP = 1, SYS_SIGINT = 2, SYS_SIGFPE = 8, SYS_SIGTERM = 15 };
#ifdef __alpha__
#define SYS_SIGUSR1 30
#else
#define SYS_SIGUSR1 10
#endif

/* Starts a thread that never returns from `body`; it ends with the process. */
i64 sys_thread(void (*body)(void *), void *argument, void *stack, u64 stack_bytes);
i64 sys_futex_wait(u32 *word, u32 value);
i64 sys_futex_wake(u32 *word, int count);

/* Memory for code that is written while it runs; the guest's alone. */
i64 sys_map_code(void);

/* A file of `bytes` that has no name any more, so that nothing is left of it however the
 * program ends. Byte p is sys_byte(p), but each block of 512 begins with its number if
 * `numbered`. `direct`, if not 0, becomes a descriptor past the page cache, or -1 if refused. */
int sys_scratch_file(u64 bytes, int numbered, int *direct);
static inline u8 sys_byte(u64 p) { return (u8)(p * 167 + 13); }

/* One line on standard error, then exit status 3: the row cannot be measured here. */
void sys_give_up(const char *what, const char *name, i64 error) __attribute__((noreturn));
/* NAME-PID-NUMBER, so that programs side by side in one folder do not meet. */
void sys_name(char *out, const char *name, u64 number);
/* Appends text or a decimal number and a terminating zero; returns the new end. */
char *sys_put(char *at, const char *text);
char *sys_put_number(char *at, u64 value);

#endif
