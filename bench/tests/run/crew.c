/* Threads that all do the same work: they need the same translations. `crew THREADS ROUNDS` prints a sum
   that depends on ROUNDS alone. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 4096 };

static int rounds;

static uint64_t mix(uint64_t *values, uint64_t seed)
{
    for (int i = 0; i < SIZE; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = seed ^ seed >> 29;
    }
    return seed;
}

static void sort(uint64_t *values)
{
    for (int gap = SIZE / 2; gap > 0; gap /= 2)
        for (int i = gap; i < SIZE; i++) {
            uint64_t value = values[i];
            int at = i;
            for (; at >= gap && values[at - gap] > value; at -= gap)
                values[at] = values[at - gap];
            values[at] = value;
        }
}

static uint64_t digest(const uint64_t *values)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (int i = 0; i < SIZE; i++)
        for (int byte = 0; byte < 8; byte++)
            sum = (sum ^ (values[i] >> 8 * byte & 255)) * 0x100000001b3u;
    return sum;
}

static void *work(void *result)
{
    uint64_t *values = malloc(SIZE * sizeof *values);
    uint64_t seed = 1, sum = 0;
    for (int round = 0; round < rounds; round++) {
        seed = mix(values, seed);
        sort(values);
        sum += digest(values);
    }
    free(values);
    *(uint64_t *)result = sum;
    return 0;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 8;
    rounds = argc > 2 ? atoi(argv[2]) : 20;
    pthread_t ids[64];
    uint64_t sums[64];
    if (threads < 1 || threads > 64)
        return 2;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], 0, work, &sums[i]))
            return 3;
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], 0);
    for (int i = 1; i < threads; i++)
        if (sums[i] != sums[0])
            return 4;
    printf("sum=%016llx\n", (unsigned long long)sums[0]);
    return 0;
}
