/* Row fp-emulation (nbench-style): software floating point in 16-bit pieces.
 *
 * Numbers have a sign, an exponent and four 16-bit mantissa words with the binary point before
 * the top bit. One repetition computes 3000 results: of each sixteen four additions, four
 * subtractions, five multiplications and three divisions, bit by bit as nbench does.
 */
#include "lab.h"

#define MOST 16384
#define PIECES 4

enum kind { ZERO, NORMAL, INFINITE };

struct soft {
    u8 kind, sign;
    short exponent;
    u16 piece[PIECES]; /* most significant first */
};

static struct soft left[MOST], right[MOST], result[MOST];
static u64 count;

static void shift_left(u16 *p, u32 *carry)
{
    for (int i = PIECES - 1; i >= 0; i--) {
        u32 out = p[i] >> 15;
        p[i] = (u16)(p[i] << 1 | *carry);
        *carry = out;
    }
}

static void shift_right(u16 *p, u32 *carry)
{
    for (int i = 0; i < PIECES; i++) {
        u32 out = p[i] & 1;
        p[i] = (u16)(p[i] >> 1 | *carry << 15);
        *carry = out;
    }
}

static void add_pieces(u16 *to, const u16 *a, const u16 *b, u32 *carry)
{
    for (int i = PIECES - 1; i >= 0; i--) {
        u32 sum = (u32)a[i] + b[i] + *carry;
        to[i] = (u16)sum;
        *carry = sum >> 16;
    }
}

static void subtract_pieces(u16 *to, const u16 *a, const u16 *b, u32 *borrow)
{
    for (int i = PIECES - 1; i >= 0; i--) {
        u32 difference = (u32)a[i] - b[i] - *borrow;
        to[i] = (u16)difference;
        *borrow = difference >> 16 & 1;
    }
}

static int all_zero(const u16 *p)
{
    for (int i = 0; i < PIECES; i++)
        if (p[i]) return 0;
    return 1;
}

static void set_special(struct soft *z, u8 kind, u8 sign)
{
    z->kind = kind;
    z->sign = sign;
    z->exponent = 0;
    for (int i = 0; i < PIECES; i++) z->piece[i] = 0;
}

/* Shifts left until the top bit is set; exponents outside the range become zero or infinity. */
static void normalise(struct soft *z)
{
    if (all_zero(z->piece)) {
        set_special(z, ZERO, 0);
        return;
    }
    while (!(z->piece[0] & 0x8000)) {
        u32 carry = 0;
        shift_left(z->piece, &carry);
        z->exponent--;
    }
    if (z->exponent > 32000) set_special(z, INFINITE, z->sign);
    else if (z->exponent < -32000) set_special(z, ZERO, z->sign);
}

/* Right shift that keeps a trace of the bits lost in the lowest bit. */
static void shift_sticky(struct soft *z, int places)
{
    if (places > PIECES * 16) places = PIECES * 16;
    for (; places > 0; places--) {
        u32 carry = 0;
        shift_right(z->piece, &carry);
        z->piece[PIECES - 1] |= (u16)carry;
    }
}

static AX_NOINLINE void add_or_subtract(int subtract, const struct soft *x, const struct soft *y,
                                        struct soft *z)
{
    struct soft a = *x, b = *y;
    b.sign ^= (u8)subtract;
    if (a.kind == INFINITE || b.kind == ZERO) { *z = a; return; }
    if (b.kind == INFINITE || a.kind == ZERO) { *z = b; return; }
    int difference = a.exponent - b.exponent;
    if (difference > 0) shift_sticky(&b, difference);
    else shift_sticky(&a, -difference);
    z->kind = NORMAL;
    z->exponent = difference > 0 ? a.exponent : b.exponent;
    z->sign = a.sign;
    u32 carry = 0;
    if (a.sign == b.sign) {
        add_pieces(z->piece, a.piece, b.piece, &carry);
        if (carry) {
            shift_right(z->piece, &carry);
            z->exponent++;
        }
    } else {
        subtract_pieces(z->piece, a.piece, b.piece, &carry);
        if (carry) {
            static const u16 nothing[PIECES];
            carry = 0;
            subtract_pieces(z->piece, nothing, z->piece, &carry);
            z->sign = b.sign;
        }
    }
    normalise(z);
}

