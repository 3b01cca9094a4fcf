//! From a Linux kernel to a machine about to execute its first instruction.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::pci::MAX_FUNCTIONS;
use super::secondary::{Left, Secondaries};
use super::{Clipper, Disk, Network, hwrpb};
use crate::cpu::Vcpu;
use crate::engine::{Engine, Outcome};
use crate::isa::CpuModel;
use crate::load::Image;
use crate::machine::osf::{Counters, Drive, Processor, Report};
use crate::machine::{Console, MakeEngine};
use crate::mem::{PAGE_SIZE, Physical};

/// Start of the superpage: where a kernel is linked to.
const KSEG: u64 = 0xffff_fc00_0000_0000;
/// Bytes of the superpage that are memory.
const KSEG_MASK: u64 = (1 << 40) - 1;
/// Where, before the entry point, the kernel looks for what it is told: the command line in 256
/// bytes, address and size of the initial RAM disk.
const PARAMETERS: u64 = 0x6000;
const COMMAND_LINE: usize = 256;
/// Least memory that makes sense.
const LEAST: u64 = 8 << 20;

/// What a guest is started with.
#[derive(Debug, Default)]
pub struct Settings<'a> {
    /// Bytes of RAM.
    pub memory: u64,
    /// The processor.
    pub model: CpuModel,
    /// How many of them, up to [`MAX_PROCESSORS`](super::MAX_PROCESSORS); 0 is one.
    pub processors: usize,
    /// Contents of the initial RAM disk; empty for none.
    pub initrd: &'a [u8],
    /// The kernel's command line.
    pub command_line: &'a str,
    /// Where the console's output goes.
    pub console: Console,
    /// Disks, in order.
    pub disks: Vec<Disk>,
    /// A network.
    pub network: Option<Network>,
}

/// Why a kernel cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The host has no memory.
    #[error("no memory for the machine: {0}")]
    Memory(String),
    /// There is less RAM than anything needs.
    #[error("{0} bytes of memory are too few; give at least 8 MB")]
    Small(u64),
    /// A segment lies where no kernel is.
    #[error(
        "a segment at {0:#x} lies outside the kernel's part of the address space \
         (0xfffffc0000000000 and 1 TB from there); is it a Linux kernel?"
    )]
    NotKernel(u64),
    /// The kernel does not fit.
    #[error("the kernel ends at {end:#x}, behind the {memory:#x} bytes of memory")]
    Fit {
        /// First physical address behind it.
        end: u64,
        /// RAM.
        memory: u64,
    },
    /// The initial RAM disk does not fit behind the kernel.
    #[error("an initial RAM disk of {size} bytes does not fit behind the kernel in {memory} bytes")]
    Initrd {
        /// Its size.
        size: u64,
        /// RAM.
        memory: u64,
    },
    /// The command line is too long.
    #[error("the command line has {0} characters; the kernel takes 255")]
    CommandLine(usize),
    /// More disks, and a network, than have room.
    #[error("{0} devices; the machine has room for 8")]
    Devices(usize),
}

/// A machine with a kernel in it.
#[derive(Debug)]
pub struct Guest {
    /// The first processor's PALcode.
    pub processor: Processor,
    /// Its registers.
    pub vcpu: Vcpu,
    /// The system around it.
    pub platform: Arc<Clipper>,
    model: CpuModel,
    left: Left,
}

impl Guest {
    /// Loads a kernel, made by [`parse_kernel`](crate::load::parse_kernel).
    pub fn new(kernel: &Image, settings: Settings<'_>) -> Result<Guest, KernelError> {
        let memory = settings.memory / PAGE_SIZE * PAGE_SIZE;
        if memory < LEAST {
            return Err(KernelError::Small(memory));
        }
        let devices = settings.disks.len() + usize::from(settings.network.is_some());
        if devices > MAX_FUNCTIONS {
            return Err(KernelError::Devices(devices));
        }
        let platform = Arc::new(Clipper::new(settings.console, settings.processors));
        let mut physical = Physical::new(memory).map_err(|e| KernelError::Memory(e.to_string()))?;
        platform.attach(&mut physical);
        platform.plug(&physical, settings.disks, settings.network);
        let end = load(&physical, kernel)?;
        let parameters = (kernel.entry & KSEG_MASK).wrapping_sub(PARAMETERS);
        let initrd = place_initrd(&physical, end, settings.initrd)?;
        let mut line = settings.command_line.as_bytes().to_vec();
        if line.len() >= COMMAND_LINE || line.contains(&0) {
            return Err(KernelError::CommandLine(line.len()));
        }
        line.resize(COMMAND_LINE, 0);
        let told = physical.write(parameters, &line)
            && physical.store(parameters + 0x100, 8, initrd).is_some()
            && physical.store(parameters + 0x108, 8, settings.initrd.len() as u64).is_some();
        if !told {
            return Err(KernelError::NotKernel(kernel.entry));
        }
        hwrpb::build(&physical, platform.processors() as u64);
        let mut vcpu = Processor::vcpu(Arc::new(physical), settings.model)
            .map_err(|e| KernelError::Memory(e.to_string()))?;
        let processor = Processor::new(platform.clone(), 0, &mut vcpu, hwrpb::context(0));
        vcpu.cpu.pc = kernel.entry;
        Ok(Guest { processor, vcpu, platform, model: settings.model, left: Left::default() })
    }

