"""IEEE and VAX floating point of the Alpha over exact fractions, from the manual's text.

A value is a `Fraction`; every operation is done exactly and rounded once. `Trap` stands for what
the processor hands to its trap handler instead of a result.
"""

from fractions import Fraction
from math import isqrt

M64 = (1 << 64) - 1
SIGN = 1 << 63
CANONICAL_NAN = 0xFFF8_0000_0000_0000  # 4.7.10.3
QUIET = 1 << 51

# Exception bits as the exception summary has them; FPCR has INV..IOV from bit 52 on.
SWC, INV, DZE, OVF, UNF, INE, IOV = (1 << i for i in range(7))
FPCR_SUM, FPCR_INED, FPCR_UNFD, FPCR_UNDZ = 1 << 63, 1 << 62, 1 << 61, 1 << 60
FPCR_OVFD, FPCR_DZED, FPCR_INVD, FPCR_DNZ = 1 << 51, 1 << 50, 1 << 49, 1 << 48
FPCR_START = 0x680E_8000_0000_0000  # as Linux starts a program


def fpcr_status(exceptions):
    return sum(1 << (51 + i) for i in range(1, 7) if exceptions >> i & 1)


class Trap(Exception):
    """An arithmetic trap with at least these summary bits."""

    def __init__(self, summary):
        self.summary = summary


CHOPPED, MINUS, NEAREST, PLUS, AWAY = range(5)


def to_integer(x, mode):
    """`x` rounded to an integer and whether that lost anything."""
    floor = x.numerator // x.denominator
    rest = x - floor
    if rest == 0:
        return floor, False
    half = Fraction(1, 2)
    up = {
        CHOPPED: x < 0,
        MINUS: False,
        PLUS: True,
        NEAREST: rest > half or (rest == half and floor & 1),
        AWAY: rest > half or (rest == half and x > 0),
    }[mode]
    return floor + bool(up), True


