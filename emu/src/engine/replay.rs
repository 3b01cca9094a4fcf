//! A run of a program written down as it happens, and repeated in other guests without an operating
//! system: what lockstep needs to run two engines on one program and to come back to where they part.
//!
//! A [`Recorder`] stands between the driver loop and a personality. For each guest event it notes what
//! the personality left: registers, the memory that it touched, the mappings. A [`Replayer`] puts the
//! same into another guest when that meets the same event after as many instructions; a [`Polled`]
//! engine stops where the recorded one was interrupted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Engine, EngineStats, Environment, Flow, Limit, Outcome};
use crate::cpu::{Cpu, Exit, UnalignedPolicy, Vcpu};
use crate::mem::{
    AddressSpace, MapError, MapRequest, PAGE_SIZE, Place, Prot, Region, Touched, WindowError,
};

/// Outcome of a replay that met another event than the recorded one.
pub const OFF_RECORD: Outcome = Outcome::Signalled { signal: 0, pc: 0, addr: 0 };

/// A record that grows beyond this many bytes is given up: reading files is written down in full.
const MAX_BYTES: usize = 2 << 30;

/// What an event did to memory.
#[derive(Clone, Debug, Default)]
struct Effects {
    /// Ranges in which the mappings are as in `maps` from now on, with nothing in them.
    anew: Vec<(u64, u64)>,
    /// What is mapped there, and ranges whose protection has changed.
    maps: Vec<(u64, u64, Prot)>,
    bytes: Vec<(u64, Box<[u8]>)>,
}

/// Registers as an event left them.
#[derive(Clone, Debug)]
struct Registers {
    r: [u64; 33],
    f: [u64; 33],
    /// pc, fpcr, unique, lock_addr, lock_value, lock_other, intr_flag.
    others: [u64; 7],
}

impl Registers {
    fn of(cpu: &Cpu) -> Self {
        let others = [
            cpu.pc,
            cpu.fpcr,
            cpu.unique,
            cpu.lock_addr,
            cpu.lock_value,
            cpu.lock_other,
            cpu.intr_flag,
        ];
        Registers { r: cpu.r, f: cpu.f, others }
    }

    fn store(&self, cpu: &mut Cpu) {
        (cpu.r, cpu.f) = (self.r, self.f);
        [
            cpu.pc,
            cpu.fpcr,
            cpu.unique,
            cpu.lock_addr,
            cpu.lock_value,
            cpu.lock_other,
            cpu.intr_flag,
        ] = self.others;
    }
}

#[derive(Clone, Debug)]
struct Entry {
    count: u64,
    exit: Exit,
    /// Program counter at the event.
    pc: u64,
    after: Registers,
    unaligned: UnalignedPolicy,
    effects: Effects,
    code_change: Option<(u64, u64)>,
    flow: Flow,
}

/// A program's start and everything that its operating system did.
#[derive(Debug)]
pub struct Record {
    start: Entry,
    entries: Vec<Entry>,
    bytes: usize,
    /// Why it is of no use, if so.
    pub failed: Option<String>,
}

/// A record that is written on one side and read on another.
pub type SharedRecord = Arc<Mutex<Record>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Record {
    /// A record that begins with `vcpu` as it is now.
    pub fn begin(vcpu: &Vcpu) -> SharedRecord {
        vcpu.mem.start_journal();
        vcpu.mem.take_journal();
        let all: Vec<Touched> =
            vcpu.mem.regions().iter().map(|r| Touched::Map(r.start, r.end)).collect();
        let start = Entry {
            count: vcpu.cpu.count,
            exit: Exit::Poll,
            pc: vcpu.cpu.pc,
            after: Registers::of(&vcpu.cpu),
            unaligned: vcpu.unaligned,
            effects: Effects::of(&vcpu.mem, &all, &[]),
            code_change: None,
            flow: Flow::Continue,
        };
        Arc::new(Mutex::new(Record { start, entries: Vec::new(), bytes: 0, failed: None }))
    }

    /// How many events are in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A guest at the start, in a window of its own.
    pub fn guest(&self, like: &GuestKind) -> Result<Vcpu, WindowError> {
        let mut vcpu = Vcpu::new(Arc::new(AddressSpace::based()?), like.model);
        vcpu.pal = like.pal;
        vcpu.precise = true;
        self.start.put(&mut vcpu);
        vcpu.cpu.count = self.start.count;
        Ok(vcpu)
    }
}

/// What a processor is, apart from its state.
#[derive(Clone, Copy, Debug)]
pub struct GuestKind {
    /// Which instructions exist.
    pub model: crate::isa::CpuModel,
    /// What CALL_PAL functions mean.
    pub pal: crate::isa::PalVariant,
}

