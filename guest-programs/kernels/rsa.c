/* Rows rsa4096-sign and rsa4096-verify: the private and public operation of RSA-4096, as
 * `openssl speed rsa4096` counts them.
 *
 * Montgomery multiplication on 64-bit limbs, fixed windows of five bits, and the Chinese
 * remainder theorem for the private key; a signature is checked with the public exponent
 * before it leaves, as OpenSSL does. Constants that OpenSSL caches in the key are computed
 * once, untimed.
 */
#include "lab.h"
#include "rsa_key.h"

#define FULL 64
#define HALF 32
#define WINDOW 5

/* A modulus with what Montgomery arithmetic needs: -1/m mod 2^64 and R^2 mod m, R = 2^(64 limbs). */
struct modulus {
    u64 limbs, inverse;
    u64 m[FULL], square[FULL];
};

static struct modulus mod_n, mod_p, mod_q;
static u64 message[FULL], signature[FULL], recovered[FULL];
static int wrong;

/* t += a * w; returns the carry out of the top limb. */
static AX_NOINLINE u64 multiply_add(u64 *t, const u64 *a, u64 w, u64 limbs)
{
    u64 carry = 0;
    for (u64 i = 0; i < limbs; i++) {
        u128 sum = (u128)a[i] * w + t[i] + carry;
        t[i] = (u64)sum;
        carry = (u64)(sum >> 64);
    }
    return carry;
}

/* r = a - b; returns the borrow. */
static u64 subtract(u64 *r, const u64 *a, const u64 *b, u64 limbs)
{
    u64 borrow = 0;
    for (u64 i = 0; i < limbs; i++) {
        u64 x = a[i], y = b[i], d = x - y;
        r[i] = d - borrow;
        borrow = (x < y) | (d < borrow);
    }
    return borrow;
}

static u64 add(u64 *r, const u64 *a, const u64 *b, u64 limbs)
{
    u64 carry = 0;
    for (u64 i = 0; i < limbs; i++) {
        u64 s = a[i] + b[i], out = s < a[i];
        r[i] = s + carry;
        carry = out | (r[i] < s);
    }
    return carry;
}

static int less(const u64 *a, const u64 *b, u64 limbs)
{
    for (u64 i = limbs; i-- > 0;)
        if (a[i] != b[i]) return a[i] < b[i];
    return 0;
}

static void copy(u64 *to, const u64 *from, u64 limbs)
{
    for (u64 i = 0; i < limbs; i++) to[i] = from[i];
}

/* r = a b / R mod m; a < R, b < m. */
static AX_NOINLINE void montgomery(u64 *r, const u64 *a, const u64 *b, const struct modulus *mod)
{
    u64 t[2 * FULL + 1];
    u64 limbs = mod->limbs, top = 0;
    for (u64 i = 0; i < limbs; i++) t[i] = 0;
    /* The accumulator slides up by one limb a round, so nothing is shifted. */
    for (u64 i = 0; i < limbs; i++) {
        u64 high = multiply_add(t + i, a, b[i], limbs);
        u64 low = multiply_add(t + i, mod->m, t[i] * mod->inverse, limbs);
        u64 sum = high + low, carry = sum < high;
        sum += top;
        top = carry + (sum < top);
        t[i + limbs] = sum;
    }
    if (top || !less(t + limbs, mod->m, limbs)) subtract(r, t + limbs, mod->m, limbs);
    else copy(r, t + limbs, limbs);
}

/* r = base^exponent mod m for base < m. */
static void power(u64 *r, const u64 *base, const u64 *exponent, const struct modulus *mod)
{
    static u64 table[1 << WINDOW][HALF];
    u64 one[HALF] = { 1 }, x[HALF];
    u64 limbs = mod->limbs;
    montgomery(table[0], one, mod->square, mod);
    montgomery(table[1], base, mod->square, mod);
    for (u64 i = 2; i < 1 << WINDOW; i++) montgomery(table[i], table[i - 1], table[1], mod);
    copy(x, table[0], limbs);
    for (i64 at = (i64)(limbs * 64 + WINDOW - 1) / WINDOW * WINDOW - WINDOW; at >= 0; at -= WINDOW) {
        u64 word = (u64)at >> 6, bit = (u64)at & 63;
        u64 digit = exponent[word] >> bit;
        if (bit > 64 - WINDOW && word + 1 < limbs) digit |= exponent[word + 1] << (64 - bit);
        for (int i = 0; i < WINDOW; i++) montgomery(x, x, x, mod);
        montgomery(x, x, table[digit & ((1 << WINDOW) - 1)], mod);
    }
    montgomery(r, x, one, mod);
}

