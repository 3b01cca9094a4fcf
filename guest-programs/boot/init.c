/* The first program of the kernel's own test: makes the kernel work - processes, pipes, page
   faults, copies on write, unaligned data, floating point - checks what comes of it, and powers off.
   Freestanding; run by tests of `axplab boot`. NEVER run it but in a machine of its own: it ends in
   reboot(). */

typedef unsigned long u64;
typedef long s64;

enum { EXIT = 1, FORK = 2, READ = 3, WRITE = 4, CLOSE = 6, LSEEK = 19, GETXPID = 20, UMOUNT2 = 22, PIPE = 42,
       OPEN = 45, MMAP = 71, FSYNC = 95, SOCKET = 97, CONNECT = 98, ACCEPT = 99, SEND = 101, RECV = 102, BIND = 104,
       LISTEN = 106, SHUTDOWN = 134, MKDIR = 136, MOUNT = 302, REBOOT = 311, YIELD = 334, NANOSLEEP = 340,
       WAIT4 = 365 };
/* Flags of open. */
enum { READ_ONLY = 0, READ_WRITE = 2, CREATE = 01000 };

static s64 second; /* what a call returns in $20 */

static s64 call(s64 number, s64 a, s64 b, s64 c, s64 d, s64 e, s64 f)
{
    register s64 v0 __asm__("$0") = number;
    register s64 a0 __asm__("$16") = a;
    register s64 a1 __asm__("$17") = b;
    register s64 a2 __asm__("$18") = c;
    register s64 a3 __asm__("$19") = d;
    register s64 a4 __asm__("$20") = e;
    register s64 a5 __asm__("$21") = f;
    __asm__ volatile("callsys"
                     : "+r"(v0), "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3), "+r"(a4), "+r"(a5)
                     :
                     : "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$22", "$23", "$24", "$25",
                       "$27", "$28", "memory");
    second = a4;
    return a3 ? -v0 : v0;
}

static void say(const char *text)
{
    u64 length = 0;
    while (text[length])
        length++;
    call(WRITE, 1, (s64)text, length, 0, 0, 0);
}

static void finish(void)
{
    call(REBOOT, 0xfee1dead, 672274793, 0x4321fedc, 0, 0, 0);
    for (;;)
        ;
}

static void check(int right, const char *what)
{
    if (right)
        return;
    say("init: wrong: ");
    say(what);
    say("\n");
    finish();
}

/* Children that count down through a pipe; their exit statuses come back. */
static void processes(void)
{
    s64 in = call(PIPE, 0, 0, 0, 0, 0, 0), out = second;
    static volatile s64 shared = 5;
    for (s64 i = 0; i < 20; i++) {
        s64 pid = call(FORK, 0, 0, 0, 0, 0, 0);
        if (second) { /* the child */
            shared = i;
            call(WRITE, out, (s64)&shared, 8, 0, 0, 0);
            call(EXIT, i, 0, 0, 0, 0, 0);
        }
        s64 got = -1;
        int status = 0;
        check(pid > 0, "fork");
        check(call(READ, in, (s64)&got, 8, 0, 0, 0) == 8 && got == i, "pipe");
        check(call(WAIT4, pid, (s64)&status, 0, 0, 0, 0) == pid && status == i << 8, "wait4");
        check(shared == 5, "a page that was written by another process");
    }
}

static void memory(void)
{
    /* Read, write; private, anonymous: 0x12. */
    char *at = (char *)call(MMAP, 0, 4096 * 1024, 3, 0x12, -1, 0);
    u64 sum = 0;
    for (u64 i = 0; i < 512; i++)
        at[i * 8192 + i] = (char)i;
    for (u64 i = 0; i < 512; i++)
        sum += (u64)(unsigned char)at[i * 8192 + i] + (u64)at[i * 8192 + i + 1];
    check(sum == 2 * 255 * 128, "pages");
    /* The kernel puts unaligned data together. */
    *(volatile u64 *)(at + 64) = 0x1122334455667788;
    *(volatile u64 *)(at + 72) = 0x99;
    check(*(volatile u64 *)(at + 65) == 0x9911223344556677, "unaligned load");
    *(volatile unsigned *)(at + 131) = 0xabcdef01;
    check(at[131] == 1 && (unsigned char)at[134] == 0xab, "unaligned store");
}

