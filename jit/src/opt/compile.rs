//! From a region to host code: Cranelift's context and settings.
//!
//! A [`Job`] holds all that a compilation needs, so that it can be done on any thread; the [`Output`]
//! is placed in the arena by the thread that runs the guest.

use std::collections::HashMap;
use std::sync::Arc;

use axp_emu::isa::{CpuModel, Insn, Kind, Opcode};
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{Function, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::print_errors::pretty_error;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, Context};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::emit::{self, Mode, Translator};
use super::keep::keep_alive;
use super::merged::Merged;
use super::saved::{Saved, Shape, Words};
use super::symbols::{HostFn, Relocation, Symbols};
use super::{pairs, products};
use crate::analysis::Facts;
use crate::cache::{Key, Library};
use crate::code::ArenaError;
use crate::fpu::Site;
use crate::region::Region;

/// Guest instructions in a region at most.
pub const REGION_LIMIT: usize = 2000;

/// Why a region could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// No room, or no memory.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// Cranelift does not support this host.
    #[error("cannot compile for this host: {0}")]
    Host(String),
    /// Cranelift gave up.
    #[error("Cranelift: {0}")]
    Codegen(#[from] Box<CodegenError>),
    /// The code refers to a host function that there is not.
    #[error("no host function {0:?}")]
    Function(HostFn),
    /// Cranelift panicked.
    #[error("the compiler panicked")]
    Panic,
}

/// A region to be compiled.
#[derive(Debug)]
pub struct Job {
    /// What to compile.
    pub region: Region,
    /// The guest code that it was made from: start, end, hash of the words.
    pub ranges: Vec<(u64, u64, u64)>,
    /// Generation of code that was in force when it was asked for.
    pub generation: u64,
    /// How.
    pub mode: Mode,
    /// What AMASK and IMPLVER answer.
    pub model: CpuModel,
    /// Who else may use what comes of it.
    pub(crate) shared: Option<Shared>,
}

/// Where a translation can be had by other threads and runs.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// The library.
    pub library: Arc<Library>,
    /// What it is looked up by.
    pub key: Key,
    /// The guest's code.
    pub words: Words,
    /// The newest of the library's records for the key that is known not to fit.
    pub tried: u64,
}

impl Job {
    /// Whether somebody has had the same compiled since it was asked for.
    pub fn is_there(&self) -> bool {
        self.shared.as_ref().is_some_and(|s| s.library.newest(&s.key) > s.tried)
    }

    /// Lets others have what came of it.
    pub fn share(&self, output: &Output) {
        if let Some(Shared { library, key, words, .. }) = &self.shared {
            library.add(*key, &Saved::encode(words, &Shape::of(&self.region), output));
        }
    }
}

/// Host code that has not been placed yet.
#[derive(Debug)]
pub struct Output {
    /// The code.
    pub bytes: Vec<u8>,
    /// The places in it that are to hold addresses.
    pub relocations: Vec<Relocation>,
    /// Multiple at which byte [`anchor`](Self::anchor) is to be placed.
    pub align: usize,
    /// A byte of the code.
    pub anchor: usize,
    /// Code offset ranges of guest instructions, by offset.
    pub pcs: Vec<(u32, u32, u64)>,
    /// Host accesses that do the work of several.
    pub merged: Vec<Merged>,
    /// Code offset ranges of floating-point instructions.
    pub fp_sites: Vec<Site>,
    /// Instructions that the code refers to.
    pub kept: Box<[Insn]>,
}

/// Cranelift, set up for this host.
pub struct Compiler {
    isa: OwnedTargetIsa,
    /// Leaves floating-point operations where they are.
    in_order: OwnedTargetIsa,
    context: Context,
    frontend: FunctionBuilderContext,
}

impl Compiler {
    /// A compiler for the host it runs on.
    pub fn new() -> Result<Self, CompileError> {
        Ok(Compiler {
            isa: Compiler::isa("speed")?,
            in_order: Compiler::isa("none")?,
            context: Context::new(),
            frontend: FunctionBuilderContext::new(),
        })
    }

    fn isa(opt_level: &str) -> Result<OwnedTargetIsa, CompileError> {
        let mut flags = settings::builder();
        let mut set = |name: &str, value: &str| {
            flags.set(name, value).map_err(|e| CompileError::Host(e.to_string()))
        };
        set("opt_level", opt_level)?;
        set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
        set("preserve_frame_pointers", "true")?;
        set("unwind_info", "false")?;
        set("enable_probestack", "false")?;
        set("enable_heap_access_spectre_mitigation", "false")?;
        set("enable_table_access_spectre_mitigation", "false")?;
        cranelift_native::builder()
            .map_err(|e| CompileError::Host(e.to_string()))?
            .finish(settings::Flags::new(flags))
            .map_err(|e| CompileError::Host(e.to_string()))
    }