    /// Runs it to its end, the first processor by `engine` and others by what `make` makes. With
    /// `counted`, time is made of instructions, and runs repeat exactly; others are not started then.
    pub fn run(&mut self, engine: &mut dyn Engine, make: MakeEngine<'_>, counted: bool) -> Outcome {
        if counted {
            return self.processor.run(engine, &mut self.vcpu, Some(u64::MAX));
        }
        self.run_by(engine, make, &|processor, engine, vcpu| processor.drive(engine, vcpu))
    }

    /// Runs it to its end in real time, each processor by `drive`.
    pub fn run_by(
        &mut self,
        engine: &mut dyn Engine,
        make: MakeEngine<'_>,
        drive: Drive<'_>,
    ) -> Outcome {
        let platform = self.platform.clone();
        let physical = match self.vcpu.mem.system() {
            Some(system) => system.shared_physical(),
            None => unreachable!("a guest's memory is translated"),
        };
        let (model, left) = (self.model, Mutex::default());
        let others = Secondaries { platform: &platform, physical, model, make, drive, left };
        let outcome = thread::scope(|scope| {
            // The threads end also when a panic passes by here.
            struct Stop<'a>(&'a Clipper);
            impl Drop for Stop<'_> {
                fn drop(&mut self) {
                    self.0.stop();
                }
            }
            let _stop = Stop(&platform);
            scope.spawn(|| platform.run_clock());
            scope.spawn(|| platform.run_network());
            for whami in 1..platform.processors() as u64 {
                let others = &others;
                scope.spawn(move || others.run(whami));
            }
            self.processor.in_time(&mut self.vcpu, |processor, vcpu| drive(processor, engine, vcpu))
        });
        self.left = others.left.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome
    }

    /// Why it ended, if not by its own wish.
    pub fn report(&self) -> Option<&Report> {
        self.processor.report().or(self.left.report.as_ref())
    }

    /// What was counted, by processor: of all that were started.
    pub fn counters(&self) -> Vec<(u64, Counters)> {
        let mut all = vec![(0, self.processor.counters())];
        all.extend(&self.left.counters);
        all.sort_by_key(|(whami, _)| *whami);
        all
    }
}

/// Copies the kernel's segments; gives the first physical address behind them.
fn load(physical: &Physical, kernel: &Image) -> Result<u64, KernelError> {
    let mut end = 0;
    for segment in &kernel.segments {
        let offset = segment.vaddr.wrapping_sub(KSEG);
        if !(hwrpb::RESERVED..=KSEG_MASK).contains(&offset) {
            return Err(KernelError::NotKernel(segment.vaddr));
        }
        let behind = offset.saturating_add(segment.mem_size);
        if behind > physical.size() || !physical.write(offset, &segment.data) {
            return Err(KernelError::Fit { end: behind, memory: physical.size() });
        }
        end = end.max(behind);
    }
    if kernel.entry.wrapping_sub(KSEG) < PARAMETERS + hwrpb::RESERVED {
        return Err(KernelError::NotKernel(kernel.entry));
    }
    Ok(end)
}

/// Copies the RAM disk to the end of memory; gives its address for the kernel, or 0.
fn place_initrd(physical: &Physical, end: u64, initrd: &[u8]) -> Result<u64, KernelError> {
    if initrd.is_empty() {
        return Ok(0);
    }
    let size = initrd.len() as u64;
    let at = physical.size().checked_sub(size).map(|at| at / PAGE_SIZE * PAGE_SIZE);
    match at {
        Some(at) if at >= end && physical.write(at, initrd) => Ok(KSEG + at),
        _ => Err(KernelError::Initrd { size, memory: physical.size() }),
    }
}
