/* Row idea (nbench-style): encrypt and decrypt 4000 bytes with IDEA.
 *
 * Eight and a half rounds on 64-bit blocks; multiplication is modulo 2^16 + 1 with 0 standing
 * for 2^16. One repetition encrypts and decrypts the whole text.
 */
#include "lab.h"

#define MOST 65536
#define ROUNDS 8
#define KEYS (6 * ROUNDS + 4)

static u16 plain[MOST / 2], secret[MOST / 2], again[MOST / 2];
static u16 encrypt_key[KEYS], decrypt_key[KEYS];
static u64 blocks;

static inline u16 multiply(u16 a, u16 b)
{
    if (!a) return (u16)(1 - b);
    if (!b) return (u16)(1 - a);
    u32 product = (u32)a * b;
    u16 low = (u16)product, high = (u16)(product >> 16);
    return (u16)(low - high + (low < high));
}

/* x^(2^16 - 1) is the inverse, since the multiplicative group has 2^16 elements. */
static u16 invert(u16 x)
{
    u16 result = 1;
    for (int i = 0; i < 16; i++) {
        result = multiply(result, x);
        x = multiply(x, x);
    }
    return result;
}

static void expand_key(const u16 *user, u16 *z)
{
    /* The 128-bit key is rotated left by 25 bits after each eight subkeys. */
    u16 k[8];
    for (int i = 0; i < 8; i++) k[i] = user[i];
    for (int i = 0; i < KEYS; i++) {
        z[i] = k[i & 7];
        if ((i & 7) != 7) continue;
        u16 turned[8];
        for (int j = 0; j < 8; j++)
            turned[j] = (u16)(k[(j + 1) & 7] << 9 | k[(j + 2) & 7] >> 7);
        for (int j = 0; j < 8; j++) k[j] = turned[j];
    }
}

static void invert_key(const u16 *z, u16 *d)
{
    for (int round = 0; round <= ROUNDS; round++) {
        const u16 *from = z + 6 * (ROUNDS - round);
        u16 *to = d + 6 * round;
        int swap = round != 0 && round != ROUNDS;
        to[0] = invert(from[0]);
        to[1] = (u16)-from[1 + swap];
        to[2] = (u16)-from[2 - swap];
        to[3] = invert(from[3]);
        if (round < ROUNDS) {
            to[4] = from[-2];
            to[5] = from[-1];
        }
    }
}

static AX_NOINLINE void cipher(const u16 *in, u16 *out, const u16 *key)
{
    const u16 *z = key;
    u16 a = in[0], b = in[1], c = in[2], d = in[3];
    for (int round = 0; round < ROUNDS; round++) {
        a = multiply(a, *z++);
        b = (u16)(b + *z++);
        c = (u16)(c + *z++);
        d = multiply(d, *z++);
        u16 t = multiply((u16)(a ^ c), *z++);
        u16 u = multiply((u16)(t + (b ^ d)), *z++);
        t = (u16)(t + u);
        a ^= u;
        d ^= t;
        u16 held = (u16)(b ^ t);
        b = (u16)(c ^ u);
        c = held;
    }
    out[0] = multiply(a, *z++);
    out[1] = (u16)(c + *z++);
    out[2] = (u16)(b + *z++);
    out[3] = multiply(d, *z);
}

static void prepare(u64 size)
{
    struct ax_rng rng = { 4000 };
    u16 user[8];
    blocks = size / 8;
    for (int i = 0; i < 8; i++) user[i] = (u16)ax_below(&rng, 60000);
    for (u64 i = 0; i < 4 * blocks; i++) plain[i] = (u16)ax_next(&rng);
    expand_key(user, encrypt_key);
    invert_key(encrypt_key, decrypt_key);
}

static void run(void)
{
    for (u64 i = 0; i < 4 * blocks; i += 4) cipher(plain + i, secret + i, encrypt_key);
    for (u64 i = 0; i < 4 * blocks; i += 4) cipher(secret + i, again + i, decrypt_key);
}

static u64 check(void)
{
    if (ax_memcmp(plain, again, 8 * blocks)) return 0;
    return ax_hash(blocks, secret, 8 * blocks);
}

static u64 work(void) { return 1; }

const struct lab_row lab_rows[] = {
    { "idea", "iterations", 4000, 8, MOST, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