impl GuestKind {
    /// That of `vcpu`.
    pub fn of(vcpu: &Vcpu) -> Self {
        GuestKind { model: vcpu.model, pal: vcpu.pal }
    }
}

/// Parts of regions within a range.
fn clipped(regions: &[Region], start: u64, end: u64) -> impl Iterator<Item = (u64, u64, Prot)> {
    let parts = regions.iter().map(move |r| (r.start.max(start), r.end.min(end), r.prot));
    parts.filter(|&(s, e, _)| s < e)
}

impl Effects {
    /// What memory holds now where it was touched; `before` are the regions as they were.
    fn of(mem: &AddressSpace, touched: &[Touched], before: &[Region]) -> Effects {
        let mut effects = Effects::default();
        if touched.is_empty() {
            return effects;
        }
        let now = mem.regions();
        for &what in touched {
            match what {
                Touched::Bytes(start, end) => effects.copy(mem, start, end, false),
                Touched::Map(start, end) => effects.map(mem, &now, start, end),
                // What could not be read until now is not known to anybody.
                Touched::Protect(start, end) => {
                    let blind = clipped(before, start, end).any(|(.., prot)| prot.is_empty());
                    if blind {
                        effects.map(mem, &now, start, end);
                    } else {
                        effects.maps.extend(clipped(&now, start, end));
                    }
                }
            }
        }
        effects
    }

    fn map(&mut self, mem: &AddressSpace, now: &[Region], start: u64, end: u64) {
        self.anew.push((start, end));
        for (s, e, prot) in clipped(now, start, end) {
            self.maps.push((s, e, prot));
            self.copy(mem, s, e, true);
        }
    }

    /// Page by page, since some may be missing; of new pages zeros need not be kept.
    fn copy(&mut self, mem: &AddressSpace, start: u64, end: u64, skip_zeros: bool) {
        let mut at = start;
        while at < end {
            let next = end.min((at & !(PAGE_SIZE - 1)).saturating_add(PAGE_SIZE));
            let mut bytes = vec![0; (next - at) as usize];
            if mem.read_bytes(at, &mut bytes).is_ok()
                && !(skip_zeros && bytes.iter().all(|&b| b == 0))
            {
                self.bytes.push((at, bytes.into()));
            }
            at = next;
        }
    }

    fn put(&self, mem: &AddressSpace) -> Result<(), MapError> {
        for &(start, end) in &self.anew {
            mem.unmap(start, end - start)?;
            for &(s, e, _) in self.maps.iter().filter(|m| m.0 < end && start < m.1) {
                let (s, e) = (s.max(start), e.min(end));
                let request = MapRequest::anonymous(e - s, Prot::READ | Prot::WRITE);
                let request = request.at(Place::Fixed(s));
                mem.map(&MapRequest { no_reserve: true, ..request })?;
            }
        }
        for (at, bytes) in &self.bytes {
            // A page that the guest may not write was not written by the kernel either.
            let _ = mem.write_bytes(*at, bytes);
        }
        for &(s, e, prot) in &self.maps {
            mem.protect(s, e - s, prot)?;
        }
        Ok(())
    }
}

impl Entry {
    /// Puts a guest into the state that the event left.
    fn put(&self, vcpu: &mut Vcpu) {
        self.after.store(&mut vcpu.cpu);
        vcpu.unaligned = self.unaligned;
        // The mappings have been made once in a window of the same size.
        if let Err(error) = self.effects.put(&vcpu.mem) {
            // Shows as a difference at the next comparison.
            vcpu.cpu.pc = !3;
            debug_assert!(false, "replayed mapping: {error}");
        }
    }
}

/// Goes on in a process that the guest has forked off, which nobody follows; ends that process and does
/// not return.
pub type ChildEnd = Box<dyn FnMut(&mut Vcpu, &mut dyn Environment)>;

/// A personality whose doings are written down.
pub struct Recorder {
    env: Box<dyn Environment>,
    record: SharedRecord,
    regions: Vec<Region>,
    code_change: Option<(u64, u64)>,
    child: ChildEnd,
    pid: u32,
}

impl Recorder {
    /// Writes what `env` does to `record`, which has begun with the same guest.
    pub fn new(
        env: Box<dyn Environment>,
        record: SharedRecord,
        vcpu: &Vcpu,
        child: ChildEnd,
    ) -> Self {
        let regions = vcpu.mem.regions();
        Recorder { env, record, regions, code_change: None, child, pid: std::process::id() }
    }
}