static void arithmetic(void)
{
    volatile double third = 3.0;
    double sum = 0;
    for (int i = 0; i < 1000; i++) {
        sum += i / third;
        /* Another process uses the registers in between. */
        if (i % 100 == 0) {
            s64 pid = call(FORK, 0, 0, 0, 0, 0, 0);
            if (second) {
                volatile double other = 1.5;
                call(EXIT, (s64)(other * 2), 0, 0, 0, 0, 0);
            }
            call(WAIT4, pid, 0, 0, 0, 0, 0);
        }
    }
    check(sum > 166499.99 && sum < 166500.01, "floating point");
}

static void calls(void)
{
    s64 pid = call(GETXPID, 0, 0, 0, 0, 0, 0);
    for (int i = 0; i < 20000; i++)
        check(call(GETXPID, 0, 0, 0, 0, 0, 0) == pid, "getxpid");
}

__asm__(".globl _start\n"
        ".ent _start\n"
        "_start: br $27, 1f\n"
        "1: ldgp $29, 0($27)\n"
        "   mov $30, $16\n"
        "   jsr $26, begin\n"
        ".end _start\n");

/* Says again what is typed, a line. */
static void echo(void)
{
    char line[80];
    s64 length = call(READ, 0, (s64)line, sizeof line, 0, 0, 0);
    say("init: read ");
    call(WRITE, 1, (s64)line, length, 0, 0, 0);
}

/* Says a text and a number. */
static void say_number(const char *text, u64 number)
{
    char digits[24];
    int at = sizeof digits;
    digits[--at] = 0;
    digits[--at] = '\n';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    say(text);
    say(digits + at);
}

static char buffer[65536] __attribute__((aligned(8)));