/* r = value mod m for a value of twice the limbs. */
static void reduce(u64 *r, const u64 *value, const struct modulus *mod)
{
    u64 low[HALF];
    copy(low, value, mod->limbs);
    if (!less(low, mod->m, mod->limbs)) subtract(low, low, mod->m, mod->limbs);
    montgomery(r, value + mod->limbs, mod->square, mod);
    if (add(r, r, low, mod->limbs) || !less(r, mod->m, mod->limbs))
        subtract(r, r, mod->m, mod->limbs);
}

/* r = value^65537 mod n. */
static void public_operation(u64 *r, const u64 *value)
{
    u64 one[FULL] = { 1 }, x[FULL], base[FULL];
    montgomery(base, value, mod_n.square, &mod_n);
    copy(x, base, FULL);
    for (int i = 0; i < 16; i++) montgomery(x, x, x, &mod_n);
    montgomery(x, x, base, &mod_n);
    montgomery(r, one, x, &mod_n);
}

static void private_operation(u64 *r, const u64 *value)
{
    u64 a[HALF], b[HALF], h[HALF], check[FULL];
    reduce(a, value, &mod_p);
    power(a, a, key_dp, &mod_p);
    reduce(b, value, &mod_q);
    power(b, b, key_dq, &mod_q);
    /* h = (a - b) / q mod p; both primes have their top bit set, so b < 2 p. */
    copy(h, b, HALF);
    if (!less(h, key_p, HALF)) subtract(h, h, key_p, HALF);
    if (subtract(h, a, h, HALF)) add(h, h, key_p, HALF);
    montgomery(h, h, mod_p.square, &mod_p);
    montgomery(h, key_qi, h, &mod_p);
    /* r = b + h q */
    for (u64 i = 0; i < FULL; i++) r[i] = i < HALF ? b[i] : 0;
    for (u64 i = 0; i < HALF; i++) {
        u64 carry = multiply_add(r + i, key_q, h[i], HALF);
        for (u64 j = i + HALF; carry && j < FULL; j++) {
            r[j] += carry;
            carry = r[j] < carry;
        }
    }
    public_operation(check, r);
    for (u64 i = 0; i < FULL; i++) wrong |= check[i] != value[i];
}

static void set_modulus(struct modulus *mod, const u64 *m, u64 limbs)
{
    u64 x[FULL + 1] = { 1 }, inverse = 1;
    mod->limbs = limbs;
    copy(mod->m, m, limbs);
    for (int i = 0; i < 6; i++) inverse *= 2 - m[0] * inverse;
    mod->inverse = -inverse;
    for (u64 i = 0; i < 2 * 64 * limbs; i++)
        if (add(x, x, x, limbs) || !less(x, m, limbs)) subtract(x, x, m, limbs);
    copy(mod->square, x, limbs);
}

/* The message is padded as PKCS #1 v1.5 pads a digest; the digest is made up. */
static void prepare(u64 size)
{
    struct ax_rng rng = { size };
    set_modulus(&mod_n, key_n, FULL);
    set_modulus(&mod_p, key_p, HALF);
    set_modulus(&mod_q, key_q, HALF);
    for (u64 i = 0; i < 4; i++) message[i] = ax_next(&rng);
    message[4] = 0x0501020304200420ul;
    message[5] = 0x0d06096086480165ul;
    message[6] = 0xffffffff00303130ul;
    for (u64 i = 7; i < FULL; i++) message[i] = ~0ul;
    message[FULL - 1] = 0x0001fffffffffffful;
}

static void prepare_verify(u64 size)
{
    prepare(size);
    private_operation(signature, message);
}

static void sign(void) { private_operation(signature, message); }
static void verify(void) { public_operation(recovered, signature); }

static u64 check_sign(void)
{
    return wrong ? 0 : ax_hash(4096, signature, sizeof signature);
}

static u64 check_verify(void)
{
    if (wrong || ax_memcmp(recovered, message, sizeof message)) return 0;
    return ax_hash(65537, recovered, sizeof recovered);
}

static u64 work(void) { return 1; }

const struct lab_row lab_rows[] = {
    { "rsa4096-sign", "signs", 4096, 4096, 4096, prepare, 0, sign, check_sign, work },
    { "rsa4096-verify", "verifies", 4096, 4096, 4096, prepare_verify, 0, verify, check_verify, work },
};
const u64 lab_row_count = 2;
