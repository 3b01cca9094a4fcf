//! The initial stack of a program: argument count, pointers, auxiliary vector, strings.

use crate::isa::CpuModel;
use crate::mem::{AddressSpace, MemFault};

/// Below the program text, as Linux on Alpha has it.
pub const STACK_TOP: u64 = 0x1_2000_0000;
/// The default limit of the stack.
pub const STACK_SIZE: u64 = 8 << 20;

/// Clock ticks per second that times() counts in.
pub const CLOCK_TICKS: u64 = 1024;

const AT_NULL: u64 = 0;
const AT_PHDR: u64 = 3;
const AT_PHENT: u64 = 4;
const AT_PHNUM: u64 = 5;
const AT_PAGESZ: u64 = 6;
const AT_BASE: u64 = 7;
const AT_FLAGS: u64 = 8;
const AT_ENTRY: u64 = 9;
const AT_UID: u64 = 11;
const AT_PLATFORM: u64 = 15;
const AT_HWCAP: u64 = 16;
const AT_CLKTCK: u64 = 17;
const AT_SECURE: u64 = 23;
const AT_RANDOM: u64 = 25;
const AT_EXECFN: u64 = 31;
const AT_L1I_CACHESHAPE: u64 = 34;

/// What the vector says about the program.
pub struct ProgramFacts<'a> {
    /// Address of the program headers.
    pub phdr: u64,
    /// Their number.
    pub phnum: u64,
    /// Load address of the interpreter, or 0.
    pub base: u64,
    /// Entry of the program itself.
    pub entry: u64,
    /// User, effective user, group, effective group.
    pub ids: [u64; 4],
    /// Name by which it was started.
    pub exec_name: &'a [u8],
    /// Sixteen random bytes.
    pub random: [u8; 16],
}

/// Cache shape word: size, log2 of the line, ways (`arch/alpha/kernel/setup.c`); -1 is none.
fn cache_shapes(model: CpuModel) -> [u64; 4] {
    let none = u64::MAX;
    let shape = |kilobytes: u64, line_log2: u64, ways: u64| kilobytes << 10 | line_log2 << 4 | ways;
    match model {
        CpuModel::Ev4 => [shape(8, 5, 1), shape(8, 5, 1), shape(512, 5, 1), none],
        CpuModel::Ev5 | CpuModel::Ev56 => {
            [shape(8, 5, 1), shape(8, 5, 1), shape(96, 6, 3), shape(2048, 6, 1)]
        }
        CpuModel::Pca56 => [shape(16, 6, 1), shape(8, 5, 1), shape(1024, 6, 1), none],
        CpuModel::Ev6 | CpuModel::Ev67 => {
            [shape(64, 6, 2), shape(64, 6, 2), shape(4096, 6, 1), none]
        }
    }
}

/// Where things came to lie.
pub struct StackImage {
    /// Stack pointer at entry.
    pub sp: u64,
    /// The auxiliary vector as bytes, for /proc/self/auxv.
    pub auxv: Vec<u8>,
}

/// Writes the stack image below `top`. The caller has checked that it fits.
pub fn build(
    mem: &AddressSpace,
    top: u64,
    model: CpuModel,
    argv: &[Vec<u8>],
    envp: &[Vec<u8>],
    facts: &ProgramFacts<'_>,
) -> Result<StackImage, MemFault> {
    // The last quadword stays zero; then, downwards: file name, environment, arguments.
    let mut at = top - 8;
    let mut push = |string: &[u8]| {
        at -= string.len() as u64 + 1;
        let mut bytes = string.to_vec();
        bytes.push(0);
        mem.write_bytes(at, &bytes).map(|()| at)
    };
    let exec_name = push(facts.exec_name)?;
    let mut env: Vec<u64> = envp.iter().rev().map(|s| push(s)).collect::<Result<_, _>>()?;
    let mut args: Vec<u64> = argv.iter().rev().map(|s| push(s)).collect::<Result<_, _>>()?;
    env.reverse();
    args.reverse();
    let platform = push(model.name().as_bytes())?;
    let random = (at & !15) - 16;
    mem.write_bytes(random, &facts.random)?;

    let mut auxv = Vec::new();
    for (i, shape) in cache_shapes(model).into_iter().enumerate() {
        auxv.push((AT_L1I_CACHESHAPE + i as u64, shape));
    }
    auxv.extend([
        (AT_HWCAP, model.amask()),
        (AT_PAGESZ, crate::mem::PAGE_SIZE),
        (AT_CLKTCK, CLOCK_TICKS),
        (AT_PHDR, facts.phdr),
        (AT_PHENT, 56),
        (AT_PHNUM, facts.phnum),
        (AT_BASE, facts.base),
        (AT_FLAGS, 0),
        (AT_ENTRY, facts.entry),
    ]);
    auxv.extend((AT_UID..).zip(facts.ids));
    auxv.extend([
        (AT_SECURE, 0),
        (AT_RANDOM, random),
        (AT_EXECFN, exec_name),
        (AT_PLATFORM, platform),
        (AT_NULL, 0),
    ]);
    let auxv: Vec<u64> = auxv.into_iter().flat_map(|(tag, value)| [tag, value]).collect();

    let mut words = vec![args.len() as u64];
    words.extend(&args);
    words.push(0);
    words.extend(&env);
    words.push(0);
    words.extend(&auxv);
    let bytes = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let sp = (random - 8 * words.len() as u64) & !15;
    mem.write_bytes(sp, &bytes(&words))?;
    Ok(StackImage { sp, auxv: bytes(&auxv) })
}
