// A guest reaches its own memory only: each attempt to name the host's is refused.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRY(x) do { errno = 0; long r = (long)(x); \
        printf("%-20s %s %d\n", #x, r == -1 ? "refused" : "DONE", errno); } while (0)

static long open_path(const char *format, int pid) {
    char path[100];
    sprintf(path, format, pid);
    return open(path, O_RDONLY);
}

static long relative(void) {
    int dir = open("/proc/self", O_RDONLY | O_DIRECTORY);
    return openat(dir, "mem", O_RDWR);
}

static long through_link(void) {
    unlink("link");
    symlink("/proc/self/mem", "link");
    return open("link", O_RDWR);
}

static long fixed(unsigned long at, unsigned long size) {
    return (long)mmap((void *)at, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static long moved(unsigned long at) {
    char *page = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return (long)mremap(page, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at);
}

static long attached(unsigned long at) {
    int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
    long result = (long)shmat(id, (void *)at, 0);
    int saved = errno;
    shmctl(id, IPC_RMID, 0);
    errno = saved;
    return result;
}

static long into(unsigned long at) {
    int fd = open("/dev/zero", O_RDONLY);
    return read(fd, (void *)at, 100);
}

static long vector(unsigned long at) {
    int fd = open("/dev/zero", O_RDONLY);
    struct iovec part = {(void *)at, 100};
    return readv(fd, &part, 1);
}

static long interfaces(unsigned long at) {
    struct ifconf conf = {.ifc_len = 4096, .ifc_req = (void *)at};
    return ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCGIFCONF, &conf);
}

static long filter(void) {
    struct { short n; void *p; } program = {1, (void *)0x7f0000000000};
    return setsockopt(socket(AF_INET, SOCK_DGRAM, 0), SOL_SOCKET, 26, &program, sizeof program);
}

static long other_process(void) {
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)0x7f0000000000, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0);
}

// Every way to name the own program gives the guest's, never the emulator's.
static void own_program(void) {
    char plain[300], other[300];
    int dir = open("/proc/self", O_RDONLY | O_DIRECTORY);
    long n = readlink("/proc/self/exe", plain, sizeof plain);
    printf("exe by directory     %s\n",
           readlinkat(dir, "exe", other, sizeof other) == n && !memcmp(plain, other, n) ? "same" : "OTHER");
    printf("exe by slashes       %s\n",
           readlink("/proc//self/./exe", other, sizeof other) == n && !memcmp(plain, other, n) ? "same" : "OTHER");
    printf("exe by thread        %s\n",
           readlink("/proc/thread-self/exe", other, sizeof other) == n && !memcmp(plain, other, n)
               ? "same" : "OTHER");
    close(dir);
}

// The file is what the program was given, in the same order.
static void own_environment(char **envp) {
    static char all[1 << 20];
    int fd = open("/proc/self/environ", O_RDONLY);
    long n = read(fd, all, sizeof all), at = 0;
    for (; *envp && at < n && !strcmp(all + at, *envp); envp++)
        at += strlen(*envp) + 1;
    printf("environment          %s\n", !*envp && at == n ? "same" : "OTHER");
    close(fd);
}

int main(int argc, char **argv, char **envp) {
    const unsigned long high = 0x7f0000000000, kernel = 0xfffffc0000000000;
    TRY(open_path("/proc/self/mem", 0));
    TRY(open_path("/proc/%d/mem", getpid()));
    TRY(open_path("/proc/%d/mem", getppid()));
    TRY(open_path("/proc/self/task/%d/mem", getpid()));
    TRY(open_path("/proc//self/mem", 0));
    TRY(open_path("/proc/self/root/proc/self/mem", 0));
    TRY(open_path("/proc/thread-self/mem", 0));
    TRY(open("/proc/self/clear_refs", O_WRONLY));
    TRY(relative());
    TRY(through_link());
    TRY(fixed(high, 8192));
    TRY(fixed((1ul << 42) - 8192, 16384));
    TRY(fixed(kernel, 8192));
    TRY(fixed(8192, -8192ul));
    TRY(moved(high));
    TRY(attached(high));
    TRY(syscall(SYS_brk, high));
    TRY(munmap((void *)high, 8192));
    TRY(mprotect((void *)high, 8192, PROT_READ));
    TRY(madvise((void *)high, 8192, MADV_DONTNEED));
    TRY(into(high));
    TRY(into((1ul << 42) - 50));
    TRY(into(kernel));
    TRY(vector(high));
    TRY(interfaces(high));
    TRY(filter());
    TRY(other_process());
    TRY(ptrace(PTRACE_TRACEME, 0, 0, 0));
    TRY(syscall(SYS_userfaultfd, 0));
    TRY(syscall(SYS_io_uring_setup, 1, 0));
    TRY(prctl(PR_SET_MM, PR_SET_MM_BRK, high, 0, 0));
    TRY(prctl(PR_SET_SECCOMP, 2, high));
    TRY(syscall(SYS_semop, 0, high, 100000ul));
    own_program();
    own_environment(envp);
    return 0;
}
