//! Speed of the interpreter's loops on small guest loops, in guest instructions per second.
//!
//! `cargo bench -p axp-emu --bench interp`. Each loop runs a million instructions a sample.

use std::hint::black_box;
use std::sync::Arc;

use axp_emu::cpu::Vcpu;
use axp_emu::engine::{Engine, Limit};
use axp_emu::interp::{Dispatch, Interpreter};
use axp_emu::isa::CpuModel;
use axp_emu::mem::{AddressSpace, MapRequest, PAGE_SIZE, Place, Prot};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const CODE: u64 = 0x1_2000_0000;
const CALLSYS: u32 = 0x83;

/// Memory format.
const fn mem(op: u32, a: u32, b: u32, disp: i32) -> u32 {
    op << 26 | a << 21 | b << 16 | (disp as u32 & 0xffff)
}

/// Branch format.
const fn bra(op: u32, a: u32, disp: i32) -> u32 {
    op << 26 | a << 21 | (disp as u32 & 0x1f_ffff)
}

/// Operate format with registers.
const fn opr(op: u32, func: u32, a: u32, b: u32, c: u32) -> u32 {
    op << 26 | a << 21 | b << 16 | func << 5 | c
}

/// Operate format with a literal.
const fn lit(op: u32, func: u32, a: u32, l: u32, c: u32) -> u32 {
    op << 26 | a << 21 | l << 13 | 1 << 12 | func << 5 | c
}

/// One step of MD5 (its first round), 16 times in a row, as a compiler lays it out.
fn md5() -> Vec<u32> {
    let mut words = Vec::new();
    for i in 0..16 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| 1 + (k + 16 - i) % 4);
        words.extend([
            mem(0x28, 5, 16, 4 * i as i32), // ldl   x[i]
            opr(0x11, 0x40, c, d, 6),       // xor   c, d
            opr(0x11, 0x00, 6, b, 6),       // and   b
            opr(0x11, 0x40, 6, d, 6),       // xor   d
            opr(0x10, 0x00, 5, a, a),       // addl  x + a
            mem(0x09, 7, 31, 0x5a82),       // ldah  constant
            mem(0x08, 7, 7, 0x7999),        // lda
            opr(0x10, 0x00, a, 6, a),       // addl  f
            opr(0x10, 0x00, a, 7, a),       // addl  constant
            lit(0x12, 0x39, a, 7, 8),       // sll   7
            lit(0x12, 0x26, a, 0, a),       // extll
            lit(0x12, 0x34, a, 25, a),      // srl   25
            opr(0x11, 0x20, a, 8, a),       // bis
            opr(0x10, 0x00, a, b, a),       // addl  b
        ]);
    }
    words.push(lit(0x10, 0x29, 20, 1, 20)); // subq r20, 1
    words.push(bra(0x3d, 20, -(words.len() as i32 + 1))); // bne
    words.push(CALLSYS);
    words
}

/// Sifts a value down through an array, as heap sort does: loads, compares, short branches.
fn sift() -> Vec<u32> {
    vec![
        opr(0x11, 0x20, 31, 16, 1), // 0  bis    r16 -> r1: first element
        mem(0x08, 2, 31, 63),       // 1  lda    r2, 63
        mem(0x29, 3, 1, 0),         // 2  ldq    r3, 0(r1)
        mem(0x29, 4, 1, 8),         // 3  ldq    r4, 8(r1)
        opr(0x10, 0x4d, 4, 3, 5),   // 4  cmplt  r4, r3
        bra(0x39, 5, 2),            // 5  beq    -> 8
        mem(0x2d, 4, 1, 0),         // 6  stq
        mem(0x2d, 3, 1, 8),         // 7  stq
        mem(0x08, 1, 1, 8),         // 8  lda    r1, 8(r1)
        lit(0x10, 0x29, 2, 1, 2),   // 9  subq   r2, 1
        bra(0x3d, 2, -9),           // 10 bne    -> 2
        mem(0x2d, 20, 16, 63 * 8),  // 11 stq    r20 at the end: smaller each time
        lit(0x10, 0x29, 20, 1, 20), // 12 subq   r20, 1
        bra(0x3d, 20, -14),         // 13 bne    -> 0
        CALLSYS,
    ]
}

