/* A tour of what ordinary C programs ask of Linux and glibc, with output that depends only on
 * the arguments and on the variable AXPLAB_TEST; run in an empty, writable directory.
 *
 * Tests compare its output byte for byte with another emulator's and with the native build's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void show(const char *topic, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("%-9s", topic);
    vprintf(format, list);
    putchar('\n');
    va_end(list);
}

static void arguments(int argc, char **argv)
{
    const char *value = getenv("AXPLAB_TEST");
    show("argv", "%d arguments after the name", argc - 1);
    for (int i = 1; i < argc; i++) show("argv", "[%d] '%s'", i, argv[i]);
    show("env", "AXPLAB_TEST=%s", value ? value : "(unset)");
    setenv("AXPLAB_OWN", "set by the program", 1);
    show("env", "AXPLAB_OWN=%s", getenv("AXPLAB_OWN"));
}

static void formats(const char *argument)
{
    char text[128];
    show("stdio", "%d %u %ld %#lx %o [%5d] [%-5d] [%05d] %c %%", -42, 42u, -1234567890123L,
         0xfedcba9876543210UL, 8, 7, 7, 7, 'x');
    show("stdio", "%.3f %e %g %g %a [%10.4f]", 3.14159265, 12345.678, 1e-5, 1e20, 1.5, -2.5);
    show("stdio", "%g %g %g", INFINITY, -INFINITY, DBL_MAX);
    int n = snprintf(text, 8, "truncated to %s", argument);
    show("stdio", "snprintf %d '%s'", n, text);
    int a, b;
    double d;
    char word[16];
    n = sscanf("17 0x1f 2.75 word rest", "%d %i %lf %15s", &a, &b, &d, word);
    show("stdio", "sscanf %d: %d %d %.2f %s", n, a, b, d, word);
    char *end;
    long big = strtol("999999999999999999999", &end, 10);
    show("stdlib", "strtol %ld errno %s", big, errno == ERANGE ? "ERANGE" : "other");
    show("stdlib", "strtod %.17g %.17g", strtod("0.1", NULL), strtod("4.9406564584124654e-324", NULL));
    show("stdlib", "div %ld %ld, %d %d", 1000000007L / -13, 1000000007L % -13, -7 / 2, -7 % 2);
}

static void heap(void)
{
    enum { BLOCKS = 2000 };
    static unsigned char *block[BLOCKS];
    static size_t size[BLOCKS];
    uint64_t sum = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            if (block[i] && (next() & 1)) {
                for (size_t j = 0; j < size[i]; j++) sum = sum * 31 + block[i][j];
                free(block[i]);
                block[i] = NULL;
            } else {
                size_t wanted = 1 + next() % (i % 100 ? 600 : 200000);
                size_t keep = block[i] && size[i] < wanted ? size[i] : wanted;
                block[i] = realloc(block[i], wanted);
                if (!block[i]) exit(3);
                if (size[i] == 0) keep = 0;
                memset(block[i] + keep, i, wanted - keep);
                size[i] = wanted;
            }
            if (!block[i]) size[i] = 0;
        }
    }
    for (int i = 0; i < BLOCKS; i++) free(block[i]);
    show("malloc", "%016lx", (unsigned long)sum);
    void *aligned = NULL;
    int failed = posix_memalign(&aligned, 4096, 100);
    show("malloc", "memalign %d %d", failed, (int)((uintptr_t)aligned & 4095));
    free(aligned);
    char *zero = calloc(1000, 1000);
    int clean = 1;
    for (int i = 0; i < 1000000; i += 997) clean &= zero[i] == 0;
    show("malloc", "calloc clean %d", clean);
    free(zero);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sorting(void)
{
    enum { COUNT = 5000 };
    static uint64_t value[COUNT];
    uint64_t hash = 0;
    for (int i = 0; i < COUNT; i++) value[i] = next() % 100000;
    qsort(value, COUNT, sizeof value[0], by_value);
    for (int i = 0; i < COUNT; i++) hash = hash * 1099511628211u + value[i];
    uint64_t wanted = value[1234];
    uint64_t *found = bsearch(&wanted, value, COUNT, sizeof value[0], by_value);
    show("qsort", "%016lx min %lu max %lu found %d", (unsigned long)hash, (unsigned long)value[0],
         (unsigned long)value[COUNT - 1], found && *found == wanted);
    char words[] = "the quick brown fox jumps over the lazy dog";
    char *word[16];
    int n = 0;
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " ")) word[n++] = w;
    qsort(word, (size_t)n, sizeof word[0], by_text);
    printf("%-9s", "qsort");
    for (int i = 0; i < n; i++) printf("%s%c", word[i], i + 1 < n ? ' ' : '\n');
}

static void strings(void)
{
    char text[64] = "alpha";
    strcat(text, " axp");
    show("string", "%zu '%s' %s %s", strlen(text), text, strchr(text, 'p'), strrchr(text, 'a'));
    show("string", "%s %d %d", strstr(text, "ha a"), strcmp("a", "b") < 0, memcmp("ab", "aa", 2) > 0);
    memmove(text + 2, text, 7);
    show("string", "'%.9s' %zu %zu", text, strspn("aabbc", "ab"), strcspn("aabbc", "c"));
    for (int shift = 0; shift < 8; shift++) {
        unsigned char from[80], to[96];
        uint64_t hash = 0;
        for (int i = 0; i < 80; i++) from[i] = (unsigned char)(i * 7);
        memset(to, 0xee, sizeof to);
        memcpy(to + shift, from + (shift * 3) % 8, 61);
        for (int i = 0; i < 96; i++) hash = hash * 257 + to[i];
        show("string", "memcpy +%d %016lx", shift, (unsigned long)hash);
    }
}

static void mathematics(void)
{
    static const double x[] = { 0.1, 0.5, 1.0, 2.0, 3.14159265358979, 10.0, 100.25 };
    for (unsigned i = 0; i < sizeof x / sizeof x[0]; i++) {
        double v = x[i];
        show("libm", "%.12g sin %.12g cos %.12g exp %.12g log %.12g sqrt %.17g", v, sin(v), cos(v),
             exp(v), log(v), sqrt(v));
        show("libm", "pow %.12g atan %.12g cbrt %.12g tanh %.12g", pow(v, 1.5), atan(v), cbrt(v), tanh(v));
        show("libm", "floor %g ceil %g fmod %.12g lround %ld", floor(-v), ceil(v), fmod(v, 0.3), lround(v));
    }
    float f = 1.0f / 3.0f;
    show("libm", "float %.9g %.9g hypot %.12g ldexp %g", f, sqrtf(2.0f), hypot(3.0, 4.0), ldexp(0.75, 10));
    int exponent;
    double fraction = frexp(1234.5, &exponent);
    show("libm", "frexp %.17g %d isnan %d signbit %d", fraction, exponent, isnan(NAN) != 0, signbit(-0.0) != 0);
    show("convert", "%ld %lu %d %g %g", (long)-2.9, (unsigned long)1e19, (int)2147483647.0,
         (double)UINT64_MAX, (double)(float)16777217);
}

static void files(void)
{
    struct stat info;
    char line[64];
    FILE *f = fopen("userland.tmp", "w+");
    if (!f) {
        show("file", "fopen: %s", strerror(errno));
        return;
    }
    for (int i = 0; i < 1000; i++) fprintf(f, "line %d of the file\n", i);
    show("file", "size by ftell %ld", ftell(f));
    fseek(f, -20, SEEK_END);
    show("file", "tail '%s'", fgets(line, sizeof line, f) ? strtok(line, "\n") : "(none)");
    rewind(f);
    int lines = 0;
    while (fgets(line, sizeof line, f)) lines++;
    show("file", "%d lines, eof %d", lines, feof(f) != 0);
    fclose(f);
    stat("userland.tmp", &info);
    show("file", "stat size %ld regular %d", (long)info.st_size, S_ISREG(info.st_mode));

    int fd = open("userland.tmp", O_RDWR | O_APPEND);
    struct iovec pieces[2] = { { "gather", 6 }, { "ed\n", 3 } };
    show("file", "writev %zd", writev(fd, pieces, 2));
    char tail[16] = { 0 };
    show("file", "pread %zd '%.8s'", pread(fd, tail, 9, info.st_size), tail);
    show("file", "lseek %ld, flags append %d", (long)lseek(fd, 0, SEEK_END),
         (fcntl(fd, F_GETFL) & O_APPEND) != 0);
    show("file", "ftruncate %d", ftruncate(fd, 100));
    fstat(fd, &info);
    show("file", "fstat size %ld", (long)info.st_size);
    char *mapped = mmap(NULL, 100, PROT_READ, MAP_PRIVATE, fd, 0);
    show("mmap", "%.10s", mapped == MAP_FAILED ? "failed" : mapped);
    if (mapped != MAP_FAILED) munmap(mapped, 100);
    close(fd);

    int result = close(fd);
    show("errno", "close again %d %s", result, errno == EBADF ? "EBADF" : "other");
    result = open("no-such-file", O_RDONLY);
    show("errno", "open missing %d %s", result, strerror(errno));
    show("errno", "mkdir %d", mkdir("userland.dir", 0755));
    result = mkdir("userland.dir", 0755);
    show("errno", "mkdir again %d %s", result, errno == EEXIST ? "EEXIST" : "other");
    result = open("userland.dir", O_WRONLY);
    show("errno", "open as file %d %s", result, errno == EISDIR ? "EISDIR" : "other");
    show("file", "rename %d", rename("userland.tmp", "userland.dir/moved"));
    int entries = 0, seen = 0;
    DIR *dir = opendir("userland.dir");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        entries++;
        seen |= !strcmp(e->d_name, "moved");
    }
    if (dir) closedir(dir);
    show("dir", "%d entries, seen %d", entries, seen);
    result = unlink("userland.dir/moved");
    show("file", "unlink %d rmdir %d", result, rmdir("userland.dir"));

    int ends[2];
    char message[8] = { 0 };
    result = pipe(ends);
    show("pipe", "%d", result);
    ssize_t out = write(ends[1], "through", 7);
    ssize_t in = read(ends[0], message, 7);
    show("pipe", "%zd %zd %s", out, in, message);
    close(ends[0]);
    close(ends[1]);
}

static volatile sig_atomic_t caught;
static jmp_buf place;

static void handler(int number)
{
    caught += number == SIGUSR1 ? 1 : 100;
}

static void signals(void)
{
    struct sigaction action = { .sa_handler = handler };
    sigset_t set, old;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    show("signal", "caught %d", (int)caught);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    kill(getpid(), SIGUSR1);
    int before = caught;
    sigprocmask(SIG_SETMASK, &old, NULL);
    show("signal", "blocked %d, then %d", before, (int)caught);
    volatile int turns = 0;
    int code = setjmp(place);
    turns++;
    if (code < 3) longjmp(place, code + 1);
    show("setjmp", "code %d turns %d", code, turns);
}

static void clocks(void)
{
    struct timespec a, b;
    struct timeval wall;
    clock_gettime(CLOCK_MONOTONIC, &a);
    struct timespec nap = { 0, 2000000 };
    int slept = nanosleep(&nap, NULL);
    clock_gettime(CLOCK_MONOTONIC, &b);
    long long elapsed = (b.tv_sec - a.tv_sec) * 1000000000ll + (b.tv_nsec - a.tv_nsec);
    gettimeofday(&wall, NULL);
    time_t now = time(NULL);
    long apart = (long)(now - wall.tv_sec);
    show("clock", "slept %d, long enough %d, time agrees %d, cpu %d", slept, elapsed >= 2000000,
         apart >= -1 && apart <= 1, clock() != (clock_t)-1);
    char text[64];
    time_t moment = 1000000000;
    struct tm parts;
    gmtime_r(&moment, &parts);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %a %j", &parts);
    show("time", "%s back %ld", text, (long)timegm(&parts));
    show("sys", "page size %s, pid %d", sysconf(_SC_PAGESIZE) >= 4096 ? "sane" : "odd", getpid() > 1);
}

static void leave(void) { puts("atexit   ran"); }

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C");
    atexit(leave);
    arguments(argc, argv);
    formats(argc > 1 ? argv[1] : "eight");
    heap();
    sorting();
    strings();
    mathematics();
    files();
    signals();
    clocks();
    fflush(stdout);
    fputs("userland: this line goes to stderr\n", stderr);
    return argc > 1 ? 7 : 0;
}
