/* Row neural-net (nbench-style): train a 35-8-8 network by back-propagation.
 *
 * Inputs are letters in a 5 x 7 raster, outputs the bits of their codes; training goes on until
 * the mean error of every letter is below the limit. One repetition is one whole training from
 * the same random weights.
 */
#include "lab.h"

#define IN 35
#define MID 8
#define OUT 8
#define MOST 26
#define LEARNING 0.09
#define MOMENTUM 0.09
#define LIMIT 0.10
#define PASSES 20000

/* Seven rows of five pixels per letter, top row first. */
static const u8 raster[MOST][7] = {
    { 14, 17, 17, 31, 17, 17, 17 }, { 30, 17, 17, 30, 17, 17, 30 }, { 14, 17, 16, 16, 16, 17, 14 },
    { 30, 17, 17, 17, 17, 17, 30 }, { 31, 16, 16, 30, 16, 16, 31 }, { 31, 16, 16, 30, 16, 16, 16 },
    { 14, 17, 16, 23, 17, 17, 15 }, { 17, 17, 17, 31, 17, 17, 17 }, { 14, 4, 4, 4, 4, 4, 14 },
    { 1, 1, 1, 1, 1, 17, 14 },      { 17, 18, 20, 24, 20, 18, 17 }, { 16, 16, 16, 16, 16, 16, 31 },
    { 17, 27, 21, 21, 17, 17, 17 }, { 17, 25, 21, 19, 17, 17, 17 }, { 14, 17, 17, 17, 17, 17, 14 },
    { 30, 17, 17, 30, 16, 16, 16 }, { 14, 17, 17, 17, 21, 18, 13 }, { 30, 17, 17, 30, 20, 18, 17 },
    { 15, 16, 16, 14, 1, 1, 30 },   { 31, 4, 4, 4, 4, 4, 4 },       { 17, 17, 17, 17, 17, 17, 14 },
    { 17, 17, 17, 17, 17, 10, 4 },  { 17, 17, 17, 21, 21, 21, 10 }, { 17, 17, 10, 4, 10, 17, 17 },
    { 17, 17, 10, 4, 4, 4, 4 },     { 31, 1, 2, 4, 8, 16, 31 },
};

struct net {
    double mid_weight[MID][IN], out_weight[OUT][MID];
    double mid_change[MID][IN], out_change[OUT][MID]; /* of the last step, for the momentum */
    double mid[MID], out[OUT], mid_error[MID], out_error[OUT];
    double mean_error[MOST];
    u64 passes;
};

static double input[MOST][IN], target[MOST][OUT];
static struct net start, net;
static u64 patterns;

typedef double (*function)(double);

static inline __attribute__((always_inline)) void forward(struct net *n, u64 p, function power)
{
    for (int i = 0; i < MID; i++) {
        double sum = 0.0;
        for (int j = 0; j < IN; j++) sum += n->mid_weight[i][j] * input[p][j];
        n->mid[i] = 1.0 / (1.0 + power(-sum));
    }
    for (int i = 0; i < OUT; i++) {
        double sum = 0.0;
        for (int j = 0; j < MID; j++) sum += n->out_weight[i][j] * n->mid[j];
        n->out[i] = 1.0 / (1.0 + power(-sum));
    }
}

static inline __attribute__((always_inline)) void backward(struct net *n, u64 p)
{
    double total = 0.0;
    for (int i = 0; i < OUT; i++) {
        double error = target[p][i] - n->out[i];
        total += ax_fabs(error);
        n->out_error[i] = n->out[i] * (1.0 - n->out[i]) * error;
    }
    n->mean_error[p] = total * (1.0 / OUT);
    for (int i = 0; i < MID; i++) {
        double sum = 0.0;
        for (int j = 0; j < OUT; j++) sum += n->out_weight[j][i] * n->out_error[j];
        n->mid_error[i] = n->mid[i] * (1.0 - n->mid[i]) * sum;
    }
    for (int i = 0; i < OUT; i++) {
        for (int j = 0; j < MID; j++) {
            double delta = LEARNING * n->out_error[i] * n->mid[j] + MOMENTUM * n->out_change[i][j];
            n->out_weight[i][j] += delta;
            n->out_change[i][j] = delta;
        }
    }
    for (int i = 0; i < MID; i++) {
        for (int j = 0; j < IN; j++) {
            double delta =
                LEARNING * n->mid_error[i] * input[p][j] + MOMENTUM * n->mid_change[i][j];
            n->mid_weight[i][j] += delta;
            n->mid_change[i][j] = delta;
        }
    }
}

static inline __attribute__((always_inline)) void train(struct net *n, function power)
{
    int learned = 0;
    while (!learned && n->passes < PASSES) {
        for (u64 p = 0; p < patterns; p++) {
            forward(n, p, power);
            backward(n, p);
        }
        n->passes++;
        learned = 1;
        for (u64 p = 0; p < patterns; p++)
            if (n->mean_error[p] >= LIMIT) learned = 0;
    }
}

static double small(struct ax_rng *rng)
{
    return ((double)(i64)ax_below(rng, 100000) * 0.00001 - 0.5) * 0.5;
}

static void prepare(u64 size)
{
    struct ax_rng rng = { 3588 };
    patterns = size;
    for (u64 p = 0; p < patterns; p++) {
        for (int i = 0; i < IN; i++)
            input[p][i] = raster[p][i / 5] >> (4 - i % 5) & 1 ? 0.9 : 0.1;
        for (int i = 0; i < OUT; i++)
            target[p][i] = ('A' + p) >> (OUT - 1 - i) & 1 ? 0.9 : 0.1;
    }
    for (int i = 0; i < MID; i++)
        for (int j = 0; j < IN; j++) start.mid_weight[i][j] = small(&rng);
    for (int i = 0; i < OUT; i++)
        for (int j = 0; j < MID; j++) start.out_weight[i][j] = small(&rng);
}

static void restore(void) { ax_memcpy(&net, &start, sizeof net); }

static void run(void) { train(&net, lib_exp); }

static u64 digest(const struct net *n)
{
    u64 hash = n->passes;
    for (int i = 0; i < MID; i++)
        for (int j = 0; j < IN; j++) hash = ax_mix_double(hash, n->mid_weight[i][j]);
    for (int i = 0; i < OUT; i++)
        for (int j = 0; j < MID; j++) hash = ax_mix_double(hash, n->out_weight[i][j]);
    return hash;
}

static u64 check(void)
{
    if (net.passes == PASSES) return 0;
#ifdef AX_HOST_LIBS
    /* The host's exp rounds differently: accept what is near, and report our own function's. */
    static struct net own;
    if (!own.passes) {
        ax_memcpy(&own, &start, sizeof own);
        train(&own, ax_exp);
    }
    if (own.passes != net.passes) return 1;
    for (int i = 0; i < MID; i++)
        for (int j = 0; j < IN; j++)
            if (!(ax_fabs(own.mid_weight[i][j] - net.mid_weight[i][j]) < 1e-9)) return 2;
    return digest(&own);
#else
    return digest(&net);
#endif
}

static u64 work(void) { return 1; }

const struct lab_row lab_rows[] = {
    { "neural-net", "iterations", 10, 2, MOST, prepare, restore, run, check, work },
};
const u64 lab_row_count = 1;
