//! The micro level: what decoding, translating and executing small pieces of code cost.
//!
//! `cargo bench --workspace --bench micro [-- FILTER]`. Rows of programs are `axplab bench`'s; here a change
//! to one loop of the interpreter or one pass of a translator shows before it drowns in a program.
//!
//! * `decode`: words of a guest program's text, in words per second
//! * `translate`: a fresh engine executes code once, so that nearly all of the time is its translation
//! * one group for each loop: the engines, and an interpreter that decodes every time, on it, in guest
//!   instructions per second; `counted` runs retire exactly as many instructions as they are told

use std::hint::black_box;
use std::sync::Arc;

use axp_emu::cpu::Vcpu;
use axp_emu::engine::Limit;
use axp_emu::interp;

use axp_emu::isa::{self, CpuModel, assemble_block};
use axp_emu::mem::{AddressSpace, MapRequest, PAGE_SIZE, Place, Prot};
use axp_guests::{Catalogue, Cpu};
use axp_tests::engines::ENGINES;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const CODE: u64 = 0x1_2000_0000;
/// Data of a loop: what R16 points to at its start.
const DATA: u64 = CODE + 4 * PAGE_SIZE;
/// Rounds of a loop in a sample: what R20 holds at its start.
const ROUNDS: u64 = 2000;

/// Engines that translate code when control first comes to it.
const TRANSLATORS: [&str; 2] = ["baseline", "opt-eager"];

/// Engines that the loops run on, of those under test.
const MEASURED: [&str; 4] = ["interp", "interp-match", "baseline", "opt"];

/// One step of MD5 (its first round), 16 times in a row, as a compiler lays it out.
fn md5() -> String {
    let mut text = String::from("loop:\n");
    for i in 0..16 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| 1 + (k + 16 - i) % 4);
        text += &format!(
            "ldl $5, {}($16)\n xor ${c}, ${d}, $6\n and $6, ${b}, $6\n xor $6, ${d}, $6\n \
             addl $5, ${a}, ${a}\n ldah $7, 0x5a82($31)\n lda $7, 0x7999($7)\n addl ${a}, $6, ${a}\n \
             addl ${a}, $7, ${a}\n sll ${a}, 7, $8\n extll ${a}, 0, ${a}\n srl ${a}, 25, ${a}\n \
             bis ${a}, $8, ${a}\n addl ${a}, ${b}, ${a}\n",
            4 * i
        );
    }
    text + "subq $20, 1, $20\n bne $20, loop\n callsys\n"
}

/// Sifts a value down through an array, as heap sort does: loads, compares, short branches.
const SIFT: &str = "
    again: bis $31, $16, $1
           lda $2, 63($31)
    loop:  ldq $3, 0($1)
           ldq $4, 8($1)
           cmplt $4, $3, $5
           beq $5, next
           stq $4, 0($1)
           stq $3, 8($1)
    next:  lda $1, 8($1)
           subq $2, 1, $2
           bne $2, loop
           stq $20, 504($16)
           subq $20, 1, $20
           bne $20, again
           callsys";

/// Recursive calls: Fibonacci numbers by their definition.
const CALLS: &str = "
           lda $30, 0x1ff0($16)
           lda $16, 20($31)
           bsr $26, fib
           callsys
    fib:   cmplt $16, 2, $1
           beq $1, deep
           bis $31, $16, $0
           ret $31, ($26), 2
    deep:  lda $30, -32($30)
           stq $26, 0($30)
           stq $16, 8($30)
           subq $16, 1, $16
           bsr $26, fib
           stq $0, 16($30)
           ldq $16, 8($30)
           subq $16, 2, $16
           bsr $26, fib
           ldq $1, 16($30)
           addq $0, $1, $0
           ldq $26, 0($30)
           lda $30, 32($30)
           ret $31, ($26), 2";

/// A product of vectors under software completion, as gcc -mieee writes it.
const FLOATS: &str = "
    again: bis $31, $16, $1
           lda $2, 64($31)
    loop:  ldt $f10, 0($1)
           ldt $f11, 8($1)
           mult/su $f10, $f11, $f12
           trapb
           addt/su $f12, $f13, $f13
           trapb
           lda $1, 8($1)
           subq $2, 1, $2
           bne $2, loop
           stt $f13, 1024($16)
           subq $20, 1, $20
           bne $20, again
           callsys";

