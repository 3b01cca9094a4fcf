//! Tests of the interpreter by instruction words.
use super::*;
use crate::mem::{MapRequest, PAGE_SIZE, Place, Prot};
use std::sync::Arc;

pub(super) const CODE: u64 = 0x1_2000_0000;
pub(super) const DATA: u64 = 0x1_4000_0000;

pub(super) fn memory() -> Arc<AddressSpace> {
    let mem = AddressSpace::based().unwrap();
    let code = MapRequest::anonymous(4 * PAGE_SIZE, Prot::all()).at(Place::Fixed(CODE));
    mem.map(&code).unwrap();
    let data = MapRequest::anonymous(4 * PAGE_SIZE, Prot::READ | Prot::WRITE);
    mem.map(&data.at(Place::Fixed(DATA))).unwrap();
    Arc::new(mem)
}

pub(super) fn machine(words: &[u32]) -> Vcpu {
    let mem = memory();
    for (i, &word) in words.iter().enumerate() {
        mem.store_u32(CODE + 4 * i as u64, word).unwrap();
    }
    let mut vcpu = Vcpu::new(mem, crate::isa::CpuModel::Ev67);
    vcpu.cpu.pc = CODE;
    vcpu
}

fn opr(op: u32, func: u32, a: u32, b: u32, c: u32) -> u32 {
    op << 26 | a << 21 | b << 16 | func << 5 | c
}
fn opl(op: u32, func: u32, a: u32, l: u32, c: u32) -> u32 {
    op << 26 | a << 21 | l << 13 | 1 << 12 | func << 5 | c
}
fn bra(op: u32, a: u32, d: i32) -> u32 {
    op << 26 | a << 21 | (d as u32 & 0x1f_ffff)
}
fn mem(op: u32, a: u32, b: u32, d: i32) -> u32 {
    op << 26 | a << 21 | b << 16 | (d as u32 & 0xffff)
}

#[test]
fn speed() {
    for (name, d) in [("threaded", Dispatch::Threaded), ("match", Dispatch::Match)] {
        let mut v = machine(&[
            mem(0x29, 2, 16, 0),
            opr(0x10, 0x20, 2, 3, 4),
            opr(0x11, 0x40, 4, 1, 5),
            opl(0x12, 0x39, 5, 3, 6),
            opr(0x10, 0x00, 6, 4, 3),
            mem(0x2d, 3, 16, 8),
            opl(0x10, 0x29, 1, 1, 1),
            bra(0x3d, 1, -8),
            0x83,
        ]);
        v.cpu.r[16] = DATA;
        v.cpu.r[1] = 12_500_000;
        let mut e = Interpreter::new(d);
        let t = Instant::now();
        let exit = e.run(&mut v, Limit::None);
        assert_eq!(exit, Exit::CallPal(0x83));
        println!("{name} {:.3} ns", t.elapsed().as_nanos() as f64 / 1e8);
    }
}
