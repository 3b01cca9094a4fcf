//! Byte manipulation (AARM 4.6): extract, insert, mask, zap, byte compare and sign extension.
//!
//! Addresses are little-endian and `b & 7` is the offset within an aligned quadword. Each low form
//! handles the part of a datum that lies in the lower quadword, each high form the part that
//! spilled over into the next one. Called through the instruction table.

/// Eight bytes of 0x01.
const ONES: u64 = 0x0101_0101_0101_0101;
/// Eight bytes of 0x80.
const TOPS: u64 = 0x8080_8080_8080_8080;

/// Widths of the data, as masks of bits.
const BYTE: u64 = 0xff;
const WORD: u64 = 0xffff;
const LONGWORD: u64 = 0xffff_ffff;
const QUADWORD: u64 = u64::MAX;

/// Distance in bits of the byte at offset `b & 7` from bit 0.
#[inline]
const fn shift(b: u64) -> u32 {
    (b as u32 & 7) * 8
}

/// EXTxL: shift the datum down to bit 0 and cut it to its width.
#[inline]
const fn extract_low(a: u64, b: u64, width: u64) -> u64 {
    (a >> shift(b)) & width
}

/// EXTxH: shift the spilled part up to its place. At offset 0 the shift count 64 wraps to 0
/// (AARM 4.6.2 uses only bits 5..0 of it), so the value passes unchanged.
#[inline]
const fn extract_high(a: u64, b: u64, width: u64) -> u64 {
    (a << ((64 - shift(b)) & 63)) & width
}

/// INSxL: move a datum up to its offset; what leaves the quadword is lost.
#[inline]
const fn insert_low(a: u64, b: u64, width: u64) -> u64 {
    (a & width) << shift(b)
}

/// The part of `value` that leaves the quadword at the top when moved up by the offset.
/// Two shifts, because a shift by 64 (offset 0, nothing spills) must give 0.
#[inline]
const fn spill(value: u64, b: u64) -> u64 {
    value >> 1 >> (63 - shift(b))
}

/// INSxH: the part of a datum that spills into the next quadword.
#[inline]
const fn insert_high(a: u64, b: u64, width: u64) -> u64 {
    spill(a & width, b)
}

/// MSKxL: clear the bytes that INSxL would fill.
#[inline]
const fn mask_low(a: u64, b: u64, width: u64) -> u64 {
    a & !(width << shift(b))
}

/// MSKxH: clear the bytes that INSxH would fill.
#[inline]
const fn mask_high(a: u64, b: u64, width: u64) -> u64 {
    a & !spill(width, b)
}

/// Spreads bits 7..0 of `bits` to whole bytes: bit i set gives byte i = 0xff.
#[inline]
const fn byte_mask(bits: u64) -> u64 {
    // Copy the bits to every byte and keep bit i in byte i, then carry it into the byte's top bit.
    let picked = (bits & 0xff).wrapping_mul(ONES) & 0x8040_2010_0804_0201;
    let tops = (((picked & !TOPS) + !TOPS) | picked) & TOPS;
    (tops >> 7) * 0xff
}

