// Processes: fork, vfork, spawn, exec of programs and scripts, and the files of /proc/self.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <signal.h>
extern char**environ;
int main(int c, char**v) {
    if (c>1) {
        printf("child %d", c);
        for (int i = 0; i<c; i++)printf(" <%s>", strrchr(v[i], '/') ? strrchr(v[i], '/') : v[i]);
        printf(" %s\n", getenv("FOO"));
        return 11;
    }
    setenv("FOO", "bar", 1);
    char exe[300] = {0};
    readlink("/proc/self/exe", exe, 299);
    printf("exe %s\n", strrchr(exe,'/'));
    fflush(stdout);
    int st;
    pid_t p;
    char*a[] = {"argzero", "x", "-L", "--y", 0};
    if (!(p = fork())) {
        execv("/proc/self/exe", a);
        _exit(99);
    }
    waitpid(p, &st, 0);
    printf("st %x\n", st);
    fflush(stdout);
    if (!(p = vfork())) {
        execv(exe, a);
        _exit(99);
    }
    waitpid(p, &st, 0);
    printf("st %x\n", st);
    fflush(stdout);
    int r = posix_spawn(&p, exe, 0, 0, a, environ);
    waitpid(p, &st, 0);
    printf("spawn %d st %x\n", r, st);
    fflush(stdout);
    r = posix_spawn(&p,"/nonexistent", 0, 0, a, environ);
    printf("spawn %d\n", r);
    fflush(stdout);
    r = system("echo sh $FOO; exit 3");
    printf("sys %x\n", r);
    fflush(stdout);
    FILE*f = popen("cat /proc/self/comm", "r");
    char b[99];
    fgets(b, 99, f);
    printf("popen %s", b);
    pclose(f);
    FILE*s = fopen("scr", "w");
    fprintf(s,"#!%s  one arg\n", exe);
    fclose(s);
    chmod("scr", 0755);
    fflush(stdout);
    if (!(p = fork())) {
        execl("./scr", "zzz", "tail", NULL);
        perror("x");
        _exit(99);
    }
    waitpid(p, &st, 0);
    printf("st %x\n", st);
    execl("/nonexistent", "x", NULL);
    printf("%m\n");
    execl("/tmp", "x", NULL);
    printf("%m\n");
    execl("/etc/passwd", "x", NULL);
    printf("%m\n");
    char*big = malloc(10000);
    f = fopen("/proc/self/cmdline", "r");
    r = fread(big, 1, 9999, f);
    fclose(f);
    printf("cmd %d %s\n", r, strrchr(big,'/'));
    f = fopen("/proc/self/maps", "r");
    int stack = 0, heap = 0, n = 0;
    while (fgets(big, 9999, f)) {
        n++;
        if (strstr(big,"[stack]"))stack++;
        if (strstr(big,"[heap]"))heap++;
    }
    fclose(f);
    printf("maps %d %d %d\n", n>8, stack, heap);
    f = fopen("/proc/cpuinfo", "r");
    fgets(big, 999, f);
    printf("%s", big);
    fclose(f);
    printf("mem %d %m\n", open("/proc/self/mem", O_RDWR));
    return 0;
}