    /// Compiles a region.
    pub fn compile(&mut self, job: &Job) -> Result<Output, CompileError> {
        let Job { region, mode, model, .. } = job;
        self.context.clear();
        self.context.func =
            Function::with_name_signature(UserFuncName::default(), emit::signature());
        let facts = Facts::of(region, mode.observed, super::is_access);
        // With unmasked exceptions a floating-point operation has an effect, which Cranelift does not
        // know of: its optimiser would move it.
        let fp = if mode.unmasked { fp_insns(region) } else { HashMap::new() };
        let in_order = !fp.is_empty();
        let mut symbols = Symbols::new();
        let builder = FunctionBuilder::new(&mut self.context.func, &mut self.frontend);
        let (builder, mut merged) =
            Translator::translate(builder, region, &facts, *mode, *model, in_order, &mut symbols);
        builder.finalize(self.isa.frontend_config());
        products::multiply_wide(&mut self.context.func);
        let lowest = emit::lowest_pc(region);
        // Elsewhere each access counts by itself.
        if !mode.precise && !mode.strict && !mode.translated() {
            let pc_of = |loc| emit::pc_of(lowest, loc);
            pairs::join(&mut self.context.func, in_order, pc_of, &mut merged);
        }
        let mut isa = &self.isa;
        if in_order {
            isa = &self.in_order;
            keep_alive(&mut self.context.func);
        }
        // `AXPLAB_LOG=clif=debug` shows each region before and after Cranelift.
        let dump = tracing::enabled!(target: "clif", tracing::Level::DEBUG);
        if dump {
            let func = self.context.func.display();
            tracing::debug!(target: "clif", "region {:#x}\n{func}", region.entry());
            self.context.set_disasm(true);
        }
        let code = self.context.compile(&**isa, &mut ControlPlane::default()).map_err(|e| {
            if cfg!(debug_assertions) {
                panic!("{}", pretty_error(e.func, e.inner));
            }
            Box::new(e.inner)
        })?;
        if dump {
            tracing::debug!(target: "clif", "{}", code.vcode.as_deref().unwrap_or(""));
        }
        assert!(code.buffer.relocs().is_empty(), "all addresses are numbers of ours");
        let mut bytes = code.code_buffer().to_vec();
        let relocations = symbols.find(&mut bytes);
        let pcs: Vec<(u32, u32, u64)> = code
            .buffer
            .get_srclocs_sorted()
            .iter()
            .filter(|s| !s.loc.is_default())
            .map(|s| (s.start, s.end, emit::pc_of(lowest, s.loc)))
            .collect();
        let fp_sites = fp_sites(&pcs, *mode, |pc| fp.get(&pc).copied());
        // Cranelift aligns no blocks; a tight loop that straddles fetch lines can take twice as long.
        let head = region.innermost_loop().map(|b| b.pc);
        let anchor = pcs.iter().find(|(_, _, pc)| Some(*pc) == head).map(|(start, ..)| *start);
        let (align, anchor) = anchor.map_or((16, 0), |offset| (64, offset as usize));
        let kept = symbols.kept.into();
        Ok(Output { bytes, relocations, align, anchor, pcs, merged, fp_sites, kept })
    }
}

fn is_fp(insn: &Insn) -> bool {
    insn.op.kind() == Kind::Fp || insn.op == Opcode::Lds
}

/// Code offset ranges of floating-point instructions, among those of all; `insn_at` says which stand where.
pub fn fp_sites(
    pcs: &[(u32, u32, u64)],
    mode: Mode,
    insn_at: impl Fn(u64) -> Option<Insn>,
) -> Vec<Site> {
    let pcs = if mode.unmasked { pcs } else { &[] };
    let site = |&(start, end, pc)| Some((start, end, insn_at(pc).filter(is_fp)?));
    pcs.iter().filter_map(site).collect()
}

/// The floating-point instructions of a region, by address.
fn fp_insns(region: &Region) -> HashMap<u64, Insn> {
    let blocks = region.blocks.iter();
    blocks
        .flat_map(|b| (b.pc..).step_by(4).zip(&b.insns))
        .filter(|(_, insn)| is_fp(insn))
        .map(|(pc, insn)| (pc, *insn))
        .collect()
}