static AX_NOINLINE void multiply(const struct soft *x, const struct soft *y, struct soft *z)
{
    u8 sign = x->sign ^ y->sign;
    if (x->kind != NORMAL || y->kind != NORMAL) {
        set_special(z, x->kind == INFINITE || y->kind == INFINITE ? INFINITE : ZERO, sign);
        return;
    }
    struct soft multiplier = *x;
    u16 low[PIECES] = { 0 };
    set_special(z, NORMAL, sign);
    z->exponent = (short)(x->exponent + y->exponent);
    for (int i = 0; i < PIECES * 16; i++) {
        u32 carry = 0;
        shift_right(multiplier.piece, &carry);
        if (carry) {
            carry = 0;
            add_pieces(z->piece, z->piece, y->piece, &carry);
        }
        shift_right(z->piece, &carry);
        shift_right(low, &carry);
    }
    while (!(z->piece[0] & 0x8000)) {
        u32 carry = 0;
        shift_left(low, &carry);
        shift_left(z->piece, &carry);
        z->exponent--;
    }
    normalise(z);
}

static AX_NOINLINE void divide(const struct soft *x, const struct soft *y, struct soft *z)
{
    u8 sign = x->sign ^ y->sign;
    if (x->kind != NORMAL || y->kind != NORMAL) {
        set_special(z, x->kind == INFINITE || y->kind == ZERO ? INFINITE : ZERO, sign);
        return;
    }
    struct soft dividend = *x;
    u16 rest[PIECES] = { 0 };
    set_special(z, NORMAL, sign);
    z->exponent = (short)(x->exponent - y->exponent + PIECES * 16 + 1);
    while (!(z->piece[0] & 0x8000)) {
        u32 carry = 0, bit = 1;
        shift_left(dividend.piece, &carry);
        shift_left(rest, &carry);
        if (!carry) {
            for (int i = 0; i < PIECES; i++) {
                if (y->piece[i] == rest[i]) continue;
                bit = y->piece[i] < rest[i];
                break;
            }
        }
        if (bit) {
            carry = 0;
            subtract_pieces(rest, rest, y->piece, &carry);
        }
        shift_left(z->piece, &bit);
        z->exponent--;
    }
    normalise(z);
}

static void from_integer(i64 value, struct soft *z)
{
    u64 magnitude = value < 0 ? -(u64)value : (u64)value;
    z->kind = NORMAL;
    z->sign = value < 0;
    z->exponent = 64;
    for (int i = 0; i < PIECES; i++) z->piece[i] = (u16)(magnitude >> (48 - 16 * i));
    normalise(z);
}

static void prepare(u64 size)
{
    struct ax_rng rng = { 3000 };
    struct soft a, b;
    count = size;
    for (u64 i = 0; i < count; i++) {
        from_integer((i64)ax_below(&rng, 100000) - 50000, &a);
        from_integer((i64)ax_below(&rng, 50000) + 1, &b);
        divide(&a, &b, &left[i]);
        from_integer((i64)ax_below(&rng, 100000) - 50000, &a);
        from_integer((i64)ax_below(&rng, 50000) + 1, &b);
        divide(&a, &b, &right[i]);
    }
}

static void run(void)
{
    static const u8 choice[16] = { 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3 };
    for (u64 i = 0; i < count; i++) {
        switch (choice[i % 16]) {
        case 0: add_or_subtract(0, &left[i], &right[i], &result[i]); break;
        case 1: add_or_subtract(1, &left[i], &right[i], &result[i]); break;
        case 2: multiply(&left[i], &right[i], &result[i]); break;
        default: divide(&left[i], &right[i], &result[i]); break;
        }
    }
}

static u64 check(void)
{
    u64 hash = count;
    for (u64 i = 0; i < count; i++) {
        const struct soft *z = &result[i];
        u64 mantissa = 0;
        for (int j = 0; j < PIECES; j++) mantissa = mantissa << 16 | z->piece[j];
        hash = ax_mix(ax_mix(hash, mantissa), (u64)z->kind << 32 | (u64)z->sign << 16 | (u16)z->exponent);
    }
    return hash;
}

static u64 work(void) { return 1; }

const struct lab_row lab_rows[] = {
    { "fp-emulation", "iterations", 3000, 16, MOST, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
