"""Integer, byte, multimedia, branch and memory instructions of the Alpha, from the manual's text.

Written for clarity over Python's unbounded integers and independent of the emulator's sources: byte
instructions loop over bytes, products are taken whole. Sections are those of the Alpha Architecture
Reference Manual.
"""

M64 = (1 << 64) - 1


def sext(value, bits):
    value &= (1 << bits) - 1
    return (value - (1 << bits) if value >> (bits - 1) else value) & M64


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def slong(value):
    """The signed longword in bits 31:0."""
    return signed(sext(value, 32))


def byte_of(value, i):
    return value >> (8 * i) & 0xFF


def from_bytes(values):
    return sum((v & 0xFF) << (8 * i) for i, v in enumerate(values))


# 4.6 Byte manipulation. The quadword pair is seen as 16 bytes; `Rbv<2:0>` is the byte offset.
def extract(size):
    def f(a, b):
        got = ([byte_of(a, i) for i in range(8)] + [0] * 8)[b & 7:]
        return from_bytes(got[:size])
    return f


def extract_high(size):
    # Left shift by 64 - 8 * Rbv<2:0>, taken modulo 64 so that offset 0 changes nothing, then the
    # byte mask of the datum.
    return lambda a, b: (a << ((64 - 8 * (b & 7)) & 63)) & M64 & ((1 << (8 * size)) - 1)


def insert(size, high):
    def f(a, b):
        n = b & 7
        out = [0] * 16
        for i in range(size):
            out[n + i] = byte_of(a, i)
        return from_bytes(out[8:] if high else out[:8])
    return f


def mask(size, high):
    def f(a, b):
        n = b & 7
        hole = [n <= i < n + size for i in range(16)]
        part = hole[8:] if high else hole[:8]
        return from_bytes([0 if part[i] else byte_of(a, i) for i in range(8)])
    return f


def zap(keep):
    def f(a, b):
        return from_bytes([byte_of(a, i) if (b >> i & 1) == keep else 0 for i in range(8)])
    return f


def lanes(width, count, is_signed, pick):
    def lane(value, i):
        raw = value >> (width * i) & ((1 << width) - 1)
        return raw - (1 << width) if is_signed and raw >> (width - 1) else raw

    def f(a, b):
        picked = [pick(lane(a, i), lane(b, i)) for i in range(count)]
        return sum((v & ((1 << width) - 1)) << (width * i) for i, v in enumerate(picked))
    return f


def overflow(bits, op):
    """Result and overflow of a /V form: the exact result does not fit in `bits`."""
    def f(a, b):
        x, y = (slong(a), slong(b)) if bits == 32 else (signed(a), signed(b))
        exact = op(x, y)
        wrapped = sext(exact, bits)
        return wrapped, signed(wrapped) != exact
    return f


def long(op):
    return lambda a, b: sext(op(a, b), 32)


def quad(op):
    return lambda a, b: op(a, b) & M64


def truth(op):
    return lambda a, b: int(op(a, b))


def ctlz(_, b):
    return 64 - b.bit_length()


def cttz(_, b):
    return 64 if b == 0 else (b & -b).bit_length() - 1


add = lambda x, y: x + y
sub = lambda x, y: x - y
mul = lambda x, y: x * y

