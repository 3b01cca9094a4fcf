// What a program reaches of the folder and the secret that are named on its command line.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void tell(const char *what, long result)
{
    printf("%s %s\n", what, result >= 0 ? "REACHED" : errno == EACCES ? "EACCES" : strerror(errno));
}

int main(int argc, char **argv)
{
    const char *folder = argv[1], *file = argv[2], *secret = argv[3];
    char base[1000], name[1000], dots[2000];
    struct stat st;

    strcpy(base, folder);
    char *slash = strrchr(base, '/');
    *slash = 0;
    snprintf(name, sizeof name, "%s/%s", slash + 1, strrchr(file, '/') + 1);
    snprintf(dots, sizeof dots, "%s/./%s/../%s", base, slash + 1, name);
    tell("secret", open(secret, O_RDONLY));
    tell("write-secret", open(secret, O_WRONLY));
    tell("folder", open(folder, O_RDONLY | O_DIRECTORY));
    tell("path", open(folder, O_PATH));
    tell("file", open(file, O_RDONLY));
    tell("dots", open(dots, O_RDWR));
    int above = open(base, O_RDONLY | O_DIRECTORY);
    tell("from-above", openat(above, name, O_RDONLY));
    unlink("way");
    if (symlink(file, "way") == 0)
        tell("link", open("way", O_RDONLY));
    unlink("way");
    snprintf(name, sizeof name, "%s/new", folder);
    tell("new", open(name, O_CREAT | O_RDWR, 0600));
    tell("rename", rename(file, "stolen"));
    tell("rename-in", rename("mine", name));
    tell("hard-link", link(secret, "stolen-too"));
    tell("unlink", unlink(file));
    tell("truncate", truncate(file, 0));
    tell("chmod", chmod(folder, 0777));
    tell("chdir", chdir(folder));
    tell("rename-folder", rename(folder, "elsewhere"));
    // What it may: files of its own.
    tell("mine", open("mine", O_RDWR | O_CREAT, 0600) < 0 ? 0 : -1);
    printf("%s\n", access("mine", R_OK) == 0 ? "own files work" : "no own files");
    (void)argc, (void)st;
    return 0;
}
