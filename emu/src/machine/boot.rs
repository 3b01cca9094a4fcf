//! From an ELF file to a machine about to execute its first instruction.
//!
//! The image is loaded at its physical addresses; translation is off until the guest's first
//! SWPCTX, so that it can build its page tables. Registers at entry: R16 bytes of memory, R17 the
//! first free physical address, R30 the end of memory.

use std::sync::Arc;

use super::{Board, Machine, system};
use crate::cpu::{UnalignedPolicy, Vcpu};
use crate::isa::{CpuModel, PalVariant};
use crate::load::Image;
use crate::mem::{AddressSpace, PAGE_SIZE, Physical, ProbeStrategy, Translation};

/// How a machine is built.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of RAM.
    pub memory: u64,
    /// The processor.
    pub model: CpuModel,
    /// How PROBE finds its answers.
    pub probe: ProbeStrategy,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { memory: 64 << 20, model: CpuModel::default(), probe: ProbeStrategy::default() }
    }
}

/// Why a machine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The host has no memory.
    #[error("no memory for the machine: {0}")]
    Memory(String),
    /// The image does not fit.
    #[error("segment at {at:#x} does not fit in {memory} bytes of memory")]
    Fit {
        /// Its physical address.
        at: u64,
        /// RAM.
        memory: u64,
    },
}

impl Machine {
    /// A processor for this machine over `physical` memory.
    pub fn vcpu(physical: Arc<Physical>, settings: &Settings) -> Result<Vcpu, BootError> {
        let space =
            AddressSpace::for_machine(physical).map_err(|e| BootError::Memory(e.to_string()))?;
        let mut vcpu = Vcpu::new(Arc::new(space), settings.model);
        vcpu.pal = PalVariant::Vms;
        vcpu.unaligned = UnalignedPolicy::Trap;
        system(&vcpu).set_translation(Translation::Off);
        system(&vcpu).set_probe_strategy(settings.probe);
        Ok(vcpu)
    }

    /// Loads `image` and makes the first processor, about to execute its entry.
    pub fn boot(
        image: &Image,
        board: Arc<Board>,
        settings: &Settings,
    ) -> Result<(Machine, Vcpu), BootError> {
        let physical =
            Physical::new(settings.memory).map_err(|e| BootError::Memory(e.to_string()))?;
        let mut free = 0;
        for segment in &image.segments {
            let misfit = BootError::Fit { at: segment.vaddr, memory: settings.memory };
            let end = segment.vaddr.checked_add(segment.mem_size);
            if end.is_none_or(|end| end > settings.memory)
                || !physical.write(segment.vaddr, &segment.data)
            {
                return Err(misfit);
            }
            free = free.max(end.unwrap_or(0));
        }
        let mut vcpu = Machine::vcpu(Arc::new(physical), settings)?;
        let cpu = &mut *vcpu.cpu;
        cpu.pc = image.entry;
        cpu.r[16] = settings.memory;
        cpu.r[17] = free.next_multiple_of(PAGE_SIZE);
        cpu.r[30] = settings.memory;
        Ok((Machine::new(board, 0), vcpu))
    }

    /// Turns translation on, at the guest's first context.
    pub(super) fn translate(&mut self, vcpu: &Vcpu) {
        system(vcpu).set_translation(Translation::Vms);
    }
}
