// Conventions of system calls: results in registers, error numbers, flags, structures.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#include <errno.h>
#include <stdlib.h>
#include <pty.h>
#include <termios.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/wait.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/statfs.h>
#include <sys/times.h>
#include <sys/shm.h>
#include "raw.h"
int main() {
    long e, s, r;
    r = raw6(42, 0, 0, 0, 0, 0, 0, &e, &s);
    printf("pipe %d %ld %ld\n", r>2, s-r, e);
    close(r);
    close(s);
    r = raw6(20, 0, 0, 0, 0, 0, 0, &e, &s);
    printf("getxpid %d %d %ld\n", r == getpid(), s == getppid(), e);
    r = raw6(24, 0, 0, 0, 0, 0, 0, &e, &s);
    printf("getxuid %d %d %ld\n", r == getuid(), s == geteuid(), e);
    r = raw6(47, 0, 0, 0, 0, 0, 0, &e, &s);
    printf("getxgid %d %d %ld\n", r == getgid(), s == getegid(), e);
    setpriority(PRIO_PROCESS, 0, 5);
    r = raw6(100, 0, 0, 0, 0, 0, 0, &e, &s);
    printf("getpriority %ld %ld\n", r, e);
    r = raw6(0, 39, 0, 0, 0, 0, 0, &e, &s);
    printf("zero %ld %ld\n", r, e);
    r = raw6(9999, 0, 0, 0, 0, 0, 0, &e, &s);
    printf("unknown %ld %ld\n", r, e);
    r = raw6(545, 0, 0, 0, 0, 0, 0, &e, &s);
    printf("clone3 %ld %ld\n", r, e);
    r = raw6(48, 3, 0xffffffffffffffff, 0, 0, 0, 0, &e, &s);
    r = raw6(48, 3, 0, 0, 0, 0, 0, &e, &s);
    printf("mask %lx %ld\n", r, e);
    r = raw6(48, 9, 0, 0, 0, 0, 0, &e, &s);
    printf("mask bad %ld %ld\n", r, e);
    long cur = raw6(17, 0, 0, 0, 0, 0, 0, &e, &s);
    printf("brk0 %ld\n", e);
    r = raw6(17, cur+65536, 0, 0, 0, 0, 0, &e, &s);
    printf("brk+ %ld %ld\n", r-cur, e);
    memset((void*)cur, 1, 65536);
    r = raw6(17, 1L<<50, 0, 0, 0, 0, 0, &e, &s);
    printf("brk big %ld %ld\n", r, e);
    r = raw6(17, 8192, 0, 0, 0, 0, 0, &e, &s);
    printf("brk low %ld %ld\n", r, e);
    int fd[2];
    pid_t p = fork();
    if (!p)_exit(0);
    waitpid(p, 0, 0);
    p = vfork();
    if (!p)_exit(4);
    int st;
    waitpid(p, &st, 0);
    printf("vfork %x\n", st);
    // mmap
    char*m = mmap(0, 8192*4, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    printf("align %ld\n", (long)m%8192);
    munmap(m+8192, 8192);
    m[0] = 1;
    m[16384] = 1;
    printf("fixed %d\n", mmap(m+8192, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED, -1, 0) == m+8192);
    errno = 0;
    mmap(m+4096, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED, -1, 0);
    printf("fixed4k %d\n", errno);
    errno = 0;
    mmap((void*)(1L<<45), 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED, -1, 0);
    printf("outside %d\n", errno);
    errno = 0;
    mmap(m, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED_NOREPLACE, -1, 0);
    printf("noreplace %d\n", errno);
    errno = 0;
    munmap(m+1, 10);
    printf("munmap %d\n", errno);
    errno = 0;
    mprotect(m, 8192*1000, PROT_READ);
    printf("mprotect %d\n", errno);
    mprotect(m, 8192*4, PROT_READ|PROT_WRITE);
    m[8192] = 7;
    madvise(m+8192, 8192, MADV_DONTNEED);
    printf("dontneed %d\n", m[8192]);
    char*m2 = mremap(m, 8192*4, 8192*40, MREMAP_MAYMOVE);
    printf("mremap %d %d\n", m2 != MAP_FAILED, m2[0]);
    int f = open("f8", O_RDWR|O_CREAT|O_TRUNC, 0644);
    for (int i = 0; i<5000; i++)write(f, &i, 4);
    int*q = mmap(0, 20000, PROT_READ, MAP_PRIVATE, f, 8192);
    printf("fmap %d %d %d\n", q[0], q[2951], q[2952]);
    errno = 0;
    mmap(0, 8192, PROT_READ, MAP_PRIVATE, f, 4096);
    printf("off4k %d\n", errno);
    // stat
    struct stat a, b;
    fstat(f, &a);
    stat("f8", &b);
    printf("stat %d %lo %ld %ld %d\n", a.st_ino == b.st_ino, (long)a.st_mode, (long)a.st_size, (long)a.st_nlink, a.st_mtim.tv_nsec == b.st_mtim.tv_nsec);
    struct statx sx;
    statx(AT_FDCWD,"f8", 0, STATX_ALL, &sx);
    printf("statx %lu %d\n", (long)sx.stx_size, sx.stx_ino == a.st_ino);
    printf("flags %o\n", fcntl(f, F_GETFL)&~O_LARGEFILE&~0400000);
    fcntl(f, F_SETFL, O_APPEND|O_NONBLOCK);
    printf("flags %o\n", fcntl(f, F_GETFL)&~0400000);
    struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    printf("lock %d\n", fcntl(f, F_SETLK, &fl));
    if (!(p = fork())) {
        struct flock g = fl;
        fcntl(f, F_GETLK, &g);
        _exit(g.l_type == F_WRLCK && g.l_pid == getppid());
    }
    waitpid(p, &st, 0);
    printf("getlk %x\n", st);
    // errors
#define E(x) do{errno=0;long r_=(long)(x);printf("%-46s %d %d\n",#x,r_==-1,errno);}while(0)
    E(open("/nonexistent", 0));
    E(open("/tmp", O_WRONLY));
    E(mkdir("/tmp", 0));
    mkdir("full", 0755);
    mkdir("full/x", 0755);
    E(rmdir("full"));
    rmdir("full/x");
    rmdir("full");
    E(close(999));
    E(read(f, (void*)1, 10));
    E(lseek(0x7fffffff, 0, 0));
    int u = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un un = {AF_UNIX,"/nonexist/x"};
    E(connect(u, (void*)&un, sizeof un));
    E(listen(f, 1));
    E(accept(u, 0, 0));
    int t = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);
    printf("cloexec %d nonblock %d\n", fcntl(t, F_GETFD), (fcntl(t, F_GETFL)&O_NONBLOCK) != 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    E(connect(t, (void*)&in, sizeof in));
    E(bind(t, (void*)&un, 5));
    E(getpeername(t, (void*)&in, (socklen_t[]) {16}));
    E(setsockopt(t, SOL_SOCKET, 9999, &st, 4));
    E(send(u,"x", 1, MSG_NOSIGNAL));
    E(socket(77, 1, 0));
    E(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    E(symlink("loop", "loop"));
    E(open("loop", 0));
    unlink("loop");
    char nm[5000];
    memset(nm,'a', 4999);
    nm[4999] = 0;
    E(open(nm, 0));
    nm[0]='/';
    nm[300] = 0;
    E(open(nm, 0));
    E(getcwd(nm, 2)?0:-1);
    E(readlink("/tmp", nm, 10));
    E(pread(0, nm, 1, -1));
    E(fcntl(f, 12345));
    E(poll((void*)8, 1, 0));
    E(nanosleep((struct timespec[]) {{0, 2000000000}}, 0));
    E(waitpid(-1, 0, 0));
    E(kill(getpid(), 99));
    E(dup2(0, -1));
    E(execl("f8", "x", NULL));
    E(ioctl(f, TCGETS, nm));
    E(epoll_ctl(f, 1, 0, 0));
    // sockets
    int l = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, 4);
    in.sin_port = 0;
    bind(l, (void*)&in, sizeof in);
    listen(l, 5);
    socklen_t sl = sizeof in;
    getsockname(l, (void*)&in, &sl);
    int ty;
    sl = 4;
    getsockopt(l, SOL_SOCKET, SO_TYPE, &ty, &sl);
    int rc;
    getsockopt(l, SOL_SOCKET, SO_ACCEPTCONN, &rc, &sl);
    printf("type %d acceptconn %d\n", ty, rc);
    if (!(p = fork())) {
        int c = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c, (void*)&in, sizeof in))_exit(1);
        write(c,"hi there", 8);
        char bb[10];
        int n = read(c, bb, 10);
        _exit(n);
    }
    int c = accept(l, 0, 0);
    char bb[20] = {0};
    r = recv(c, bb, 8, MSG_WAITALL);
    printf("tcp %ld %s\n", r, bb);
    send(c,"abc", 3, 0);
    waitpid(p, &st, 0);
    printf("st %x\n", st);
    close(c);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, fd);
    struct iovec iv[2] = {{"ab", 2}, {"cde", 3}};
    char cb[CMSG_SPACE(4)];
    struct msghdr mh = {.msg_iov = iv, .msg_iovlen = 2, .msg_control = cb, .msg_controllen = sizeof cb};
    struct cmsghdr*cm = CMSG_FIRSTHDR(&mh);
    cm->cmsg_level = SOL_SOCKET;
    cm->cmsg_type = SCM_RIGHTS;
    cm->cmsg_len = CMSG_LEN(4);
    memcpy(CMSG_DATA(cm), &f, 4);
    printf("sendmsg %ld\n", (long)sendmsg(fd[0], &mh, 0));
    char rb[10] = {0};
    struct iovec ri = {rb, 10};
    struct msghdr rh = {.msg_iov = &ri, .msg_iovlen = 1, .msg_control = cb, .msg_controllen = sizeof cb};
    memset(cb, 0, sizeof cb);
    r = recvmsg(fd[1], &rh, 0);
    cm = CMSG_FIRSTHDR(&rh);
    int nf;
    memcpy(&nf, CMSG_DATA(cm), 4);
    struct stat ns;
    fstat(nf, &ns);
    printf("recvmsg %ld %s %d %d\n", r, rb, cm->cmsg_level == SOL_SOCKET, ns.st_ino == a.st_ino);
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {EPOLLIN, {.u64 = 0x123456789abcdef}};
    epoll_ctl(ep, EPOLL_CTL_ADD, fd[1], &ev);
    printf("epoll0 %d\n", epoll_wait(ep, &ev, 1, 0));
    write(fd[0],"x", 1);
    memset(&ev, 0, sizeof ev);
    r = epoll_wait(ep, &ev, 1, 1000);
    printf("epoll %ld %x %lx\n", r, ev.events, (long)ev.data.u64);
    struct pollfd pf = {fd[1], POLLIN, 0};
    printf("poll %d %x\n", poll(&pf, 1, 0), pf.revents);
    fd_set fs;
    FD_ZERO(&fs);
    FD_SET(fd[1], &fs);
    struct timeval tv = {1, 0};
    printf("select %d\n", select(fd[1]+1, &fs, 0, 0, &tv));
    int ef = eventfd(5, EFD_NONBLOCK|EFD_CLOEXEC);
    long v;
    read(ef, &v, 8);
    printf("eventfd %ld\n", v);
    E(read(ef, &v, 8));
    int tf = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec its = {{0, 0}, {0, 1000000}};
    timerfd_settime(tf, 0, &its, 0);
    read(tf, &v, 8);
    printf("timerfd %ld\n", v);
    // termios
    int ma, sv;
    struct termios tio;
    struct winsize ws = {24, 80, 1, 2};
    openpty(&ma, &sv, 0, 0, &ws);
    tcgetattr(sv, &tio);
    printf("tio %x %x %x %x %d %d:", tio.c_iflag, tio.c_oflag, tio.c_cflag, tio.c_lflag, cfgetispeed(&tio) == B38400, tio.c_line);
    for (int i = 0; i<18; i++)printf(" %d", tio.c_cc[i]);
    puts("");
    cfmakeraw(&tio);
    tio.c_cc[VMIN] = 3;
    tio.c_cc[VTIME] = 7;
    cfsetspeed(&tio, B115200);
    tcsetattr(sv, TCSANOW, &tio);
    memset(&tio, 0, sizeof tio);
    tcgetattr(sv, &tio);
    printf("raw %x %x %x %x %d %d %d\n", tio.c_iflag, tio.c_oflag, tio.c_cflag, tio.c_lflag, tio.c_cc[VMIN], tio.c_cc[VTIME], cfgetospeed(&tio) == B115200);
    memset(&ws, 0, sizeof ws);
    ioctl(sv, TIOCGWINSZ, &ws);
    printf("ws %d %d\n", ws.ws_row, ws.ws_col);
    printf("tty %d %d\n", isatty(sv), isatty(f));
    write(ma,"abc", 3);
    // The terminal passes input on in its own time.
    int nr = 0;
    for (int i = 0; i < 1000 && nr != 3; i++) {
        usleep(1000);
        ioctl(sv, FIONREAD, &nr);
    }
    printf("fionread %d\n", nr);
    struct rlimit rl;
    getrlimit(RLIMIT_NOFILE, &rl);
    printf("nofile %d\n", rl.rlim_cur>10);
    getrlimit(RLIMIT_CPU, &rl);
    printf("cpu %d\n", rl.rlim_max == RLIM_INFINITY);
    struct statfs sf;
    printf("statfs %d %d\n", statfs("/tmp", &sf), sf.f_bsize>0 && sf.f_blocks>0);
    printf("clk %ld\n", sysconf(_SC_CLK_TCK));
    struct tms tm;
    printf("times %d\n", times(&tm) != -1);
    printf("gethostname %d\n", gethostname(nm, 100));
    printf("ttyname %d\n", ttyname(sv) != 0);
    int id = shmget(IPC_PRIVATE, 20000, 0600|IPC_CREAT);
    char*sm = shmat(id, 0, 0);
    printf("shm %d\n", sm != (void*)-1);
    if (sm != (void*)-1) {
        sm[0] = 9;
        if (!(p = fork())) {
            sm[1] = 8;
            _exit(0);
        }
        waitpid(p, 0, 0);
        printf("%d %d\n", sm[1], shmdt(sm));
        struct shmid_ds ds;
        shmctl(id, IPC_STAT, &ds);
        printf("seg %ld\n", (long)ds.shm_segsz);
    }
    shmctl(id, IPC_RMID, 0);
    return 0;
}
