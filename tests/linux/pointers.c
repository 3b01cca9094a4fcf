// System calls and /proc under hostile arguments: levels and families that hide pointers, sizes that
// change while they are used, forged faults, and every spelling of the program's own directory.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const unsigned long high = 0x7f0000000000, end = 1ul << 42;

#define TRY(x) do { errno = 0; long r = (long)(x); \
        printf("%-46s %s %d\n", #x, r == -1 ? "refused" : "DONE", errno); } while (0)
#define H ((void *)high)

static int tcp, udp, pair[2], zero, self_dir;
static char room[8192];

static void options(void) {
    struct { short n; void *p; } program = {1, H};
    unsigned length = 64;
    // The host's SOL_SOCKET is 1; SO_ATTACH_FILTER takes a pointer inside its value.
    TRY(syscall(SYS_setsockopt, udp, 1ul, 26ul, &program, 16ul));
    TRY(syscall(SYS_setsockopt, udp, 1ul << 32 | 1, 26ul, &program, 16ul));
    TRY(syscall(SYS_setsockopt, udp, 0xffff, 1ul << 32 | 26, &program, 16ul));
    TRY(syscall(SYS_setsockopt, udp, 0ul, 64ul, room, 64ul));
    TRY(syscall(SYS_setsockopt, udp, 41ul, 64ul, room, 64ul));
    TRY(syscall(SYS_setsockopt, udp, 276ul, 2ul, room, 64ul));
    TRY(syscall(SYS_getsockopt, tcp, 6ul, 35ul, room, &length));
    TRY(syscall(SYS_getsockopt, tcp, 1ul << 32 | 6, 1ul << 32 | 35, room, &length));
    TRY(socket(21, SOCK_SEQPACKET, 0));
    TRY(socket(29, SOCK_RAW, 1));
    TRY(socket(44, SOCK_RAW, 0));
    TRY(syscall(SYS_ioctl, zero, 0x20001260ul, high));
    TRY(syscall(SYS_ioctl, zero, 0x20001269ul, high));
    TRY(syscall(SYS_ioctl, zero, 0xc0481273ul, high));
    TRY(syscall(SYS_ioctl, zero, 0x40086601ul, high));
}

static void pointers(void) {
    unsigned length = 64, negative = -5;
    struct iovec part = {H, 8}, endless = {room, -8ul};
    struct msghdr into = {.msg_iov = &part, .msg_iovlen = 1};
    struct msghdr named = {.msg_name = H, .msg_namelen = 16};
    struct msghdr controlled = {.msg_control = H, .msg_controllen = 64};
    TRY(getsockname(udp, H, &length));
    TRY(getsockname(udp, (void *)room, H));
    TRY(getsockname(udp, (void *)room, &negative));
    TRY(getsockopt(udp, SOL_SOCKET, SO_TYPE, H, &length));
    TRY(getsockopt(udp, SOL_SOCKET, SO_TYPE, room, H));
    TRY(getsockopt(udp, SOL_SOCKET, SO_TYPE, room, &negative));
    write(pair[0], "abcdefgh", 8);
    TRY(recvfrom(pair[1], room, 8, MSG_PEEK, H, &length));
    TRY(recvfrom(pair[1], H, 8, MSG_PEEK, 0, 0));
    TRY(recvmsg(pair[1], &into, MSG_PEEK));
    TRY(recvmsg(pair[1], &named, MSG_PEEK));
    TRY(recvmsg(pair[1], H, MSG_PEEK));
    TRY(sendmsg(pair[0], &controlled, 0));
    TRY(sendmsg(pair[0], &into, 0));
    TRY(syscall(SYS_sendmmsg, pair[0], high, 5, 0));
    TRY(readv(zero, &endless, 1));
    TRY(readv(zero, room, 1025));
    TRY(readv(zero, H, 1));
    TRY(preadv(zero, &part, 1, 0));
    TRY(syscall(SYS_poll, room, 1ul << 21, 0));
    TRY(syscall(SYS_ppoll, end - 8, 2ul, 0, 0, 8));
    TRY(select(1000, (void *)(end - 8), 0, 0, 0));
    TRY(syscall(SYS_futex, high, 1, 1));
    TRY(syscall(SYS_mincore, high, 8192, room));
    TRY(syscall(SYS_getdents64, self_dir, high, 8192));
    TRY(statx(self_dir, "", AT_EMPTY_PATH, 1, H));
    TRY(fstat(zero, H));
    TRY(syscall(SYS_getrandom, high, 8, 0));
    TRY(prctl(PR_SET_NAME, high));
    TRY(prctl(PR_GET_NAME, high));
    TRY(sched_getaffinity(0, 128, H));
    TRY(syscall(SYS_getrlimit, 0, high));
    TRY(getrusage(0, H));
    TRY(syscall(SYS_times, high));
    TRY(syscall(SYS_uname, high));
    TRY(syscall(SYS_sysinfo, high));
    TRY(getitimer(0, H));
    TRY(syscall(SYS_timer_create, 0, high, room));
    TRY(syscall(SYS_clock_gettime, 0, high));
    TRY(syscall(SYS_nanosleep, high, 0));
    TRY(syscall(SYS_rt_sigprocmask, 1, high, 0, 8));
    TRY(syscall(SYS_rt_sigaction, 30, high, 0, 8, 0));
    TRY(syscall(SYS_sigaltstack, high, 0));
    TRY(syscall(SYS_pipe2, high, 0));
    TRY(syscall(SYS_splice, zero, high, pair[0], 0, 8, 0));
    TRY(syscall(SYS_sendfile, pair[0], zero, high, 8));
    TRY(syscall(SYS_msgsnd, 0, high, -8ul, 0));
    TRY(syscall(SYS_fcntl, zero, 7, high));
    TRY(syscall(SYS_ioctl, zero, 0x4004667ful, high));
    TRY(readlink("/proc/self/cwd", H, 100));
    TRY(syscall(SYS_getcwd, high, 100));
    TRY(open(H, 0));
    TRY(syscall(SYS_execve, high, 0, 0));
    TRY(syscall(SYS_execve, "/x", high, 0));
    TRY(syscall(SYS_getgroups, 65536, high));
    TRY(waitpid(-1, H, 0));
    TRY(syscall(SYS_write, 1, end - 4, 8));
    TRY(syscall(SYS_read, zero, -4ul, 8));
}

static void refused(void) {
    static const struct { int number; const char *name; } calls[] = {
        {SYS_perf_event_open, "perf_event_open"}, {SYS_name_to_handle_at, "name_to_handle_at"},
        {SYS_open_by_handle_at, "open_by_handle_at"}, {SYS_kcmp, "kcmp"}, {SYS_bpf, "bpf"},
        {SYS_seccomp, "seccomp"}, {SYS_move_pages, "move_pages"}, {SYS_mount, "mount"},
        {SYS_setns, "setns"}, {SYS_unshare, "unshare"}, {SYS_pidfd_getfd, "pidfd_getfd"},
        {550, "process_madvise"}, {SYS_io_uring_enter, "io_uring_enter"}, {SYS_io_submit, "io_submit"},
        {SYS_process_vm_writev, "process_vm_writev"}, {SYS_ptrace, "ptrace"}, {SYS_keyctl, "keyctl"}};
    for (int i = 0; i < sizeof calls / sizeof *calls; i++) {
        errno = 0;
        long r = syscall(calls[i].number, 0, high, 1, high, 0, 0);
        printf("%s %s %d\n", calls[i].name, r == -1 ? "refused" : "DONE", errno);
    }
}

// A length that another thread changes between the check and the use.
static volatile int stop;

static void *flip(void *length) {
    while (!stop) *(volatile unsigned *)length = 4, *(volatile unsigned *)length = 1 << 20;
    return 0;
}

static void race(void) {
    static unsigned length;
    char *last = mmap((void *)(end - 8192), 8192, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    pthread_t thread;
    int bad = 0;
    pthread_create(&thread, 0, flip, &length);
    for (int i = 0; i < 2000; i++) {
        if (getsockopt(udp, SOL_SOCKET, SO_TYPE, last + 8188, &length) && errno != EFAULT) bad++;
        if (getsockname(udp, (void *)(last + 8188), &length) && errno != EFAULT) bad++;
    }
    stop = 1;
    pthread_join(thread, 0);
    printf("race %d\n", bad);
}

static volatile int seen, seen_code;

static void on_fault(int s, siginfo_t *info, void *context) {
    seen = s;
    seen_code = info->si_code;
}

static void forged(void) {
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    siginfo_t info = {.si_code = SEGV_MAPERR};
    struct { int signo, error, code, pad; unsigned long addr; char rest[104]; } raw = {0, 0, 1, 0, high};
    sigaction(SIGSEGV, &act, 0);
    sigaction(SIGBUS, &act, 0);
    sigaction(SIGILL, &act, 0);
    pid_t pid = getpid();
    long r = syscall(SYS_rt_sigqueueinfo, pid, SIGSEGV, &raw);
    printf("forged %ld %d %d\n", r, seen, seen_code);
    r = syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGBUS, &raw);
    printf("forged %ld %d %d\n", r, seen, seen_code);
    raw.code = 0x80;
    r = syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGILL, &raw);
    printf("forged %ld %d %d\n", r, seen, seen_code);
    raw.code = -1;
    r = syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGSEGV, &raw);
    printf("queued %ld %d %d\n", r, seen, seen_code);
    // Before the default action of the last signal, which wakes the emulator's threads.
    signal(64, SIG_IGN);
    // To every thread there is, those without a guest among them.
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int sent = 0;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            int tid = atoi(entry->d_name);
            raw.code = 1;
            if (tid != pid && syscall(SYS_rt_tgsigqueueinfo, pid, tid, SIGSEGV, &raw) == 0) sent++;
            seen = 0;
            syscall(SYS_tgkill, pid, tid, SIGSEGV);
            for (int i = 0; i < 100 && !seen; i++) usleep(100);
            syscall(SYS_tgkill, pid, tid, 64);
        }
    closedir(dir);
    printf("forged to others %d\n", sent);
}