static u64 mix(u64 x)
{
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

static void fill(u64 seed)
{
    for (u64 i = 0; i < sizeof buffer / 8; i++)
        ((u64 *)buffer)[i] = seed = mix(seed);
}

static void check_filled(u64 seed, const char *what)
{
    for (u64 i = 0; i < sizeof buffer / 8; i++)
        check(((u64 *)buffer)[i] == (seed = mix(seed)), what);
}

/* Opens the disk, which is there only where the machine has one. */
static s64 disk(s64 flags)
{
    call(MKDIR, (s64)"/dev", 0755, 0, 0, 0, 0);
    call(MOUNT, (s64)"none", (s64)"/dev", (s64)"devtmpfs", 0, 0, 0);
    return call(OPEN, (s64)"/dev/vda", flags, 0, 0, 0, 0);
}

/* The disk is read; nobody has asked for more. */
static void look_at_disk(void)
{
    s64 file = disk(READ_ONLY);
    if (file < 0)
        return;
    s64 length = call(READ, file, (s64)buffer, sizeof buffer, 0, 0, 0);
    check(length > 0, "reading the disk");
    say_number("init: bytes read from /dev/vda: ", length);
    call(CLOSE, file, 0, 0, 0, 0, 0);
}

/* Writes the first 4 MB of the disk itself, and reads them with nothing in memory any more. */
static void write_disk(void)
{
    enum { PIECES = 64, DROP = 0x1261 /* BLKFLSBUF */, IOCTL = 54 };
    s64 file = disk(READ_WRITE);
    check(file >= 0, "opening the disk");
    for (u64 i = 0; i < PIECES; i++) {
        fill(i + 1);
        check(call(WRITE, file, (s64)buffer, sizeof buffer, 0, 0, 0) == sizeof buffer, "writing");
    }
    check(call(FSYNC, file, 0, 0, 0, 0, 0) == 0, "fsync");
    call(IOCTL, file, 0x20000000 | DROP, 0, 0, 0, 0);
    check(call(LSEEK, file, 0, 0, 0, 0, 0) == 0, "lseek");
    for (u64 i = 0; i < PIECES; i++) {
        check(call(READ, file, (s64)buffer, sizeof buffer, 0, 0, 0) == sizeof buffer, "reading");
        check_filled(i + 1, "what the disk holds");
    }
    call(CLOSE, file, 0, 0, 0, 0, 0);
    say("init: the disk holds what was written\n");
}

static void mount_disk(void)
{
    call(CLOSE, disk(READ_ONLY), 0, 0, 0, 0, 0);
    call(MKDIR, (s64)"/mnt", 0755, 0, 0, 0, 0);
    check(call(MOUNT, (s64)"/dev/vda", (s64)"/mnt", (s64)"ext4", 0, 0, 0) == 0, "mounting /dev/vda");
}

/* A file on the disk: checked if it is there, and written anew. */
static void use_files(void)
{
    mount_disk();
    s64 file = call(OPEN, (s64)"/mnt/file", READ_ONLY, 0, 0, 0, 0);
    if (file >= 0) {
        for (u64 i = 0; i < 16; i++) {
            check(call(READ, file, (s64)buffer, sizeof buffer, 0, 0, 0) == sizeof buffer, "reading the file");
            check_filled(100 + i, "what the file holds");
        }
        call(CLOSE, file, 0, 0, 0, 0, 0);
        say("init: the file is there from last time\n");
    }
    file = call(OPEN, (s64)"/mnt/file", READ_WRITE | CREATE, 0644, 0, 0, 0);
    check(file >= 0, "creating a file");
    for (u64 i = 0; i < 16; i++) {
        fill(100 + i);
        check(call(WRITE, file, (s64)buffer, sizeof buffer, 0, 0, 0) == sizeof buffer, "writing the file");
    }
    call(CLOSE, file, 0, 0, 0, 0, 0);
    check(call(UMOUNT2, (s64)"/mnt", 0, 0, 0, 0, 0) == 0, "unmounting");
    say("init: the file is written\n");
}

/* Appends numbers to a file, each on the disk before it is told; until somebody ends the machine. */
static void log_for_ever(void)
{
    mount_disk();
    s64 file = call(OPEN, (s64)"/mnt/log", READ_WRITE | CREATE, 0644, 0, 0, 0);
    check(file >= 0, "creating the log");
    for (u64 i = 0;; i++) {
        check(call(WRITE, file, (s64)&i, 8, 0, 0, 0) == 8, "writing the log");
        check(call(FSYNC, file, 0, 0, 0, 0, 0) == 0, "fsync of the log");
        say_number("init: synced ", i);
    }
}

/* Adds by LDQ_L and STQ_C. */
static void add(volatile u64 *at, u64 n)
{
    u64 value, done;
    __asm__ volatile("1: ldq_l %0,%2\n   addq %0,%3,%0\n   mov %0,%1\n   stq_c %1,%2\n   beq %1,1b"
                     : "=&r"(value), "=&r"(done), "+m"(*at)
                     : "r"(n)
                     : "memory");
}

#define MB __asm__ volatile("mb" ::: "memory")

enum { WORKERS = 4, ROUNDS = 200000, PASSES = 20000 };

/* What the workers share, a quadword in a block of memory of its own each. */
struct shared {
    volatile u64 sum[8], turn[8], inside[8], clashes[8], data[8], flag[8], ready[WORKERS][8], wants[2][8];
};

/* Several processes at a time, on as many processors as there are: sums by locked stores, data behind a flag,
   and two that keep each other out by stores and loads with a barrier between (Peterson's way). */
static void parallel(void)
{
    /* Shared, anonymous: 0x11. */
    struct shared *s = (struct shared *)call(MMAP, 0, 8192, 3, 0x11, -1, 0);
    for (u64 me = 0; me < WORKERS; me++) {
        call(FORK, 0, 0, 0, 0, 0, 0);
        if (!second)
            continue;
        for (u64 i = 0; i < ROUNDS; i++)
            add(&s->sum[0], me + 1);
        if (me < 2) {
            for (u64 i = 0; i < PASSES; i++) {
                s->wants[me][0] = 1;
                s->turn[0] = !me;
                MB;
                for (u64 n = 0; s->wants[!me][0] && s->turn[0] == !me; n++)
                    if (n % 1000 == 999)
                        call(YIELD, 0, 0, 0, 0, 0, 0);
                MB;
                s->clashes[0] += s->inside[0]++ != 0;
                s->data[1]++;
                s->inside[0]--;
                MB;
                s->wants[me][0] = 0;
            }
        } else if (me == 2) {
            for (u64 i = 1; i <= PASSES; i++) {
                s->data[0] = i * 3;
                MB;
                s->flag[0] = i;
                for (u64 n = 0; s->ready[3][0] != i; n++)
                    if (n % 1000 == 999)
                        call(YIELD, 0, 0, 0, 0, 0, 0);
            }
        } else {
            for (u64 i = 1; i <= PASSES; i++) {
                for (u64 n = 0; s->flag[0] != i; n++)
                    if (n % 1000 == 999)
                        call(YIELD, 0, 0, 0, 0, 0, 0);
                MB;
                s->clashes[1] += s->data[0] != i * 3;
                s->ready[3][0] = i;
            }
        }
        call(EXIT, 0, 0, 0, 0, 0, 0);
    }
    for (u64 me = 0; me < WORKERS; me++)
        call(WAIT4, -1, 0, 0, 0, 0, 0);
    check(s->sum[0] == ROUNDS * (1 + 2 + 3 + 4), "a sum of four");
    check(s->data[1] == 2 * PASSES && s->clashes[0] == 0, "mutual exclusion");
    check(s->data[0] == 3 * PASSES && s->clashes[1] == 0, "data behind a flag");
    say("init: four agree\n");
}

#include "measure.h"

/* The decimal number in a word, behind its letters. */
static u64 number(const char *word)
{
    u64 n = 0;
    for (; *word; word++)
        if (*word >= '0' && *word <= '9')
            n = 10 * n + (u64)(*word - '0');
    return n;
}

enum { STREAM = 1, DATAGRAM = 2, INTERNET = 2, DONE_WRITING = 1, STREAMED = 128 /* times the buffer */ };

/* The machine's own address in the guest's network. */
static const unsigned char router[4] = {10, 0, 2, 2};

/* A socket address: family, port, and the address if there is one. */
static void address(unsigned char at[16], const unsigned char *ip, u64 port)
{
    for (int i = 0; i < 16; i++)
        at[i] = 0;
    at[0] = INTERNET;
    at[2] = (unsigned char)(port >> 8);
    at[3] = (unsigned char)port;
    for (int i = 0; ip && i < 4; i++)
        at[4 + i] = ip[i];
}

static void send_all(s64 socket)
{
    for (u64 done = 0; done < sizeof buffer;) {
        s64 sent = call(WRITE, socket, (s64)(buffer + done), sizeof buffer - done, 0, 0, 0);
        check(sent > 0, "sending");
        done += (u64)sent;
    }
}

static void receive_all(s64 socket)
{
    for (u64 done = 0; done < sizeof buffer;) {
        s64 got = call(READ, socket, (s64)(buffer + done), sizeof buffer - done, 0, 0, 0);
        check(got > 0, "receiving");
        done += (u64)got;
    }
}

/* Streams 8 MB to a port of the host, whose answer is the same again; then a datagram, likewise. */
static void use_network(u64 port)
{
    unsigned char to[16];
    address(to, router, port);
    s64 socket = call(SOCKET, INTERNET, STREAM, 0, 0, 0, 0);
    check(socket >= 0, "a socket");
    check(call(CONNECT, socket, (s64)to, sizeof to, 0, 0, 0) == 0, "connecting to the host");
    for (u64 i = 0; i < STREAMED; i++) {
        fill(i + 1);
        send_all(socket);
    }
    check(call(SHUTDOWN, socket, DONE_WRITING, 0, 0, 0, 0) == 0, "shutdown");
    for (u64 i = 0; i < STREAMED; i++) {
        receive_all(socket);
        check_filled(i + 1, "what came back");
    }
    check(call(READ, socket, (s64)buffer, 1, 0, 0, 0) == 0, "the end of what came back");
    call(CLOSE, socket, 0, 0, 0, 0, 0);
    socket = call(SOCKET, INTERNET, DATAGRAM, 0, 0, 0, 0);
    check(call(CONNECT, socket, (s64)to, sizeof to, 0, 0, 0) == 0, "a datagram's address");
    fill(7);
    check(call(SEND, socket, (s64)buffer, 1400, 0, 0, 0) == 1400, "sending a datagram");
    for (u64 i = 0; i < 1400; i++)
        buffer[i] = 0;
    check(call(RECV, socket, (s64)buffer, sizeof buffer, 0, 0, 0) == 1400, "a datagram that came back");
    u64 seed = 7;
    for (u64 i = 0; i < 1400 / 8; i++)
        check(((u64 *)buffer)[i] == (seed = mix(seed)), "what the datagram holds");
    /* Nobody listens there. */
    address(to, router, 1);
    socket = call(SOCKET, INTERNET, STREAM, 0, 0, 0, 0);
    check(call(CONNECT, socket, (s64)to, sizeof to, 0, 0, 0) == -61, "being refused");
    say("init: the network carries what was sent\n");
}

/* Takes connections, each of which gets back what it sent, until one sends nothing. */
static void serve(u64 port)
{
    unsigned char at[16];
    address(at, 0, port);
    s64 socket = call(SOCKET, INTERNET, STREAM, 0, 0, 0, 0);
    check(call(BIND, socket, (s64)at, sizeof at, 0, 0, 0) == 0, "bind");
    check(call(LISTEN, socket, 5, 0, 0, 0, 0) == 0, "listen");
    say("init: listening\n");
    for (u64 all = 1; all;) {
        s64 one = call(ACCEPT, socket, 0, 0, 0, 0, 0), got;
        check(one >= 0, "accept");
        for (all = 0; (got = call(READ, one, (s64)buffer, sizeof buffer, 0, 0, 0)) > 0; all += (u64)got)
            for (s64 done = 0; done < got;) {
                s64 sent = call(WRITE, one, (s64)(buffer + done), got - done, 0, 0, 0);
                check(sent > 0, "answering");
                done += sent;
            }
        call(CLOSE, one, 0, 0, 0, 0, 0);
        say_number("init: served ", all);
    }
}

/* What the kernel does not know of its command line comes as arguments: `echo`; `sleep` for three
   seconds; `parallel`; `bench`; `disk`, which writes over the disk; `files` and `log` on the file system that
   it holds; `net5000` with port 5000 of the host; `serve80` at port 80; `leave` is what a process of `bench`
   begins with. */
void begin(const s64 *stack)
{
    if (stack[0] == 2 && ((const char *)stack[2])[0] == 'l' && ((const char *)stack[2])[1] == 'e')
        call(EXIT, 7, 0, 0, 0, 0, 0);
    say("init: started\n");
    for (s64 i = 1; i < stack[0]; i++) {
        const char *word = (const char *)stack[1 + i];
        s64 three[2] = {3, 0};
        if (word[0] == 'e' && word[1] == 'c')
            echo();
        if (word[0] == 's' && word[1] == 'l')
            call(NANOSLEEP, (s64)three, 0, 0, 0, 0, 0);
        if (word[0] == 'd' && word[1] == 'i')
            write_disk();
        if (word[0] == 'f' && word[1] == 'i')
            use_files();
        if (word[0] == 'l' && word[1] == 'o')
            log_for_ever();
        if (word[0] == 'n' && word[1] == 'e')
            use_network(number(word));
        if (word[0] == 's' && word[1] == 'e')
            serve(number(word));
        if (word[0] == 'p' && word[1] == 'a')
            parallel();
        if (word[0] == 'b' && word[1] == 'e')
            measure();
    }
    look_at_disk();
    calls();
    memory();
    processes();
    arithmetic();
    say("init: all is well\n");
    finish();
}