impl Environment for Recorder {
    fn handle(&mut self, vcpu: &mut Vcpu, exit: Exit) -> Flow {
        let (count, pc, before) = (vcpu.cpu.count, vcpu.cpu.pc, Registers::of(&vcpu.cpu));
        vcpu.mem.take_journal();
        let mut flow = self.env.handle(vcpu, exit);
        if std::process::id() != self.pid {
            (self.child)(vcpu, &mut *self.env);
        }
        vcpu.precise = true;
        self.code_change = self.env.take_code_change();
        let touched = vcpu.mem.take_journal();
        let effects = Effects::of(&vcpu.mem, &touched, &self.regions);
        if !effects.maps.is_empty() || !effects.anew.is_empty() {
            self.regions = vcpu.mem.regions();
        }
        let after = Registers::of(&vcpu.cpu);
        let nothing = exit == Exit::Poll
            && flow == Flow::Continue
            && effects.bytes.is_empty()
            && effects.maps.is_empty()
            && before.others == after.others
            && before.r == after.r;
        if nothing {
            return flow;
        }
        let mut record = lock(&self.record);
        record.bytes += 1000 + effects.bytes.iter().map(|b| b.1.len()).sum::<usize>();
        if record.bytes > MAX_BYTES {
            record.failed = Some(format!("the program moves more than {MAX_BYTES} bytes"));
            flow = Flow::Stop(OFF_RECORD);
        }
        let (unaligned, code_change) = (vcpu.unaligned, self.code_change);
        record.entries.push(Entry {
            count,
            exit,
            pc,
            after,
            unaligned,
            effects,
            code_change,
            flow,
        });
        flow
    }

    fn take_code_change(&mut self) -> Option<(u64, u64)> {
        self.code_change.take()
    }
}

/// Where in a record one guest is.
#[derive(Debug)]
pub struct Cursor {
    record: SharedRecord,
    next: usize,
    /// What was met that is not in the record.
    pub off: Option<String>,
}

/// A cursor that an environment and an engine share.
pub type SharedCursor = Arc<Mutex<Cursor>>;

impl Cursor {
    /// The start of a record.
    pub fn new(record: &SharedRecord) -> SharedCursor {
        Arc::new(Mutex::new(Cursor { record: record.clone(), next: 0, off: None }))
    }

    /// Instructions after which the recorded guest was interrupted next, before any other event.
    fn next_poll(&self) -> Option<u64> {
        let record = lock(&self.record);
        record.entries.get(self.next).filter(|e| e.exit == Exit::Poll).map(|e| e.count)
    }
}

/// Answers guest events from a record.
#[derive(Debug)]
pub struct Replayer {
    cursor: SharedCursor,
    code_change: Option<(u64, u64)>,
}

impl Replayer {
    /// Goes on from where `cursor` is.
    pub fn new(cursor: SharedCursor) -> Self {
        Replayer { cursor, code_change: None }
    }
}

impl Environment for Replayer {
    fn handle(&mut self, vcpu: &mut Vcpu, exit: Exit) -> Flow {
        let cursor = &mut *lock(&self.cursor);
        let record = cursor.record.clone();
        let record = lock(&record);
        let Some(entry) = record.entries.get(cursor.next) else {
            cursor.off = Some(format!("{exit}, and the other engine has met nothing"));
            return Flow::Stop(OFF_RECORD);
        };
        let (count, pc) = (vcpu.cpu.count, vcpu.cpu.pc);
        if (entry.exit, entry.count, entry.pc) != (exit, count, pc) {
            let (other, n, at) = (entry.exit, entry.count, entry.pc);
            cursor.off = Some(format!(
                "{exit} after {count} instructions at {pc:#x}, \
                 and the other engine {other} after {n} at {at:#x}"
            ));
            return Flow::Stop(OFF_RECORD);
        }
        cursor.next += 1;
        entry.put(vcpu);
        vcpu.precise = true;
        self.code_change = entry.code_change;
        entry.flow
    }

    fn take_code_change(&mut self) -> Option<(u64, u64)> {
        self.code_change.take()
    }
}

/// An engine that is interrupted where the recorded one was.
pub struct Polled {
    engine: Box<dyn Engine>,
    cursor: SharedCursor,
}

impl Polled {
    /// `engine`, interrupted as the record says.
    pub fn new(engine: Box<dyn Engine>, cursor: SharedCursor) -> Self {
        Polled { engine, cursor }
    }
}

impl Engine for Polled {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        let poll = lock(&self.cursor).next_poll();
        let left = poll.map(|count| count.saturating_sub(vcpu.cpu.count));
        match (left, limit) {
            (Some(0), _) => Exit::Poll,
            (Some(left), Limit::Count(n)) if left > n => self.engine.run(vcpu, limit),
            (Some(left), _) => match self.engine.run(vcpu, Limit::Count(left)) {
                Exit::Limit => Exit::Poll,
                exit => exit,
            },
            (None, _) => self.engine.run(vcpu, limit),
        }
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        self.engine.invalidate(start, end);
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}