# mnemonic: (opcode, function, f(Rav, Rbv)); the operate format with a literal form.
OPERATE = {
    # 4.4
    "addl": (0x10, 0x00, long(add)), "addq": (0x10, 0x20, quad(add)),
    "subl": (0x10, 0x09, long(sub)), "subq": (0x10, 0x29, quad(sub)),
    "s4addl": (0x10, 0x02, long(lambda a, b: 4 * a + b)),
    "s4subl": (0x10, 0x0B, long(lambda a, b: 4 * a - b)),
    "s8addl": (0x10, 0x12, long(lambda a, b: 8 * a + b)),
    "s8subl": (0x10, 0x1B, long(lambda a, b: 8 * a - b)),
    "s4addq": (0x10, 0x22, quad(lambda a, b: 4 * a + b)),
    "s4subq": (0x10, 0x2B, quad(lambda a, b: 4 * a - b)),
    "s8addq": (0x10, 0x32, quad(lambda a, b: 8 * a + b)),
    "s8subq": (0x10, 0x3B, quad(lambda a, b: 8 * a - b)),
    "cmpeq": (0x10, 0x2D, truth(lambda a, b: a == b)),
    "cmplt": (0x10, 0x4D, truth(lambda a, b: signed(a) < signed(b))),
    "cmple": (0x10, 0x6D, truth(lambda a, b: signed(a) <= signed(b))),
    "cmpult": (0x10, 0x1D, truth(lambda a, b: a < b)),
    "cmpule": (0x10, 0x3D, truth(lambda a, b: a <= b)),
    "mull": (0x13, 0x00, long(mul)), "mulq": (0x13, 0x20, quad(mul)),
    "umulh": (0x13, 0x30, lambda a, b: a * b >> 64),
    # 4.5
    "and": (0x11, 0x00, lambda a, b: a & b), "bic": (0x11, 0x08, lambda a, b: a & ~b & M64),
    "bis": (0x11, 0x20, lambda a, b: a | b), "ornot": (0x11, 0x28, lambda a, b: (a | ~b) & M64),
    "xor": (0x11, 0x40, lambda a, b: a ^ b), "eqv": (0x11, 0x48, lambda a, b: ~(a ^ b) & M64),
    "sll": (0x12, 0x39, quad(lambda a, b: a << (b & 63))),
    "srl": (0x12, 0x34, lambda a, b: a >> (b & 63)),
    "sra": (0x12, 0x3C, quad(lambda a, b: signed(a) >> (b & 63))),
    # 4.6
    "cmpbge": (0x10, 0x0F,
               lambda a, b: sum((byte_of(a, i) >= byte_of(b, i)) << i for i in range(8))),
    "extbl": (0x12, 0x06, extract(1)), "extwl": (0x12, 0x16, extract(2)),
    "extll": (0x12, 0x26, extract(4)), "extql": (0x12, 0x36, extract(8)),
    "extwh": (0x12, 0x5A, extract_high(2)), "extlh": (0x12, 0x6A, extract_high(4)),
    "extqh": (0x12, 0x7A, extract_high(8)),
    "insbl": (0x12, 0x0B, insert(1, False)), "inswl": (0x12, 0x1B, insert(2, False)),
    "insll": (0x12, 0x2B, insert(4, False)), "insql": (0x12, 0x3B, insert(8, False)),
    "inswh": (0x12, 0x57, insert(2, True)), "inslh": (0x12, 0x67, insert(4, True)),
    "insqh": (0x12, 0x77, insert(8, True)),
    "mskbl": (0x12, 0x02, mask(1, False)), "mskwl": (0x12, 0x12, mask(2, False)),
    "mskll": (0x12, 0x22, mask(4, False)), "mskql": (0x12, 0x32, mask(8, False)),
    "mskwh": (0x12, 0x52, mask(2, True)), "msklh": (0x12, 0x62, mask(4, True)),
    "mskqh": (0x12, 0x72, mask(8, True)),
    "zap": (0x12, 0x30, zap(0)), "zapnot": (0x12, 0x31, zap(1)),
    # 4.13
    "minsb8": (0x1C, 0x38, lanes(8, 8, True, min)), "minsw4": (0x1C, 0x39, lanes(16, 4, True, min)),
    "minub8": (0x1C, 0x3A, lanes(8, 8, False, min)), "minuw4": (0x1C, 0x3B, lanes(16, 4, False, min)),
    "maxub8": (0x1C, 0x3C, lanes(8, 8, False, max)), "maxuw4": (0x1C, 0x3D, lanes(16, 4, False, max)),
    "maxsb8": (0x1C, 0x3E, lanes(8, 8, True, max)), "maxsw4": (0x1C, 0x3F, lanes(16, 4, True, max)),
}


