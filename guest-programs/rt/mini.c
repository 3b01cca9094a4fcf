/* The shared library of mini.h: memory, strings, elementary functions, random data, system calls.
 *
 * The elementary functions are table-driven with short polynomials, accurate to a few units in
 * the last place over the kernels' ranges. They use only additions, multiplications and
 * divisions that round to nearest, so guest and host agree bit for bit.
 */
#include "mini.h"

typedef u64 __attribute__((may_alias)) word_alias;

/* Quadwords where both pointers allow it, eight at a time, then bytes. */
void *ax_memcpy(void *to, const void *from, u64 bytes)
{
    u8 *d = to;
    const u8 *s = from;
    if ((((u64)d | (u64)s) & 7) == 0) {
        word_alias *dw = to;
        const word_alias *sw = from;
        for (; bytes >= 64; bytes -= 64, dw += 8, sw += 8) {
            u64 a = sw[0], b = sw[1], c = sw[2], e = sw[3];
            u64 f = sw[4], g = sw[5], h = sw[6], i = sw[7];
            dw[0] = a, dw[1] = b, dw[2] = c, dw[3] = e;
            dw[4] = f, dw[5] = g, dw[6] = h, dw[7] = i;
        }
        for (; bytes >= 8; bytes -= 8) *dw++ = *sw++;
        d = (u8 *)dw, s = (const u8 *)sw;
    }
    while (bytes--) *d++ = *s++;
    return to;
}

struct loose { u64 v; } __attribute__((packed, may_alias));

/* Overlap-safe move: a line of 64 bytes at a time, aligned quadword stores, and loads that the
 * guest builds from LDQ_U pairs where the source is not aligned alike. Every quadword of a line
 * is loaded before the first is stored. */
static inline void move_line(u8 *to, const u8 *from)
{
    const struct loose *s = (const struct loose *)from;
    word_alias *d = (word_alias *)to;
    u64 a = s[0].v, b = s[1].v, c = s[2].v, e = s[3].v;
    u64 f = s[4].v, g = s[5].v, h = s[6].v, i = s[7].v;
    d[0] = a, d[1] = b, d[2] = c, d[3] = e;
    d[4] = f, d[5] = g, d[6] = h, d[7] = i;
}

void *ax_memmove(void *to, const void *from, u64 bytes)
{
    u8 *d = to;
    const u8 *s = from;
    if ((u64)d - (u64)s >= bytes) {
        for (; bytes && ((u64)d & 7); bytes--) *d++ = *s++;
        if (bytes >= 72 && ((u64)d & 8)) {
            *(word_alias *)d = ((const struct loose *)s)->v;
            bytes -= 8, d += 8, s += 8;
        }
        for (; bytes >= 64; bytes -= 64, d += 64, s += 64) move_line(d, s);
        for (; bytes >= 8; bytes -= 8, d += 8, s += 8)
            *(word_alias *)d = ((const struct loose *)s)->v;
        while (bytes--) *d++ = *s++;
    } else {
        for (; bytes && ((u64)(d + bytes) & 7); bytes--) d[bytes - 1] = s[bytes - 1];
        if (bytes >= 72 && ((u64)(d + bytes) & 8)) {
            bytes -= 8;
            *(word_alias *)(d + bytes) = ((const struct loose *)(s + bytes))->v;
        }
        for (; bytes >= 64; bytes -= 64) move_line(d + bytes - 64, s + bytes - 64);
        for (; bytes >= 8; bytes -= 8)
            *(word_alias *)(d + bytes - 8) = ((const struct loose *)(s + bytes - 8))->v;
        while (bytes--) d[bytes] = s[bytes];
    }
    return to;
}

void *ax_memset(void *to, int value, u64 bytes)
{
    u8 *d = to;
    u64 word = (u64)(u8)value * 0x0101010101010101ul;
    for (; bytes && ((u64)d & 7); bytes--) *d++ = (u8)value;
    for (; bytes >= 8; bytes -= 8, d += 8) *(word_alias *)d = word;
    while (bytes--) *d++ = (u8)value;
    return to;
}

