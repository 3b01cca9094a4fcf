/* Rows octet-stream, file-transfer and ttcp-*: bytes through a TCP connection over loopback.
 *
 * The program forks; the parent writes, the child reads, checks and acknowledges each
 * repetition. octet-stream sends SIZE bytes from memory and file-transfer SIZE bytes of a file,
 * in messages of 64 KiB; ttcp-N sends messages of N bytes. Processor time of both ends goes
 * into the line, as seconds and as a share of the time.
 */
#include "lab.h"
#include "sys.h"

#define LARGEST 65536
#define LEAST_BUFFER 8192 /* what ttcp reads with if it is not told otherwise */

struct answer { u64 bytes, errors, user, system; };

static u8 buffer[LARGEST + 256];
static struct answer answer;
static u64 total, message;
static int fd[2], file = -1;
static u64 spent, sender_user, sender_system, receiver_user, receiver_system;
static char unit[400];

/* The child: reads whole repetitions until the parent is gone. */
static void receive(int from)
{
    u64 user, system, at = 0;
    u64 most = message < LEAST_BUFFER ? LEAST_BUFFER : message;
    answer.bytes = answer.errors = 0;
    sys_cpu(&user, &system);
    for (;;) {
        u64 left = total - answer.bytes;
        i64 n = sys_read(from, buffer, left < most ? left : most);
        if (n <= 0) sys_exit(0);
        answer.errors += buffer[0] != sys_byte(at) || buffer[n - 1] != sys_byte(at + (u64)n - 1);
        at += (u64)n;
        answer.bytes += (u64)n;
        if (answer.bytes < total) continue;
        sys_cpu(&answer.user, &answer.system);
        u64 next_user = answer.user, next_system = answer.system;
        answer.user -= user, answer.system -= system;
        if (sys_write(from, &answer, sizeof answer) != sizeof answer) sys_exit(1);
        user = next_user, system = next_system;
        answer.bytes = answer.errors = at = 0;
    }
}

static void connect_ends(void)
{
    i64 error = sys_tcp_pair(fd);
    if (error < 0) sys_give_up("connect", "over loopback", error);
    i64 child = sys_fork();
    if (child < 0) sys_give_up("fork", "the receiver", child);
    if (child == 0) {
        sys_close(fd[0]);
        if (file >= 0) sys_close(file);
        receive(fd[1]);
    }
    sys_close(fd[1]);
    for (u64 i = 0; i < sizeof buffer; i++) buffer[i] = sys_byte(i);
}

static void send_all(const u8 *from, u64 bytes)
{
    while (bytes) {
        i64 n = sys_write(fd[0], from, bytes);
        if (n <= 0) sys_give_up("send", "to the receiver", n);
        from += n, bytes -= (u64)n;
    }
}

static void await(void)
{
    u8 *to = (u8 *)&answer;
    /* What Nagle's algorithm still holds back would wait for a delayed acknowledgement. */
    sys_no_delay(fd[0], 1);
    for (u64 got = 0; got < sizeof answer;) {
        i64 n = sys_read(fd[0], to + got, sizeof answer - got);
        if (n <= 0) sys_give_up("hear", "from the receiver", n);
        got += (u64)n;
    }
    sys_no_delay(fd[0], 0);
}

static void start(u64 *user, u64 *system, u64 *now)
{
    sys_cpu(user, system);
    *now = ax_now();
}

static void finish(u64 user, u64 system, u64 now)
{
    u64 user_after, system_after;
    await();
    spent += ax_now() - now;
    sys_cpu(&user_after, &system_after);
    sender_user += user_after - user, sender_system += system_after - system;
    receiver_user += answer.user, receiver_system += answer.system;
}

/* The pattern repeats after 256 bytes, so a message begins where the last one ended in it. */
static void run_memory(void)
{
    u64 user, system, now;
    start(&user, &system, &now);
    for (u64 at = 0; at < total; at += message) {
        u64 left = total - at;
        send_all(buffer + (at & 255), left < message ? left : message);
    }
    finish(user, system, now);
}

static void run_file(void)
{
    u64 user, system, now;
    start(&user, &system, &now);
    for (u64 at = 0; at < total;) {
        i64 n = sys_pread(file, buffer, message, at);
        if (n <= 0) sys_give_up("read", "the file", n);
        send_all(buffer, (u64)n);
        at += (u64)n;
    }
    finish(user, system, now);
}

static void prepare_stream(u64 size)
{
    total = size;
    message = LARGEST;
    connect_ends();
}

static void prepare_file(u64 size)
{
    file = sys_scratch_file(size, 0, 0);
    prepare_stream(size);
}

static void prepare_ttcp(u64 size)
{
    u64 messages = (8u << 20) / size;
    message = size;
    total = size * (messages < 65536 ? messages : 65536);
    connect_ends();
}

static char *put_seconds(char *at, const char *name, u64 nanoseconds)
{
    u64 micro = nanoseconds / 1000;
    at = sys_put_number(sys_put(at, name), micro / 1000000);
    at = sys_put(at, ".");
    for (u64 place = 100000; place; place /= 10) *at++ = (char)('0' + micro / place % 10);
    *at = 0;
    return at;
}

/* Tenths of a percent of the time. */
static char *put_share(char *at, const char *name, u64 nanoseconds)
{
    u64 tenths = spent / 1000 ? nanoseconds / (spent / 1000) : 0;
    at = sys_put_number(sys_put(at, name), tenths / 10);
    return sys_put_number(sys_put(at, "."), tenths % 10);
}

static u64 check(void)
{
    char *at = sys_put(unit, "bytes");
    at = put_seconds(at, " sender_user=", sender_user);
    at = put_seconds(at, " sender_system=", sender_system);
    at = put_seconds(at, " receiver_user=", receiver_user);
    at = put_seconds(at, " receiver_system=", receiver_system);
    at = put_share(at, " sender_cpu=", sender_user + sender_system);
    put_share(at, " receiver_cpu=", receiver_user + receiver_system);
    return ax_mix(ax_mix(total, answer.bytes + 1), answer.errors);
}

static u64 work(void) { return total; }

#define TTCP(n) { "ttcp-" #n, unit, n, n, n, prepare_ttcp, 0, run_memory, check, work },

const struct lab_row lab_rows[] = {
    { "octet-stream", unit, 2457600304ul, 1, 1ul << 32, prepare_stream, 0, run_memory, check, work },
    { "file-transfer", unit, 1466209043ul, 1, 1ul << 31, prepare_file, 0, run_file, check, work },
    TTCP(1) TTCP(64) TTCP(108) TTCP(112) TTCP(224) TTCP(512) TTCP(1024) TTCP(1460) TTCP(2048)
    TTCP(3072) TTCP(4096) TTCP(5120) TTCP(6144) TTCP(7168) TTCP(8192) TTCP(9216) TTCP(10240)
    TTCP(11264) TTCP(12288) TTCP(13312) TTCP(14336) TTCP(15360) TTCP(16384) TTCP(17408)
    TTCP(18432) TTCP(32768) TTCP(65536)
};
const u64 lab_row_count = sizeof lab_rows / sizeof lab_rows[0];
