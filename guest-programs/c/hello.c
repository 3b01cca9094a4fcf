/* The smallest dynamically linked guest: start-up, one write, exit status 0. */
#include <stdio.h>

int main(void)
{
    puts("hello, world");
    return 0;
}
