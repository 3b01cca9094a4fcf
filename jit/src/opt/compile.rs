//! From a region to host code in the arena: Cranelift's context and settings.

use axp_emu::isa::{CpuModel, Insn};
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{Function, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::print_errors::pretty_error;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, Context};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::emit::{self, Linker, Mode, Translator};
use crate::analysis::Facts;
use crate::code::{Arena, ArenaError, CodeTable};
use crate::profile;
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
}

/// Host code as placed.
pub struct Code {
    /// Executable address of the first byte.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// Code offset ranges of guest instructions, by offset.
    pub pcs: Vec<(u32, u32, u64)>,
    /// Where one load does the work of two: guest addresses of the first and the other.
    pub merged: Vec<(u64, u64)>,
    /// Instructions that the code refers to.
    #[allow(clippy::vec_box, reason = "compiled code holds the addresses of the instructions")]
    pub kept: Vec<Box<Insn>>,
}

/// Cranelift, set up for this host.
pub struct Compiler {
    isa: OwnedTargetIsa,
    context: Context,
    frontend: FunctionBuilderContext,
}

impl Compiler {
    /// A compiler for the host it runs on.
    pub fn new() -> Result<Self, CompileError> {
        let mut flags = settings::builder();
        let mut set = |name: &str, value: &str| {
            flags.set(name, value).map_err(|e| CompileError::Host(e.to_string()))
        };
        set("opt_level", "speed")?;
        set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
        set("preserve_frame_pointers", "true")?;
        set("unwind_info", "false")?;
        set("enable_probestack", "false")?;
        set("enable_heap_access_spectre_mitigation", "false")?;
        set("enable_table_access_spectre_mitigation", "false")?;
        let isa = cranelift_native::builder()
            .map_err(|e| CompileError::Host(e.to_string()))?
            .finish(settings::Flags::new(flags))
            .map_err(|e| CompileError::Host(e.to_string()))?;
        Ok(Compiler { isa, context: Context::new(), frontend: FunctionBuilderContext::new() })
    }

    /// Compiles a region and places its code in the arena.
    pub fn compile(
        &mut self,
        region: &Region,
        mode: Mode,
        model: CpuModel,
        table: &mut CodeTable,
        arena: &mut Arena,
    ) -> Result<Code, CompileError> {
        self.context.clear();
        self.context.func =
            Function::with_name_signature(UserFuncName::default(), emit::signature());
        let facts = Facts::of(region, mode.observed, super::is_access);
        let mut linker = TableLinker { table, arena, kept: Vec::new(), error: None };
        let builder = FunctionBuilder::new(&mut self.context.func, &mut self.frontend);
        let (builder, merged) =
            Translator::translate(builder, region, &facts, mode, model, &mut linker);
        builder.finalize(self.isa.frontend_config());
        let TableLinker { kept, error, .. } = linker;
        if let Some(error) = error {
            return Err(error.into());
        }
        // `AXPLAB_LOG=clif=debug` shows each region before and after Cranelift.
        let dump = tracing::enabled!(target: "clif", tracing::Level::DEBUG);
        if dump {
            let func = self.context.func.display();
            tracing::debug!(target: "clif", "region {:#x}\n{func}", region.entry());
            self.context.set_disasm(true);
        }
        let code = self.context.compile(&*self.isa, &mut ControlPlane::default()).map_err(|e| {
            if cfg!(debug_assertions) {
                panic!("{}", pretty_error(e.func, e.inner));
            }
            Box::new(e.inner)
        })?;
        if dump {
            tracing::debug!(target: "clif", "{}", code.vcode.as_deref().unwrap_or(""));
        }
        assert!(code.buffer.relocs().is_empty(), "a region refers to absolute addresses only");
        let bytes = code.code_buffer();
        let lowest = emit::lowest_pc(region);
        let pcs: Vec<(u32, u32, u64)> = code
            .buffer
            .get_srclocs_sorted()
            .iter()
            .filter(|s| !s.loc.is_default())
            .map(|s| (s.start, s.end, emit::pc_of(lowest, s.loc)))
            .collect();
        // Cranelift aligns no blocks; a tight loop that straddles fetch lines can take twice as long.
        let head = region.innermost_loop().map(|b| b.pc);
        let anchor = pcs.iter().find(|(_, _, pc)| Some(*pc) == head).map(|(start, ..)| *start);
        let (align, anchor) = anchor.map_or((16, 0), |offset| (64, offset as usize));
        let start = arena.place(bytes, align, anchor)? as u64;
        profile::note("opt", region.entry(), start, bytes, || {
            pcs.iter().map(|&(at, _, pc)| (at, pc)).collect()
        });
        Ok(Code { start, end: start + bytes.len() as u64, pcs, merged, kept })
    }
}

/// Hands out addresses while a region is translated.
struct TableLinker<'a> {
    table: &'a mut CodeTable,
    arena: &'a mut Arena,
    #[allow(clippy::vec_box, reason = "compiled code holds the addresses of the instructions")]
    kept: Vec<Box<Insn>>,
    error: Option<ArenaError>,
}

impl Linker for TableLinker<'_> {
    fn slot(&mut self, pc: u64) -> u64 {
        match self.table.slot(pc, self.arena) {
            Ok(slot) => slot as u64,
            Err(error) => {
                self.error = Some(error);
                0
            }
        }
    }

    fn jump_cache(&self) -> u64 {
        self.table.jump_cache() as u64
    }

    fn table(&mut self) -> u64 {
        &raw mut *self.table as u64
    }

    fn keep(&mut self, insn: &Insn) -> u64 {
        let kept = Box::new(*insn);
        let address = &raw const *kept as u64;
        self.kept.push(kept);
        address
    }
}