int ax_memcmp(const void *a, const void *b, u64 bytes)
{
    const u8 *x = a, *y = b;
    for (; bytes; bytes--, x++, y++)
        if (*x != *y) return *x < *y ? -1 : 1;
    return 0;
}

u64 ax_strlen(const char *s)
{
    u64 n = 0;
    while (s[n]) n++;
    return n;
}

int ax_strcmp(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return (int)(u8)*a - (int)(u8)*b;
}

char *ax_strcpy(char *to, const char *from)
{
    char *d = to;
    while ((*d++ = *from++)) {}
    return to;
}

union bits { double d; u64 u; i64 i; };

static const double exp_table[32] = { /* 2^(j/32) */
    0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0,
    0x1.11301d0125b51p+0, 0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0,
    0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0, 0x1.306fe0a31b715p+0,
    0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
    0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0,
    0x1.6247eb03a5585p+0, 0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0,
    0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0, 0x1.8ace5422aa0dbp+0,
    0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
    0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0,
    0x1.cb720dcef9069p+0, 0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0,
    0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
};

/* x = k ln2 / 32 + r; no overflow handling: |x| < 700. */
double ax_exp(double x)
{
    double scaled = x * 0x1.71547652b82fep+5;
    i64 k = (i64)(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
    double kd = (double)k;
    double r = (x - kd * 0x1.62e4200000000p-6) - kd * 0x1.fdf473de6af28p-27;
    double p = 1.0 / 720 + r * (1.0 / 5040);
    p = r + r * r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * p))));
    union bits scale;
    double t = exp_table[k & 31];
    scale.i = ((k >> 5) + 1023) << 52;
    return (t + t * p) * scale.d;
}

static const double log_inverse[64] = { /* about 1 / (1 + (j + 1/2) / 64), few bits */
    0x1.0000000000000p+0, 0x1.f446000000000p-1, 0x1.ecc0000000000p-1,
    0x1.e573000000000p-1, 0x1.de5d000000000p-1, 0x1.d77b000000000p-1,
    0x1.d0cb000000000p-1, 0x1.ca4b000000000p-1, 0x1.c3f8000000000p-1,
    0x1.bdd2000000000p-1, 0x1.b7d6000000000p-1, 0x1.b203000000000p-1,
    0x1.ac57000000000p-1, 0x1.a6d0000000000p-1, 0x1.a16d000000000p-1,
    0x1.9c2d000000000p-1, 0x1.970e000000000p-1, 0x1.920f000000000p-1,
    0x1.8d30000000000p-1, 0x1.886e000000000p-1, 0x1.83c9000000000p-1,
    0x1.7f40000000000p-1, 0x1.7ad2000000000p-1, 0x1.767d000000000p-1,
    0x1.7242000000000p-1, 0x1.6e1f000000000p-1, 0x1.6a13000000000p-1,
    0x1.661e000000000p-1, 0x1.623f000000000p-1, 0x1.5e75000000000p-1,
    0x1.5ac0000000000p-1, 0x1.571e000000000p-1, 0x1.5390000000000p-1,
    0x1.5015000000000p-1, 0x1.4cab000000000p-1, 0x1.4953000000000p-1,
    0x1.460c000000000p-1, 0x1.42d6000000000p-1, 0x1.3fb0000000000p-1,
    0x1.3c99000000000p-1, 0x1.3991000000000p-1, 0x1.3698000000000p-1,
    0x1.33ae000000000p-1, 0x1.30d1000000000p-1, 0x1.2e02000000000p-1,
    0x1.2b40000000000p-1, 0x1.288b000000000p-1, 0x1.25e2000000000p-1,
    0x1.2345000000000p-1, 0x1.20b4000000000p-1, 0x1.1e2e000000000p-1,
    0x1.1bb4000000000p-1, 0x1.1945000000000p-1, 0x1.16e0000000000p-1,
    0x1.1485000000000p-1, 0x1.1235000000000p-1, 0x1.0fef000000000p-1,
    0x1.0db2000000000p-1, 0x1.0b7e000000000p-1, 0x1.0953000000000p-1,
    0x1.0732000000000p-1, 0x1.0519000000000p-1, 0x1.0309000000000p-1,
    0x1.0000000000000p-1,
};

