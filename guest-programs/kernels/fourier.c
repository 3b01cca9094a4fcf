/* Row fourier (nbench-style): Fourier coefficients of (x + 1)^x on [0, 2].
 *
 * Each coefficient is an integral by the trapezoid rule in 200 steps; work is counted in
 * integrals, as nbench does: 2 n - 1 of them for n pairs.
 */
#include "lab.h"

#define MOST 1000
#define STEPS 200
#define OMEGA 3.1415926535897932

struct functions { double (*power)(double, double), (*sine)(double), (*cosine)(double); };

static double cosines[MOST], sines[MOST];
static u64 pairs;

/* Which: 0 the function itself, 1 times cos, 2 times sin. */
static inline __attribute__((always_inline)) double value(double x, double frequency, int which,
                                                          struct functions f)
{
    double y = f.power(x + 1.0, x);
    if (which == 1) return y * f.cosine(frequency * x);
    if (which == 2) return y * f.sine(frequency * x);
    return y;
}

static inline __attribute__((always_inline)) double integral(double frequency, int which,
                                                             struct functions f)
{
    double x = 0.0, step = 2.0 / STEPS;
    double sum = value(x, frequency, which, f) * 0.5;
    for (int i = 1; i < STEPS; i++) {
        x += step;
        sum += value(x, frequency, which, f);
    }
    return (sum + value(2.0, frequency, which, f) * 0.5) * step;
}

static inline __attribute__((always_inline)) void series(double *c, double *s, struct functions f)
{
    c[0] = integral(0.0, 0, f) * 0.5;
    s[0] = 0.0;
    for (u64 i = 1; i < pairs; i++) {
        double frequency = OMEGA * (double)(i64)i;
        c[i] = integral(frequency, 1, f);
        s[i] = integral(frequency, 2, f);
    }
}

static void prepare(u64 size) { pairs = size; }

static void run(void)
{
    series(cosines, sines, (struct functions){ lib_pow, lib_sin, lib_cos });
}

static u64 check(void)
{
    u64 hash = pairs;
#ifdef AX_HOST_LIBS
    /* The host's libm rounds differently: accept what is near, and report our own functions'. */
    static double own_cosines[MOST], own_sines[MOST];
    if (!own_cosines[0]) series(own_cosines, own_sines, (struct functions){ ax_pow, ax_sin, ax_cos });
    for (u64 i = 0; i < pairs; i++) {
        if (!(ax_fabs(cosines[i] - own_cosines[i]) < 1e-9)) return i;
        if (!(ax_fabs(sines[i] - own_sines[i]) < 1e-9)) return i;
        hash = ax_mix_double(ax_mix_double(hash, own_cosines[i]), own_sines[i]);
    }
#else
    for (u64 i = 0; i < pairs; i++) hash = ax_mix_double(ax_mix_double(hash, cosines[i]), sines[i]);
#endif
    return hash;
}

static u64 work(void) { return 2 * pairs - 1; }

const struct lab_row lab_rows[] = {
    { "fourier", "iterations", 100, 2, MOST, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