OVERFLOW = {
    "addl/v": (0x10, 0x40, overflow(32, add)), "subl/v": (0x10, 0x49, overflow(32, sub)),
    "addq/v": (0x10, 0x60, overflow(64, add)), "subq/v": (0x10, 0x69, overflow(64, sub)),
    "mull/v": (0x13, 0x40, overflow(32, mul)), "mulq/v": (0x13, 0x60, overflow(64, mul)),
}

# Operands `Rb or literal, Rc` with Ra = R31.
UNARY = {
    "ctpop": (0x1C, 0x30, lambda _, b: bin(b).count("1")),
    "ctlz": (0x1C, 0x32, ctlz), "cttz": (0x1C, 0x33, cttz),
    "sextb": (0x1C, 0x00, lambda _, b: sext(b, 8)), "sextw": (0x1C, 0x01, lambda _, b: sext(b, 16)),
}

# Register operands only.
UNARY_REGISTER = {
    "unpkbw": (0x1C, 0x34, lambda _, b: sum(byte_of(b, i) << 16 * i for i in range(4))),
    "unpkbl": (0x1C, 0x35, lambda _, b: sum(byte_of(b, i) << 32 * i for i in range(2))),
    "pkwb": (0x1C, 0x36, lambda _, b: sum((b >> 16 * i & 0xFF) << 8 * i for i in range(4))),
    "pklb": (0x1C, 0x37, lambda _, b: sum((b >> 32 * i & 0xFF) << 8 * i for i in range(2))),
}
BINARY_REGISTER = {
    "perr": (0x1C, 0x31, lambda a, b: sum(abs(byte_of(a, i) - byte_of(b, i)) for i in range(8))),
}

CONDITIONS = {
    "eq": lambda v: v == 0, "ne": lambda v: v != 0, "lt": lambda v: signed(v) < 0,
    "ge": lambda v: signed(v) >= 0, "le": lambda v: signed(v) <= 0, "gt": lambda v: signed(v) > 0,
    "lbc": lambda v: v & 1 == 0, "lbs": lambda v: v & 1 == 1,
}
CMOV = {"cmovlbs": 0x14, "cmovlbc": 0x16, "cmoveq": 0x24, "cmovne": 0x26,
        "cmovlt": 0x44, "cmovge": 0x46, "cmovle": 0x64, "cmovgt": 0x66}
BRANCH = {"blbc": 0x38, "beq": 0x39, "blt": 0x3A, "ble": 0x3B,
          "blbs": 0x3C, "bne": 0x3D, "bge": 0x3E, "bgt": 0x3F}

# 4.9: -0 equals zero; nothing but sign and zero is looked at, so a NaN is just a sign.
NEG0 = 1 << 63
FP_CONDITIONS = {
    "eq": lambda v: v & ~NEG0 == 0, "ne": lambda v: v & ~NEG0 != 0,
    "lt": lambda v: v >> 63 == 1 and v != NEG0, "ge": lambda v: v >> 63 == 0 or v == NEG0,
    "le": lambda v: v >> 63 == 1 or v == 0, "gt": lambda v: v >> 63 == 0 and v != 0,
}
FBRANCH = {"fbeq": 0x31, "fblt": 0x32, "fble": 0x33, "fbne": 0x35, "fbge": 0x36, "fbgt": 0x37}
FCMOV = {"fcmoveq": 0x2A, "fcmovne": 0x2B, "fcmovlt": 0x2C, "fcmovge": 0x2D, "fcmovle": 0x2E,
         "fcmovgt": 0x2F}

# mnemonic: (opcode, size in bytes, sign-extended); 4.2.
LOADS = {"ldbu": (0x0A, 1, False), "ldwu": (0x0C, 2, False), "ldl": (0x28, 4, True),
         "ldq": (0x29, 8, False), "ldl_l": (0x2A, 4, True), "ldq_l": (0x2B, 8, False),
         "ldq_u": (0x0B, 8, False)}
STORES = {"stb": (0x0E, 1), "stw": (0x0D, 2), "stl": (0x2C, 4), "stq": (0x2D, 8),
          "stq_u": (0x0F, 8), "stl_c": (0x2E, 4), "stq_c": (0x2F, 8)}
