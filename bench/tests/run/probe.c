/* Shows what a guest is started with, then ends as its first argument says: `exit N`, `kill N`
 * (a signal), `crash` (a store to address 16). */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        printf("argv[%d] %s\n", i, argv[i]);
    for (char **variable = environ; *variable; variable++)
        if (!strncmp(*variable, "PROBE_", 6))
            printf("%s\n", *variable);
    struct utsname name;
    uname(&name);
    printf("uname %s %s\n", name.sysname, name.machine);
    char exe[4096] = "";
    if (readlink("/proc/self/exe", exe, sizeof exe - 1) < 0)
        perror("exe");
    printf("exe %s\n", exe);
    FILE *info = fopen("/proc/cpuinfo", "r");
    char line[200];
    while (info && fgets(line, sizeof line, info))
        if (!strncmp(line, "cpu model", 9))
            printf("%s", line);
    fflush(stdout);
    if (argc > 2 && !strcmp(argv[1], "exit"))
        return atoi(argv[2]);
    if (argc > 2 && !strcmp(argv[1], "kill"))
        raise(atoi(argv[2]));
    if (argc > 1 && !strcmp(argv[1], "crash"))
        *(volatile int *)16 = 1;
    return 0;
}