static const double log_value[64] = { /* -log of the line above */
    0x0.0p+0, 0x1.7b9d307e6391dp-6, 0x1.39f07ba0ebd62p-5,
    0x1.b43937139cac6p-5, 0x1.16571eeaa4762p-4, 0x1.51b3e3f0c00c0p-4,
    0x1.8c376d6364ba2p-4, 0x1.c5e6f8f5d33c3p-4, 0x1.fed1932000ac7p-4,
    0x1.1b75fd53a60a3p-3, 0x1.37235202b4078p-3, 0x1.5270363a51a78p-3,
    0x1.6d6106719d25dp-3, 0x1.87fa865210911p-3, 0x1.a23cf9fe431a3p-3,
    0x1.bc28cf42db716p-3, 0x1.d5c3a6b522c92p-3, 0x1.ef0e74be9437ap-3,
    0x1.0402994b4f041p-2, 0x1.1059b79b02b55p-2, 0x1.1c8ac816ca61cp-2,
    0x1.2896a13e086a4p-2, 0x1.347e31a98b9d5p-2, 0x1.40453c6905d07p-2,
    0x1.4be77157bc922p-2, 0x1.5768bd748b78dp-2, 0x1.62ca732c40bb9p-2,
    0x1.6e0b22a357a67p-2, 0x1.792c39fe46dc5p-2, 0x1.842f41a27b53bp-2,
    0x1.8f12e873862c8p-2, 0x1.99dbd01241110p-2, 0x1.a485c90ebdb0cp-2,
    0x1.af1297247788bp-2, 0x1.b9872d698731dp-2, 0x1.c3df667d51070p-2,
    0x1.ce1d40b90a5f0p-2, 0x1.d83faa58d27bfp-2, 0x1.e248c1a7c8c26p-2,
    0x1.ec3ac124926e1p-2, 0x1.f614bba7c80d1p-2, 0x1.ffd5c08687ca0p-2,
    0x1.04be6dda9f913p-1, 0x1.0987e6f5ac832p-1, 0x1.0e45345d348ccp-1,
    0x1.12f799594efbcp-1, 0x1.179eadbd899b1p-1, 0x1.1c3bc5f718465p-1,
    0x1.20ce83194b0fep-1, 0x1.255684e9b68ccp-1, 0x1.29d533ece4ad1p-1,
    0x1.2e486b6e95b6ap-1, 0x1.32b199912c001p-1, 0x1.37123b54987b6p-1,
    0x1.3b6a02a0c203ap-1, 0x1.3fb6c24d5c0d4p-1, 0x1.43fa002f9ce77p-1,
    0x1.4835511ea8f1fp-1, 0x1.4c686efcfac7ap-1, 0x1.509312c0ee404p-1,
    0x1.54b30279bbcd8p-1, 0x1.58cbd55d14a1ap-1, 0x1.5cdb53c6c44f5p-1,
    0x1.62e42fefa39efp-1,
};

/* Normal positive x only: x = 2^e m, m c' = 1 + r with |r| < 2^-6. */
double ax_log(double x)
{
    union bits b = { x };
    i64 e = (b.i >> 52) - 1023;
    u64 j = (b.u >> 46) & 63;
    b.u = (b.u & 0xffffffffffffful) | 0x3ff0000000000000ul;
    double r = b.d * log_inverse[j] - 1.0;
    double p = 1.0 / 7 + r * (-1.0 / 8 + r * (1.0 / 9));
    p = -1.0 / 2 + r * (1.0 / 3 + r * (-1.0 / 4 + r * (1.0 / 5 + r * (-1.0 / 6 + r * p))));
    double ed = (double)e;
    return ed * 0x1.62e4200000000p-1 + (log_value[j] + (ed * 0x1.fdf473de6af28p-22 + (r + r * r * p)));
}

