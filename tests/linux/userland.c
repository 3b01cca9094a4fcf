// What an ordinary program does: stdio, malloc, files, qsort, libm, clocks, argv, environment.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <time.h>
#include <errno.h>
#include <unistd.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <dirent.h>
#include <sys/utsname.h>
static int cmp(const void*a, const void*b) {
    double x = *(double*)a, y = *(double*)b;
    return x<y?-1:x>y;
}
int main(int argc, char**argv) {
    for (int i = 1; i<argc; i++)printf("arg %d [%s]\n", i, argv[i]);
    printf("env %s\n", getenv("AXP_TEST")?:"(none)");
    double v[1000];
    unsigned s = 1;
    for (int i = 0; i<1000; i++) {
        s = s*1103515245+12345;
        v[i] = (s>>8)/3.7;
    }
    qsort(v, 1000, sizeof*v, cmp);
    for (int i = 0; i<1000; i += 97)printf("%d %.17g\n", i, v[i]);
    for (double x = 0.1; x<5; x += 0.7)printf("%.17g %.17g %.17g %.17g %.17g %a\n", sin(x), cos(x), exp(x), log(x), pow(x, 1.5), sqrt(x));
    printf("%Lf %Lg\n", (long double)1.0L/3, (long double)2e300L*1e10L);
    char*p[2000];
    size_t tot = 0;
    for (int i = 0; i<2000; i++) {
        p[i] = malloc(i*7+1);
        memset(p[i], i, i*7+1);
    }
    for (int i = 0; i<2000; i += 2)free(p[i]);
    for (int i = 1; i<2000; i += 2) {
        p[i] = realloc(p[i], i*20+1);
        for (int j = 0; j<i*7; j++)tot += (unsigned char)p[i][j];
    }
    printf("malloc %zu\n", tot);
    char*big = malloc(40<<20);
    big[0] = 1;
    big[(40<<20)-1] = 2;
    free(big);
    FILE*f = tmpfile();
    for (int i = 0; i<10000; i++)fprintf(f,"line %d %g\n", i, i/7.0);
    rewind(f);
    char buf[100];
    int n = 0;
    while (fgets(buf, 100, f))n++;
    printf("lines %d last %s", n, buf);
    struct stat st;
    fstat(fileno(f), &st);
    printf("size %ld\n", (long)st.st_size);
    fclose(f);
    char t[]="/tmp/axptXXXXXX";
    int fd = mkstemp(t);
    printf("mkstemp %d\n", fd>2);
    write(fd,"hello", 5);
    void*m = mmap(0, 8192, PROT_READ, MAP_SHARED, fd, 0);
    printf("map %.5s\n", (char*)m);
    lseek(fd, 1, SEEK_SET);
    write(fd,"E", 1);
    printf("map %.5s\n", (char*)m);
    munmap(m, 8192);
    struct stat s2;
    lstat(t, &s2);
    printf("%o %ld %d\n", s2.st_mode, (long)s2.st_size, (int)s2.st_nlink);
    unlink(t);
    printf("%d %s\n", access(t, F_OK), strerror(errno));
    errno = 0;
    open("/nonexistent/x", O_RDONLY);
    printf("%d %m\n", errno);
    errno = 0;
    open("/", O_WRONLY);
    printf("%d %m\n", errno);
    errno = 0;
    chdir("/etc/passwd");
    printf("%d %m\n", errno);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    usleep(2000);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("clock %d\n", (b.tv_sec-a.tv_sec)*1000000000L+b.tv_nsec-a.tv_nsec >= 2000000);
    time_t tt = 86400*365;
    struct tm*tm = gmtime(&tt);
    printf("%s", asctime(tm));
    struct utsname u;
    uname(&u);
    printf("%s %s\n", u.sysname, u.machine);
    printf("page %ld\n", sysconf(_SC_PAGESIZE));
    DIR*d = opendir("/proc/self/fd");
    printf("dir %d\n", d != 0);
    int k = 0;
    while (readdir(d))k++;
    printf("%d\n", k>3);
    closedir(d);
    char*line = 0;
    size_t ln = 0;
    while (getline(&line, &ln, stdin)>0)printf("in: %s", line);
    fflush(stdout);
    return 7;
}