/// CMPBGE, AARM 4.6.1: bit i is set if byte i of `a` is not below byte i of `b`, both unsigned.
#[inline]
pub fn cmpbge(a: u64, b: u64) -> u64 {
    // Bit 7 of each byte of `low` compares bits 6..0, borrowing from no neighbour; the top bits
    // decide where they differ.
    let low = (a | TOPS) - (b & !TOPS);
    let tops = ((a & !b) | (!(a ^ b) & low)) & TOPS;
    // Gather: multiplying moves the bit of byte i to bit 56 + i, without collisions.
    (tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// EXTBL, AARM 4.6.2: extract byte low.
#[inline]
pub fn extbl(a: u64, b: u64) -> u64 {
    extract_low(a, b, BYTE)
}

/// EXTWL, AARM 4.6.2: extract word low.
#[inline]
pub fn extwl(a: u64, b: u64) -> u64 {
    extract_low(a, b, WORD)
}

/// EXTLL, AARM 4.6.2: extract longword low.
#[inline]
pub fn extll(a: u64, b: u64) -> u64 {
    extract_low(a, b, LONGWORD)
}

/// EXTQL, AARM 4.6.2: extract quadword low.
#[inline]
pub fn extql(a: u64, b: u64) -> u64 {
    extract_low(a, b, QUADWORD)
}

/// EXTWH, AARM 4.6.2: extract word high.
#[inline]
pub fn extwh(a: u64, b: u64) -> u64 {
    extract_high(a, b, WORD)
}

/// EXTLH, AARM 4.6.2: extract longword high.
#[inline]
pub fn extlh(a: u64, b: u64) -> u64 {
    extract_high(a, b, LONGWORD)
}

/// EXTQH, AARM 4.6.2: extract quadword high.
#[inline]
pub fn extqh(a: u64, b: u64) -> u64 {
    extract_high(a, b, QUADWORD)
}

/// INSBL, AARM 4.6.3: insert byte low.
#[inline]
pub fn insbl(a: u64, b: u64) -> u64 {
    insert_low(a, b, BYTE)
}

/// INSWL, AARM 4.6.3: insert word low.
#[inline]
pub fn inswl(a: u64, b: u64) -> u64 {
    insert_low(a, b, WORD)
}

/// INSLL, AARM 4.6.3: insert longword low.
#[inline]
pub fn insll(a: u64, b: u64) -> u64 {
    insert_low(a, b, LONGWORD)
}

/// INSQL, AARM 4.6.3: insert quadword low.
#[inline]
pub fn insql(a: u64, b: u64) -> u64 {
    insert_low(a, b, QUADWORD)
}

/// INSWH, AARM 4.6.3: insert word high.
#[inline]
pub fn inswh(a: u64, b: u64) -> u64 {
    insert_high(a, b, WORD)
}

/// INSLH, AARM 4.6.3: insert longword high.
#[inline]
pub fn inslh(a: u64, b: u64) -> u64 {
    insert_high(a, b, LONGWORD)
}

/// INSQH, AARM 4.6.3: insert quadword high.
#[inline]
pub fn insqh(a: u64, b: u64) -> u64 {
    insert_high(a, b, QUADWORD)
}

/// MSKBL, AARM 4.6.4: mask byte low.
#[inline]
pub fn mskbl(a: u64, b: u64) -> u64 {
    mask_low(a, b, BYTE)
}

/// MSKWL, AARM 4.6.4: mask word low.
#[inline]
pub fn mskwl(a: u64, b: u64) -> u64 {
    mask_low(a, b, WORD)
}

/// MSKLL, AARM 4.6.4: mask longword low.
#[inline]
pub fn mskll(a: u64, b: u64) -> u64 {
    mask_low(a, b, LONGWORD)
}

/// MSKQL, AARM 4.6.4: mask quadword low.
#[inline]
pub fn mskql(a: u64, b: u64) -> u64 {
    mask_low(a, b, QUADWORD)
}

/// MSKWH, AARM 4.6.4: mask word high.
#[inline]
pub fn mskwh(a: u64, b: u64) -> u64 {
    mask_high(a, b, WORD)
}

/// MSKLH, AARM 4.6.4: mask longword high.
#[inline]
pub fn msklh(a: u64, b: u64) -> u64 {
    mask_high(a, b, LONGWORD)
}

/// MSKQH, AARM 4.6.4: mask quadword high.
#[inline]
pub fn mskqh(a: u64, b: u64) -> u64 {
    mask_high(a, b, QUADWORD)
}

/// SEXTB, AARM 4.6.5 (BWX): sign-extend the byte in `b`; the encoding has no use for `a`.
#[inline]
pub fn sextb(_a: u64, b: u64) -> u64 {
    b as i8 as i64 as u64
}

/// SEXTW, AARM 4.6.5 (BWX): sign-extend the word in `b`; the encoding has no use for `a`.
#[inline]
pub fn sextw(_a: u64, b: u64) -> u64 {
    b as i16 as i64 as u64
}

/// ZAP, AARM 4.6.6: clear the bytes whose bit in `b` is set.
#[inline]
pub fn zap(a: u64, b: u64) -> u64 {
    a & !byte_mask(b)
}

/// ZAPNOT, AARM 4.6.6: keep the bytes whose bit in `b` is set.
#[inline]
pub fn zapnot(a: u64, b: u64) -> u64 {
    a & byte_mask(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sem::testing::{CORNERS, corner_pairs, operand};
    use proptest::prelude::*;

    type Op = fn(u64, u64) -> u64;

    /// Rows of one datum width in bytes: extract, insert and mask, each low and high. A byte never
    /// crosses a quadword, so its high forms do not exist.
    const ROWS: [(usize, [Op; 3], Option<[Op; 3]>); 4] = [
        (1, [extbl, insbl, mskbl], None),
        (2, [extwl, inswl, mskwl], Some([extwh, inswh, mskwh])),
        (4, [extll, insll, mskll], Some([extlh, inslh, msklh])),
        (8, [extql, insql, mskql], Some([extqh, insqh, mskqh])),
    ];

    /// The model works on 16 bytes of memory, two quadwords, with a datum of `size` bytes at
    /// offset `at`: what each instruction must say about the lower or upper quadword.
    fn check_datum(a: u64, b: u64) {
        let at = (b % 8) as usize;
        let bytes = a.to_le_bytes();
        for (size, [ext, ins, msk], high) in ROWS {
            let halves = [Some([ext, ins, msk]), high];
            for (half, ops) in halves.into_iter().enumerate() {
                let Some([ext, ins, msk]) = ops else { continue };
                let base = half * 8;
                let mut extracted = [0u8; 8];
                let mut inserted = [0u8; 8];
                let mut masked = bytes;
                for i in 0..size {
                    let place = at + i;
                    if (base..base + 8).contains(&place) {
                        extracted[i] = bytes[place - base];
                        inserted[place - base] = bytes[i];
                        masked[place - base] = 0;
                    }
                }
                // The one exception: EXTxH at offset 0 does not shift.
                if half == 1 && at == 0 {
                    extracted[..size].copy_from_slice(&bytes[..size]);
                }
                let context = format!("size {size} half {half} {a:#x} {b:#x}");
                assert_eq!(ext(a, b), u64::from_le_bytes(extracted), "ext {context}");
                assert_eq!(ins(a, b), u64::from_le_bytes(inserted), "ins {context}");
                assert_eq!(msk(a, b), u64::from_le_bytes(masked), "msk {context}");
            }
        }
    }

    fn check_bytewise(a: u64, b: u64) {
        let (x, y) = (a.to_le_bytes(), b.to_le_bytes());
        let mut compared = 0;
        let mut kept = [0u8; 8];
        let mut zapped = x;
        for i in 0..8 {
            compared |= u64::from(x[i] >= y[i]) << i;
            if b >> i & 1 != 0 {
                kept[i] = x[i];
                zapped[i] = 0;
            }
        }
        assert_eq!(cmpbge(a, b), compared, "cmpbge {a:#x} {b:#x}");
        assert_eq!(zapnot(a, b), u64::from_le_bytes(kept), "zapnot {a:#x} {b:#x}");
        assert_eq!(zap(a, b), u64::from_le_bytes(zapped), "zap {a:#x} {b:#x}");
        let extend = |v: u64, bits: u32| ((v << (64 - bits)) as i64 >> (64 - bits)) as u64;
        assert_eq!(sextb(a, b), extend(b, 8));
        assert_eq!(sextw(a, b), extend(b, 16));
    }

    #[test]
    fn byte_manipulation_agrees_with_byte_loops_on_corners() {
        corner_pairs(check_bytewise);
        for a in CORNERS {
            (0..16).for_each(|b| check_datum(a, b));
            (0..256).for_each(|b| check_bytewise(a, b));
        }
    }

    proptest! {
        #[test]
        fn byte_manipulation_agrees_with_byte_loops(a in operand(), b in operand()) {
            check_datum(a, b);
            check_bytewise(a, b);
            // Equal bytes are rare between random quadwords.
            check_bytewise(a, a ^ (b & zapnot(u64::MAX, b >> 8)));
        }
    }

    #[test]
    fn high_forms_at_offset_zero() {
        let v = 0x8877_6655_4433_2211;
        assert_eq!([inswh(v, 0), inslh(v, 8), insqh(v, 16)], [0; 3]);
        assert_eq!([mskwh(v, 0), msklh(v, 8), mskqh(v, 16)], [v; 3]);
        assert_eq!([extwh(v, 0), extlh(v, 8), extqh(v, 16)], [v & 0xffff, v & 0xffff_ffff, v]);
    }
}
