// Calls whose arguments are structures, flags and names: what --strace makes of them.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void handler(int signal) { (void)signal; }

int main(void)
{
    // The trace holds numbers: whatever files this program was handed are not to shift them.
    for (int handed = 3; handed < 64; handed++) close(handed);
    int fd = open("data", O_CREAT | O_RDWR | O_TRUNC, 0600);
    struct iovec pieces[2] = { { "hello\n", 6 }, { "world", 5 } };
    writev(fd, pieces, 2);
    struct stat st;
    syscall(SYS_fstat64, fd, &st);
    lseek(fd, 0, SEEK_SET);
    char a[4], b[20];
    struct iovec room[2] = { { a, 4 }, { b, 20 } };
    readv(fd, room, 2);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 2 };
    fcntl(fd, F_SETLK, &lock);

    int ends[2];
    pipe2(ends, O_CLOEXEC);
    write(ends[1], "x", 1);
    struct pollfd polls[2] = { { ends[0], POLLIN, 0 }, { ends[1], POLLIN, 0 } };
    poll(polls, 2, 1000);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = 0x123 };
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    epoll_wait(epoll, &event, 1, 0);

    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigaddset(&action.sa_mask, SIGINT);
    sigaction(SIGUSR1, &action, 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, 0);

    struct timespec moment = { 0, 1000 };
    syscall(SYS_nanosleep, &moment, 0);
    struct rlimit limit = { 0, RLIM_INFINITY };
    setrlimit(RLIMIT_CORE, &limit);
    int child = fork();
    if (child == 0) _exit(3);
    int status;
    syscall(SYS_wait4, child, &status, 0, 0);
    if (fork() == 0) {
        limit.rlim_max = 0;
        setrlimit(RLIMIT_CORE, &limit);
        kill(getpid(), SIGKILL);
    }
    syscall(SYS_wait4, -1, &status, 0, 0);

    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int on = 1;
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    bind(sock, (struct sockaddr *)&address, sizeof address);
    shutdown(sock, SHUT_WR);
    int both[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, both);
    struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 2 };
    sendmsg(both[0], &message, MSG_NOSIGNAL);

    mkdir("folder", 0700);
    close(open("folder/entry", O_RDWR | O_CREAT, 0600));
    int folder = open("folder", O_RDONLY | O_DIRECTORY);
    syscall(SYS_getdents64, -1, b, 4);
    char entries[1024];
    syscall(SYS_getdents64, folder, entries, sizeof entries);
    struct winsize size;
    ioctl(fd, TIOCGWINSZ, &size);
    // Not the program's memory.
    syscall(SYS_rt_sigaction, SIGUSR1, 0x10, 0, 8, 0);
    return 0;
}
