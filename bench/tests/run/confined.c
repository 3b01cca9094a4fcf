// What a program in the sandbox can reach: files, the network, what it starts, what it does to others.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRY(name, x) do { errno = 0; long r = (long)(x); \
        printf("%s %s\n", name, r != -1 ? "yes" : errno == EACCES ? "EACCES" : errno == EPERM ? "EPERM" : strerror(errno)); \
        fflush(stdout); } while (0)

static void *write_from_thread(void *unused) {
    return (void *)(long)open("secret", O_RDONLY);
}

static int connects(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    return connect(fd, (void *)&to, sizeof to);
}

static int serves(void) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : bind(fd, (void *)&at, sizeof at) ? -1 : listen(fd, 1);
}

static int started(char *const *args) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execv(args[0], args);
        _exit(errno == EACCES ? 113 : 114);
    }
    waitpid(child, &status, 0);
    return status >> 8;
}

int main(int argc, char **argv) {
    int pair[2];
    pthread_t thread;
    void *opened;
    if (argc > 2 && !strcmp(argv[1], "child")) {
        TRY("child reads the secret", open("secret", O_RDONLY));
        TRY("child's socket", socket(AF_INET, SOCK_DGRAM, 0));
        return 42;
    }
    TRY("reads the secret", open("secret", O_RDONLY));
    TRY("by way of links", open("in/link", O_RDONLY));
    TRY("by way of dots", open("in/../secret", O_RDONLY));
    TRY("by /proc", open("/proc/self/cwd/secret", O_RDONLY));
    TRY("lists the folder", open(".", O_RDONLY | O_DIRECTORY));
    pthread_create(&thread, 0, write_from_thread, 0);
    pthread_join(thread, &opened);
    printf("from a thread %s\n", opened == (void *)-1 ? "refused" : "yes");
    TRY("reads what is allowed", open("in/data", O_RDONLY));
    TRY("writes what is to be read", open("in/data", O_RDWR));
    TRY("creates beside it", open("in/new", O_WRONLY | O_CREAT, 0600));
    TRY("removes it", unlink("in/data"));
    TRY("truncates the secret", truncate("secret", 0));
    TRY("changes its mode", chmod("secret", 0777));
    TRY("renames it", rename("secret", "in/secret"));
    TRY("links it", link("secret", "out/secret"));
    TRY("creates what is allowed", open("out/new", O_RDWR | O_CREAT, 0600));
    TRY("makes a folder", mkdir("out/folder", 0700));
    TRY("removes what is allowed", unlink("out/new"));
    TRY("its own map", open("/proc/self/maps", O_RDONLY));
    TRY("its parent's map", open("/proc/1/maps", O_RDONLY));
    TRY("TCP", socket(AF_INET, SOCK_STREAM, 0));
    TRY("TCP over IPv6", socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP));
    TRY("UDP", socket(AF_INET, SOCK_DGRAM, 0));
    TRY("UDP over IPv6", socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    TRY("raw", socket(AF_INET, SOCK_RAW, 1));
    TRY("SCTP", socket(AF_INET, SOCK_STREAM, 132));
    TRY("local", socket(AF_UNIX, SOCK_STREAM, 0));
    TRY("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
    TRY("packet", socket(AF_PACKET, SOCK_RAW, 0));
    TRY("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    TRY("connects", connects(atoi(argv[1])));
    TRY("serves", serves());
    TRY("types for the user", ioctl(0, 0x5412, "x"));
    TRY("mode of a descriptor", fchmod(0, 0600));
    char *again[] = {argv[0], "child", "x", 0}, *host[] = {"/bin/true", 0};
    printf("itself %d\n", started(again));
    printf("a host program %d\n", started(host));
    return 0;
}