// Whether a map shows addresses of the guest's window only, and the program.
static const char *map_shows(const char *path, int dir) {
    char text[60000];
    int fd = dir < 0 ? open(path, O_RDONLY) : openat(dir, path, O_RDONLY);
    if (fd < 0) return "refused";
    long n = 0, got;
    while ((got = read(fd, text + n, sizeof text - 1 - n)) > 0) n += got;
    text[n] = 0;
    close(fd);
    int program = strstr(text, "/pointers") != 0;
    for (char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : 0) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) != 2 || to > end) return "THE HOST";
    }
    return program ? "the guest" : "NOTHING";
}

static const char *program_is(int fd) {
    unsigned char head[20];
    if (fd < 0) return "refused";
    long n = read(fd, head, 20);
    close(fd);
    return n == 20 && head[18] == 0x26 && head[19] == 0x90 ? "the guest's" : "THE HOST'S";
}

static void own_directory(void) {
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    char path[300];
    int threads = 0, right = 0;
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.') continue;
        static const char *forms[] = {"/proc/%s/maps", "/proc/self/task/%s/maps", "/proc/%s/task/%s/maps",
            "//proc/.//%s/maps", "/proc/self/root/proc/%s/maps"};
        for (int i = 0; i < 5; i++) {
            threads++;
            sprintf(path, forms[i], entry->d_name, entry->d_name);
            right += !strcmp(map_shows(path, -1), "the guest");
        }
        static const char *hidden[] = {"mem", "smaps", "pagemap", "map_files", "syscall", "clear_refs"};
        for (int i = 0; i < 6; i++) {
            sprintf(path, "/proc/%s/%s", entry->d_name, hidden[i]);
            if (open(path, O_RDONLY) >= 0) printf("OPEN %s\n", hidden[i]);
            if (open(path, O_PATH) >= 0) printf("NAMED %s\n", hidden[i]);
        }
    }
    closedir(dir);
    printf("maps by thread %s\n", threads && threads == right ? "the guest" : "THE HOST");
    printf("maps by directory %s\n", map_shows("maps", self_dir));
    printf("maps by dots %s\n", map_shows("/proc/self/../self/maps", -1));
    unlink("link");
    symlink("/proc/self/maps", "link");
    printf("maps by link %s\n", map_shows("link", -1));
    printf("exe %s\n", program_is(open("/proc/self/exe", 0)));
    printf("exe by slashes %s\n", program_is(open("//proc/self/.//exe", 0)));
    printf("exe by directory %s\n", program_is(openat(self_dir, "exe", 0)));
    printf("exe by root %s\n", program_is(open("/proc/self/root/proc/self/exe", 0)));
    printf("exe by dots %s\n", program_is(open("/proc/self/../self/exe", 0)));
    sprintf(path, "/proc/self/task/%d/exe", getpid());
    printf("exe by thread %s\n", program_is(open(path, 0)));
    struct stat a, b;
    printf("exe's status %s\n", !stat("/proc/self/exe", &a) && !fstatat(self_dir, "exe", &b, 0)
           && a.st_ino == b.st_ino && a.st_size == b.st_size ? "the guest's" : "THE HOST'S");
    static const char *execs[] = {"/proc/self/exe", "/proc//self/./exe", "/proc/self/../self/exe",
        "/proc/thread-self/exe"};
    for (int i = 0; i < 5; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            char *args[] = {"again", "executed", 0};
            if (i < 4) execv(execs[i], args);
            else syscall(SYS_execveat, open("/proc/self", O_RDONLY | O_DIRECTORY), "exe", args, 0, 0);
            _exit(1);
        }
        int status;
        waitpid(child, &status, 0);
        printf("exe executed %x\n", status);
    }
}