/// Recursive calls: Fibonacci numbers by their definition.
fn calls() -> Vec<u32> {
    vec![
        mem(0x08, 30, 16, 0x1ff0),                  // 0  stack
        mem(0x08, 16, 31, 24),                      // 1  lda    r16, 24
        bra(0x34, 26, 1),                           // 2  bsr    fib
        CALLSYS,                                    // 3
        lit(0x10, 0x4d, 16, 2, 1),                  // 4  fib: cmplt r16, 2
        bra(0x39, 1, 2),                            // 5  beq    -> 8
        opr(0x11, 0x20, 31, 16, 0),                 // 6  mov    r16, r0
        0x1a << 26 | 31 << 21 | 26 << 16 | 2 << 14, // 7 ret
        mem(0x08, 30, 30, -32),                     // 8  lda    sp
        mem(0x2d, 26, 30, 0),                       // 9  stq    ra
        mem(0x2d, 16, 30, 8),                       // 10 stq    n
        lit(0x10, 0x29, 16, 1, 16),                 // 11 subq   n, 1
        bra(0x34, 26, -9),                          // 12 bsr    fib
        mem(0x2d, 0, 30, 16),                       // 13 stq    r0
        mem(0x29, 16, 30, 8),                       // 14 ldq    n
        lit(0x10, 0x29, 16, 2, 16),                 // 15 subq   n, 2
        bra(0x34, 26, -13),                         // 16 bsr    fib
        mem(0x29, 1, 30, 16),                       // 17 ldq
        opr(0x10, 0x20, 0, 1, 0),                   // 18 addq
        mem(0x29, 26, 30, 0),                       // 19 ldq    ra
        mem(0x08, 30, 30, 32),                      // 20 lda    sp
        0x1a << 26 | 31 << 21 | 26 << 16 | 2 << 14, // 21 ret
    ]
}

fn guest(words: &[u32]) -> Vcpu {
    let space = AddressSpace::based().expect("a window");
    let request = MapRequest::anonymous(4 * PAGE_SIZE, Prot::all()).at(Place::Fixed(CODE));
    space.map(&request).expect("room for the code");
    for (i, &word) in words.iter().enumerate() {
        space.store_u32(CODE + 4 * i as u64, word).expect("mapped");
    }
    Vcpu::new(Arc::new(space), CpuModel::Ev67)
}

/// Starts the program at its beginning.
fn reset(vcpu: &mut Vcpu) {
    vcpu.cpu.pc = CODE;
    vcpu.cpu.r[16] = CODE + 2 * PAGE_SIZE;
    vcpu.cpu.r[20] = 2000;
}

fn loops(c: &mut Criterion) {
    let programs = [("md5", md5()), ("sift", sift()), ("calls", calls())];
    for (name, words) in programs {
        let mut group = c.benchmark_group(name);
        let mut vcpu = guest(&words);
        reset(&mut vcpu);
        Interpreter::new(Dispatch::Match).run(&mut vcpu, Limit::Count(u64::MAX));
        group.throughput(Throughput::Elements(vcpu.cpu.count));
        group.sample_size(20);
        for dispatch in [Dispatch::Threaded, Dispatch::Match] {
            for limit in [Limit::None, Limit::Count(u64::MAX)] {
                let mut engine = Interpreter::new(dispatch);
                let counted = if limit == Limit::None { "uncounted" } else { "counted" };
                group.bench_function(format!("{}/{counted}", engine.name()), |b| {
                    b.iter(|| {
                        reset(&mut vcpu);
                        black_box(engine.run(&mut vcpu, limit))
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, loops);
criterion_main!(benches);
