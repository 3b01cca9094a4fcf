// Many forks while code becomes hot: what a child runs is right, however far the parent's compiler was.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
#define F(n) static unsigned __attribute__((noinline)) f##n(unsigned x) { \
    for (int i = 0; i < 40 + n; i++) x = x * (n * 2 + 3) + (x >> (n % 13 + 1)) + i; \
    return x; }
#define FS(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15) \
    M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23) M(24) M(25) M(26) M(27) M(28) M(29) M(30) M(31)
FS(F)
#define P(n) f##n,
static unsigned (*all[])(unsigned) = { FS(P) };
static unsigned work(unsigned from, unsigned rounds) {
    unsigned x = from;
    for (unsigned i = 0; i < rounds; i++)x = all[(from + i) % 32](x);
    return x;
}
int main(int c, char**v) {
    unsigned wrong = 0, sum = 0;
    for (unsigned i = 0; i < 1000; i++) {
        // One more function becomes hot every thirty forks.
        unsigned n = i / 30;
        unsigned here = work(n % 32, 3);
        pid_t p = fork();
        if (p < 0) return 1;
        if (!p) _exit(work(n % 32, 3) == here ? 42 : 43);
        sum += work(n % 32, 2);
        int st = 0;
        if (waitpid(p, &st, 0) != p || !WIFEXITED(st) || WEXITSTATUS(st) != 42) wrong++;
    }
    printf("wrong %u sum %x\n", wrong, sum);
    return 0;
}