def exponent_of(x):
    """e with 2**e <= |x| < 2**(e+1)."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def quantise(x, unit, mode):
    n, inexact = to_integer(x / unit, mode)
    return n * unit, inexact


class Format:
    def __init__(self, bits, emin, emax):
        self.bits, self.emin, self.emax = bits, emin, emax
        self.largest = (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** emax
        self.smallest = Fraction(2) ** emin


S, T = Format(24, -126, 127), Format(53, -1022, 1023)


def is_nan(v):
    return v >> 52 & 0x7FF == 0x7FF and v & ((1 << 52) - 1) != 0


def is_signalling(v):
    return is_nan(v) and not v & QUIET


def is_infinite(v):
    return v & ~SIGN == 0x7FF << 52


def is_denormal(v):
    return v >> 52 & 0x7FF == 0 and v & ~SIGN != 0


def value(v):
    """The Fraction of a finite register value in T format. (S values are held as T values, except
    that a denormal S keeps exponent zero and has 29 zero bits at its end.)"""
    e, f = v >> 52 & 0x7FF, v & ((1 << 52) - 1)
    m = Fraction(f, 1 << 52) + (1 if e else 0)
    x = m * Fraction(2) ** (max(e, 1) - 1023)
    return -x if v >> 63 else x


def value_s(v):
    """As `value`, of an S datum: exponent zero means 2**-126."""
    if v >> 52 & 0x7FF:
        return value(v)
    x = Fraction(v & ((1 << 52) - 1), 1 << 52) * Fraction(2) ** -126
    return -x if v >> 63 else x


def pack(x, negative, fmt):
    """Register image of a value that `fmt` can hold."""
    sign = SIGN if negative else 0
    if x == 0:
        return sign
    x = abs(x)
    e = exponent_of(x)
    if e < fmt.emin:  # denormal: exponent field zero in either format
        return sign | int(x / Fraction(2) ** fmt.emin * (1 << 52))
    return sign | (e + 1023) << 52 | int((x / Fraction(2) ** e - 1) * (1 << 52))


class Qualifiers:
    """Function bits 10:6 of an IEEE instruction: trap field and rounding field (4.7.9)."""

    def __init__(self, trap, rounding, fpcr):
        self.s, self.u, self.i = trap & 4 != 0, trap & 1 != 0, trap & 2 != 0
        self.mode = (CHOPPED, MINUS, NEAREST, PLUS)[fpcr >> 58 & 3 if rounding == 3 else rounding]
        self.fpcr = fpcr


def raise_or_flag(exceptions, q):
    """4.7.8: with /S and the disable bit set, no trap, only the status bit."""
    disabled = {INV: FPCR_INVD, DZE: FPCR_DZED, OVF: FPCR_OVFD, UNF: FPCR_UNFD, INE: FPCR_INED,
                IOV: FPCR_INVD}
    for bit, disable in disabled.items():
        if exceptions & bit and not (q.s and q.fpcr & disable):
            raise Trap(bit | (SWC if q.s else 0))
    return exceptions


def finish(x, negative, fmt, q):
    """Rounds the exact nonzero `x` to `fmt`: register value and exceptions."""
    unbounded, inexact = quantise(x, Fraction(2) ** (exponent_of(x) - fmt.bits + 1), q.mode)
    exceptions = 0
    if abs(unbounded) > fmt.largest:
        to_infinity = {CHOPPED: False, NEAREST: True, PLUS: not negative, MINUS: negative}[q.mode]
        out = (0x7FF << 52 if to_infinity else pack(fmt.largest, False, fmt)) | SIGN * negative
        exceptions = OVF | INE
    elif abs(unbounded) < fmt.smallest:  # tiny after rounding (4.7.7.7)
        if not q.u:
            return 0, 0  # true zero, also for a negative result
        if q.s and q.fpcr & FPCR_UNFD and not q.fpcr & FPCR_UNDZ:
            denormal, lost = quantise(x, fmt.smallest * Fraction(2) ** (1 - fmt.bits), q.mode)
            out = pack(denormal, negative, fmt)
            exceptions = (UNF | INE) if lost else None  # exact: whether UNF is set is left open
        else:
            out, exceptions = 0, UNF | INE
    else:
        out = pack(unbounded, negative, fmt)
        exceptions = INE if inexact else 0
    if exceptions is None:
        return out, None
    if not q.i:
        exceptions &= ~INE  # only /SUI reports an inexact result
    return out, raise_or_flag(exceptions, q)


def propagate(a, b, q, fmt):
    """4.7.10.4: Fb if it is a NaN, else Fa, quieted."""
    picked = b if is_nan(b) else a
    if fmt is S:
        picked &= ~((1 << 29) - 1)
    signalling = is_signalling(b) or (a is not None and is_signalling(a))
    if not q.s:
        raise Trap(INV)
    return picked | QUIET, raise_or_flag(INV if signalling else 0, q)


def invalid(q):
    return CANONICAL_NAN, raise_or_flag(INV, q)


def prepare(v, q):
    """Operand after DNZ; without /S, what is not a finite normal number or zero traps."""
    if not q.s and (is_denormal(v) or is_infinite(v) or is_nan(v)):
        raise Trap(INV)
    if q.s and is_denormal(v) and q.fpcr & FPCR_DNZ:
        return v & SIGN
    return v


def arithmetic(op, fmt):
    read = value_s if fmt is S else value

    def f(a, b, q):
        a, b = prepare(a, q), prepare(b, q)
        if is_nan(a) or is_nan(b):
            return propagate(a, b, q, fmt)
        neg_a, neg_b = a >> 63 == 1, b >> 63 == 1
        inf_a, inf_b = is_infinite(a), is_infinite(b)
        if op in "+-":
            if op == "-":
                b, neg_b = b ^ SIGN, not neg_b
            if inf_a and inf_b:
                return invalid(q) if neg_a != neg_b else (a, 0)
            if inf_a or inf_b:
                return (a if inf_a else b), 0
            x = read(a) + read(b)
            if x == 0:  # an exact zero is +0, except when both are -0 or rounding is downward
                same = neg_a == neg_b and read(a) == 0
                negative = neg_a if same else q.mode == MINUS
                return SIGN * negative, 0
            return finish(x, x < 0, fmt, q)
        negative = neg_a != neg_b
        zero_a, zero_b = a & ~SIGN == 0, b & ~SIGN == 0
        if op == "*":
            if (inf_a and zero_b) or (zero_a and inf_b):
                return invalid(q)
            if inf_a or inf_b:
                return 0x7FF << 52 | SIGN * negative, 0
            if zero_a or zero_b:
                return SIGN * negative, 0
            return finish(read(a) * read(b), negative, fmt, q)
        if (inf_a and inf_b) or (zero_a and zero_b):
            return invalid(q)
        if inf_a:
            return 0x7FF << 52 | SIGN * negative, 0
        if inf_b or zero_a:
            return SIGN * negative, 0
        if zero_b:
            return 0x7FF << 52 | SIGN * negative, raise_or_flag(DZE, q)
        return finish(read(a) / read(b), negative, fmt, q)
    return f


def sqrt(fmt):
    read = value_s if fmt is S else value

    def f(_, b, q):
        b = prepare(b, q)
        if is_nan(b):
            return propagate(None, b, q, fmt)
        if b & ~SIGN == 0:
            return b, 0
        if b >> 63:
            return invalid(q)
        if is_infinite(b):
            return b, 0
        # 80 guard bits and a sticky bit stand for the irrational root.
        x = read(b)
        scale = 2 * (160 - exponent_of(x) // 2)
        n = x * (1 << scale) if scale >= 0 else x / (1 << -scale)
        root = isqrt(int(n))
        exact = Fraction(root) + (0 if root * root == n else Fraction(1, 2))
        return finish(exact / Fraction(2) ** (scale // 2), False, fmt, q)
    return f


def compare(test, quiet_is_invalid, unordered=False):
    def f(a, b, q):
        a, b = prepare(a, q), prepare(b, q)
        if is_nan(a) or is_nan(b):
            bad = is_signalling(a) or is_signalling(b) or quiet_is_invalid
            return (0x4000_0000_0000_0000 if unordered else 0), raise_or_flag(INV * bad, q)
        big = 1 << 2000
        va, vb = [(-big if v >> 63 else big) if is_infinite(v) else value(v) for v in (a, b)]
        return (0x4000_0000_0000_0000 if test(va, vb) else 0), 0  # true is 2.0
    return f


def cvttq(_, b, q):
    b = prepare(b, q)
    if is_nan(b):
        return 0, raise_or_flag(INV if is_signalling(b) else 0, q)
    if is_infinite(b):
        return 0, raise_or_flag(INV, q)
    n, inexact = to_integer(value(b), q.mode)
    exceptions = INE if inexact else 0
    if not -(1 << 63) <= n < 1 << 63:
        exceptions |= INE | (IOV if q.u else 0)  # the low trap bit is V here
    if not q.i:
        exceptions &= ~INE
    return n & M64, raise_or_flag(exceptions, q)


def cvtq(fmt):
    def f(_, b, q):
        n = b - (1 << 64) if b >> 63 else b
        if n == 0:
            return 0, 0
        q.u = False
        return finish(Fraction(n), n < 0, fmt, q)
    return f


def cvtts(_, b, q):
    b = prepare(b, q)
    if is_nan(b):
        return propagate(None, b, q, S)
    if is_infinite(b) or b & ~SIGN == 0:
        return b, 0
    return finish(value(b), b >> 63 == 1, S, q)


def cvtst(_, b, q):
    b = prepare(b, q)
    if is_nan(b):
        return propagate(None, b, q, T)
    if is_infinite(b) or b & ~SIGN == 0:
        return b, 0
    return pack(value_s(b), b >> 63 == 1, T), 0


# mnemonic: (opcode, function bits 5:0, operands, f(Fav, Fbv, q)).
IEEE = {
    "adds": (0x16, 0x00, 2, arithmetic("+", S)), "subs": (0x16, 0x01, 2, arithmetic("-", S)),
    "muls": (0x16, 0x02, 2, arithmetic("*", S)), "divs": (0x16, 0x03, 2, arithmetic("/", S)),
    "addt": (0x16, 0x20, 2, arithmetic("+", T)), "subt": (0x16, 0x21, 2, arithmetic("-", T)),
    "mult": (0x16, 0x22, 2, arithmetic("*", T)), "divt": (0x16, 0x23, 2, arithmetic("/", T)),
    "sqrts": (0x14, 0x0B, 1, sqrt(S)), "sqrtt": (0x14, 0x2B, 1, sqrt(T)),
    "cvtts": (0x16, 0x2C, 1, cvtts),
}
IEEE_COMPARE = {
    "cmptun": (0x24, compare(lambda a, b: False, False, unordered=True)),
    "cmpteq": (0x25, compare(lambda a, b: a == b, False)),
    "cmptlt": (0x26, compare(lambda a, b: a < b, True)),
    "cmptle": (0x27, compare(lambda a, b: a <= b, True)),
}

# ---- VAX formats. A register holds G format: 0.1f * 2**(e - 1024); F is the part of it with eight
# exponent bits and 23 fraction bits. Exponent zero with sign set is a reserved operand.


def vax_operand(v, s, fraction_bits=52):
    """With /S a fraction in a zero is ignored (4.7.6.1)."""
    return 0 if s and v >> fraction_bits == 0 else v


def vax_value(v):
    e = v >> 52 & 0x7FF
    if e == 0:
        if v:  # a reserved operand, or a fraction in a zero ("dirty zero", 4.7.2)
            raise Trap(INV)
        return Fraction(0)
    x = (1 + Fraction(v & ((1 << 52) - 1), 1 << 52)) * Fraction(2) ** (e - 1025)
    return -x if v >> 63 else x


def vax_d_value(v):
    e = v >> 55 & 0xFF
    if e == 0:
        if v:
            raise Trap(INV)
        return Fraction(0)
    x = (1 + Fraction(v & ((1 << 55) - 1), 1 << 55)) * Fraction(2) ** (e - 129)
    return -x if v >> 63 else x


def vax_finish(x, kind, chopped, underflow_traps):
    """Rounds to F, G or D; gives the register image."""
    if x == 0:
        return 0
    bits, low, high = {"F": (24, -128, 126), "G": (53, -1024, 1022), "D": (56, -128, 126)}[kind]
    mode = CHOPPED if chopped else AWAY
    x, _ = quantise(x, Fraction(2) ** (exponent_of(x) - bits + 1), mode)
    e = exponent_of(x)
    if e > high:
        raise Trap(OVF)
    if e < low:
        if underflow_traps:
            raise Trap(UNF)
        return 0
    sign = SIGN if x < 0 else 0
    f = abs(x) / Fraction(2) ** e - 1
    if kind == "D":
        return sign | (e + 129) << 55 | int(f * (1 << 55))
    return sign | (e + 1025) << 52 | int(f * (1 << 52))


def vax_arithmetic(op, kind):
    def f(a, b, chopped, u):
        x, y = vax_value(a), vax_value(b)
        if op == "/" and y == 0:
            raise Trap(DZE)
        x = {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else 0}[op]
        return vax_finish(x, kind, chopped, u)
    return f


def vax_sqrt(kind):
    def f(_, b, chopped, u):
        x = vax_value(b)
        if x < 0:
            raise Trap(INV)
        if x == 0:
            return 0
        scale = 2 * (160 - exponent_of(x) // 2)
        n = x * Fraction(2) ** scale
        root = isqrt(int(n))
        exact = Fraction(root) + (0 if root * root == n else Fraction(1, 2))
        return vax_finish(exact / Fraction(2) ** (scale // 2), kind, chopped, u)
    return f


def vax_compare(test):
    return lambda a, b: 0x4000_0000_0000_0000 if test(vax_value(a), vax_value(b)) else 0  # 0.5


def cvtgq(_, b, chopped, v):
    n, _ = to_integer(vax_value(b), CHOPPED if chopped else AWAY)
    if v and not -(1 << 63) <= n < 1 << 63:
        raise Trap(IOV)
    return n & M64


def vax_from_quad(kind):
    return lambda _, b, chopped, u: vax_finish(
        Fraction(b - (1 << 64) if b >> 63 else b), kind, chopped, u)


# mnemonic: (opcode, function bits 5:0, operands, operand format, f(Fav, Fbv, chopped, /U)).
VAX = {
    "addf": (0x15, 0x00, 2, "F", vax_arithmetic("+", "F")),
    "subf": (0x15, 0x01, 2, "F", vax_arithmetic("-", "F")),
    "mulf": (0x15, 0x02, 2, "F", vax_arithmetic("*", "F")),
    "divf": (0x15, 0x03, 2, "F", vax_arithmetic("/", "F")),
    "addg": (0x15, 0x20, 2, "G", vax_arithmetic("+", "G")),
    "subg": (0x15, 0x21, 2, "G", vax_arithmetic("-", "G")),
    "mulg": (0x15, 0x22, 2, "G", vax_arithmetic("*", "G")),
    "divg": (0x15, 0x23, 2, "G", vax_arithmetic("/", "G")),
    "cvtdg": (0x15, 0x1E, 1, "D", lambda _, b, c, u: vax_finish(vax_d_value(b), "G", c, u)),
    "cvtgf": (0x15, 0x2C, 1, "G", lambda _, b, c, u: vax_finish(vax_value(b), "F", c, u)),
    "cvtgd": (0x15, 0x2D, 1, "G", lambda _, b, c, u: vax_finish(vax_value(b), "D", c, u)),
    "sqrtf": (0x14, 0x0A, 1, "F", vax_sqrt("F")), "sqrtg": (0x14, 0x2A, 1, "G", vax_sqrt("G")),
}
VAX_COMPARE = {
    "cmpgeq": (0x25, vax_compare(lambda a, b: a == b)),
    "cmpglt": (0x26, vax_compare(lambda a, b: a < b)),
    "cmpgle": (0x27, vax_compare(lambda a, b: a <= b)),
}

# ---- Memory formats (4.7.4 to 4.7.6, 4.8): bit moves, never conversions.


def widen_exponent(e, ieee):
    if ieee and e == 0xFF:
        return 0x7FF
    return 0 if e == 0 else e + 896


def lds(word):
    e = widen_exponent(word >> 23 & 0xFF, True)
    return (word >> 31) << 63 | e << 52 | (word & 0x7F_FFFF) << 29


def sts(v):
    return (v >> 62 & 3) << 30 | v >> 29 & 0x3FFF_FFFF


def swap_halves(word):
    return (word & 0xFFFF) << 16 | word >> 16


def ldf(word):
    word = swap_halves(word)
    e = widen_exponent(word >> 23 & 0xFF, False)
    return (word >> 31) << 63 | e << 52 | (word & 0x7F_FFFF) << 29


def stf(v):
    return swap_halves(sts(v))


def ldg(quad):
    return sum((quad >> 16 * i & 0xFFFF) << (48 - 16 * i) for i in range(4))


def cvtlq(b):
    low = (b >> 62 & 3) << 30 | b >> 29 & 0x3FFF_FFFF
    return (low - (1 << 32) if low >> 31 else low) & M64


def cvtql(b):
    return (b >> 30 & 3) << 62 | (b & 0x3FFF_FFFF) << 29