/// Jumps through a table, as an interpreter's dispatch does.
const JUMPS: &str = "
           br $3, start
    start: and $20, 3, $1
           s8addq $1, $3, $2
           lda $2, 20($2)
           jmp $31, ($2), start
           addq $4, 1, $4
           br $31, next
           addq $4, 2, $4
           br $31, next
           addq $4, 3, $4
           br $31, next
           addq $4, 4, $4
    next:  subq $20, 1, $20
           bne $20, start
           callsys";

/// Moves bytes one by one.
const BYTES: &str = "
    again: bis $31, $16, $1
           lda $2, 256($31)
    loop:  ldbu $3, 0($1)
           stb $3, 1024($1)
           lda $1, 1($1)
           subq $2, 1, $2
           bne $2, loop
           subq $20, 1, $20
           bne $20, again
           callsys";

fn programs() -> Vec<(&'static str, Vec<u32>)> {
    let texts = [
        ("md5", &*md5()),
        ("sift", SIFT),
        ("calls", CALLS),
        ("floats", FLOATS),
        ("jumps", JUMPS),
        ("bytes", BYTES),
    ];
    texts.map(|(name, text)| (name, assemble_block(text, CODE).expect(name))).to_vec()
}

fn guest(words: &[u32]) -> Vcpu {
    let space = AddressSpace::based().expect("a window");
    let request = MapRequest::anonymous(8 * PAGE_SIZE, Prot::all()).at(Place::Fixed(CODE));
    space.map(&request).expect("room for the code");
    for (i, &word) in words.iter().enumerate() {
        space.store_u32(CODE + 4 * i as u64, word).expect("mapped");
    }
    Vcpu::new(Arc::new(space), CpuModel::Ev67)
}

/// Starts the program at its beginning.
fn reset(vcpu: &mut Vcpu, rounds: u64) {
    vcpu.cpu.pc = CODE;
    vcpu.cpu.r[16] = DATA;
    vcpu.cpu.r[20] = rounds;
}

/// The interpreter that everybody writes first, to compare with: fetches and decodes each instruction each
/// time. `false` at the callsys that ends a program.
fn decode_and_execute(vcpu: &mut Vcpu) -> bool {
    let word = vcpu.mem.fetch_u32(vcpu.cpu.pc).expect("the program is mapped");
    let insn = isa::decode(word).expect("a valid instruction");
    interp::step(vcpu, &insn).is_ok()
}

fn decode(c: &mut Criterion) {
    let (program, _) = Catalogue::builtin().find("md5-8192").expect("a row");
    let elf = program.elf_bytes(Cpu::Ev56).expect("it is built in");
    let image = axp_emu::load::parse(elf).expect("a guest program is well-formed");
    let text = &image.segments[0].data;
    let words: Vec<u32> =
        text.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Elements(words.len() as u64));
    group.bench_function("words", |b| {
        b.iter(|| words.iter().filter_map(|&word| isa::decode(word)).count());
    });
    group.finish();
}

fn translate(c: &mut Criterion) {
    let words = assemble_block(&md5(), CODE).expect("md5");
    let mut group = c.benchmark_group("translate");
    group.throughput(Throughput::Elements(words.len() as u64));
    group.sample_size(20);
    let translators = ENGINES.iter().filter(|engine| TRANSLATORS.contains(&engine.name));
    for engine in translators {
        let mut vcpu = guest(&words);
        group.bench_function(engine.name, |b| {
            b.iter_batched_ref(
                engine.make,
                |engine| {
                    reset(&mut vcpu, 1);
                    black_box(engine.run(&mut vcpu, Limit::None))
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn loops(c: &mut Criterion) {
    for (name, words) in programs() {
        let mut group = c.benchmark_group(name);
        let mut vcpu = guest(&words);
        reset(&mut vcpu, ROUNDS);
        (ENGINES[0].make)().run(&mut vcpu, Limit::Count(u64::MAX));
        group.throughput(Throughput::Elements(vcpu.cpu.count));
        group.sample_size(20);
        group.bench_function("decode-every-time", |b| {
            b.iter(|| {
                reset(&mut vcpu, ROUNDS);
                while decode_and_execute(&mut vcpu) {}
            });
        });
        for subject in ENGINES.iter().filter(|engine| MEASURED.contains(&engine.name)) {
            for (mode, limit) in [("uncounted", Limit::None), ("counted", Limit::Count(u64::MAX))] {
                let mut engine = (subject.make)();
                group.bench_function(format!("{}/{mode}", subject.name), |b| {
                    b.iter(|| {
                        reset(&mut vcpu, ROUNDS);
                        black_box(engine.run(&mut vcpu, limit))
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, decode, translate, loops);
criterion_main!(benches);