double ax_pow(double x, double y)
{
    return ax_exp(y * ax_log(x));
}

/* x = k pi/2 + r by a three-part pi/2; good for |x| < 10^5. */
static double reduce(double x, i64 *quadrant)
{
    double scaled = x * 0x1.45f306dc9c883p-1;
    i64 k = (i64)(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
    double kd = (double)k;
    *quadrant = k;
    return ((x - kd * 0x1.921fb54000000p+0) - kd * 0x1.10b4610000000p-30) - kd * 0x1.a62633145c06ep-58;
}

static double sin_core(double r)
{
    double q = r * r;
    double p = -1.0 / 39916800 + q * (1.0 / 6227020800.0 + q * (-1.0 / 1307674368000.0));
    p = -1.0 / 6 + q * (1.0 / 120 + q * (-1.0 / 5040 + q * (1.0 / 362880 + q * p)));
    return r + r * q * p;
}

static double cos_core(double r)
{
    double q = r * r;
    double p = 1.0 / 479001600 + q * (-1.0 / 87178291200.0 + q * (1.0 / 20922789888000.0));
    p = 1.0 / 24 + q * (-1.0 / 720 + q * (1.0 / 40320 + q * (-1.0 / 3628800 + q * p)));
    return 1.0 - (0.5 * q - q * q * p);
}

double ax_sin(double x)
{
    i64 k;
    double r = reduce(x, &k);
    double v = k & 1 ? cos_core(r) : sin_core(r);
    return k & 2 ? -v : v;
}

double ax_cos(double x)
{
    i64 k;
    double r = reduce(x, &k);
    double v = k & 1 ? sin_core(r) : cos_core(r);
    return (k + 1) & 2 ? -v : v;
}

u64 ax_next(struct ax_rng *rng)
{
    u64 x = rng->state += 0x9e3779b97f4a7c15ul;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ul;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebul;
    return x ^ (x >> 31);
}

u64 ax_below(struct ax_rng *rng, u64 bound)
{
    return (u64)(((u128)ax_next(rng) * bound) >> 64);
}

/* Eight bytes at a time, little-endian as both machines are; the tail is padded with zeros. */
u64 ax_hash(u64 hash, const void *data, u64 bytes)
{
    const u8 *p = data;
    for (; bytes >= 8; bytes -= 8, p += 8) hash = ax_mix(hash, ((const struct loose *)p)->v);
    u64 last = 0;
    for (u64 i = 0; i < bytes; i++) last |= (u64)p[i] << (8 * i);
    return ax_mix(hash, last);
}

#ifdef __alpha__
i64 ax_syscall3(i64 number, u64 a, u64 b, u64 c);

i64 ax_write(int fd, const void *data, u64 bytes)
{
    return ax_syscall3(4, (u64)fd, (u64)data, bytes);
}

u64 ax_now(void)
{
    i64 t[2];
    ax_syscall3(420, 1, (u64)t, 0);
    return (u64)t[0] * 1000000000 + (u64)t[1];
}

/* gcc calls these by name even in freestanding code. */
void *memcpy(void *to, const void *from, u64 bytes) { return ax_memcpy(to, from, bytes); }
void *memmove(void *to, const void *from, u64 bytes) { return ax_memmove(to, from, bytes); }
void *memset(void *to, int value, u64 bytes) { return ax_memset(to, value, bytes); }
int memcmp(const void *a, const void *b, u64 bytes) { return ax_memcmp(a, b, bytes); }
#else
#include <time.h>
#include <unistd.h>

i64 ax_write(int fd, const void *data, u64 bytes)
{
    return write(fd, data, bytes);
}

u64 ax_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}
#endif