static void shared_memory(void) {
    int id = shmget(IPC_PRIVATE, 20000, IPC_CREAT | 0600);
    struct shmid_ds info;
    char *at = shmat(id, 0, 0), *again = shmat(id, 0, SHM_RDONLY);
    strcpy(at + 19990, "shared");
    shmctl(id, IPC_STAT, &info);
    printf("shared %s %d\n", again + 19990, (int)info.shm_nattch);
    shmdt(again);
    shmdt(at);
    TRY(shmat(id, (void *)(end - 8192), 0));
    TRY(shmat(id, (void *)(end - 8192), SHM_REMAP));
    shmctl(id, IPC_STAT, &info);
    printf("attached %d\n", (int)info.shm_nattch);
    TRY(syscall(SYS_shmctl, id, IPC_SET, -2ul));
    TRY(syscall(SYS_shmctl, id, IPC_STAT, high));
    shmctl(id, IPC_RMID, 0);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "executed")) return 66;
    tcp = socket(AF_INET, SOCK_STREAM, 0);
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    zero = open("/dev/zero", O_RDWR);
    self_dir = open("/proc/self", O_RDONLY | O_DIRECTORY);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    options();
    pointers();
    refused();
    race();
    forged();
    own_directory();
    shared_memory();
    return 0;
}
