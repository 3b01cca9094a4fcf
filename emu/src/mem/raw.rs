//! Single accesses to host addresses that may fault: assembly with a fix-up entry each.
//!
//! The accessors of `AddressSpace` call these after the window check. Assembly, because guest
//! memory is shared with other threads and with the host's kernel and may vanish at any time, so
//! no Rust reference or pointer access to it would be sound. Each accessor adds an entry
//! (instruction, fix-up) to the section `axp_fixups`; the handler in `host_fault` redirects a
//! fault at the instruction to the fix-up.
//!
//! `nomem` on plain loads and stores: guest memory is inaccessible to the Rust program except
//! through such assembly and system calls, so the compiler may keep its own memory in registers
//! over them. The blocks are not `pure`, hence never removed or reordered among each other.

use std::arch::asm;

/// One entry of the fix-up table: both fields are relative to their own address. The section is
/// marked to be kept (R), since nothing but the linker's bounds refers to it.
macro_rules! fixup {
    ($target:literal) => {
        concat!(
            ".pushsection axp_fixups,\"aR\",@progbits\n",
            ".long 2b - .\n",
            ".long ",
            $target,
            " - .\n",
            ".popsection"
        )
    };
}

macro_rules! load {
    ($(#[$doc:meta])* $name:ident, $ty:ty, $insn:literal) => {
        $(#[$doc])*
        ///
        /// `None` if the access faulted.
        ///
        /// # Safety
        /// `host` must lie in a window (or its guards), and the handlers must be installed.
        #[inline(always)]
        #[allow(trivial_numeric_casts, reason = "one macro for all sizes")]
        pub(super) unsafe fn $name(host: u64) -> Option<$ty> {
            let value: u64;
            let failed: u32;
            // SAFETY: a load from guest memory, which Rust never accesses otherwise; if it faults,
            // control comes back at label 3 with `failed` set. No flags, no stack.
            unsafe {
                asm!(
                    concat!("2: ", $insn),
                    "3:",
                    ".pushsection .text.unlikely.axp_fixups,\"ax\",@progbits",
                    "4: mov {failed:e}, 1",
                    "jmp 3b",
                    ".popsection",
                    fixup!("4b"),
                    host = in(reg) host,
                    value = out(reg) value,
                    failed = inout(reg) 0u32 => failed,
                    options(nostack, nomem, preserves_flags),
                );
            }
            if failed == 0 { Some(value as $ty) } else { None }
        }
    };
}

load!(/** Loads a byte. */ load_u8, u8, "movzx {value:e}, byte ptr [{host}]");
load!(/** Loads a word. */ load_u16, u16, "movzx {value:e}, word ptr [{host}]");
load!(/** Loads a longword. */ load_u32, u32, "mov {value:e}, dword ptr [{host}]");
load!(/** Loads a quadword. */ load_u64, u64, "mov {value}, qword ptr [{host}]");

macro_rules! store {
    ($(#[$doc:meta])* $name:ident, $ty:ty, $class:ident, $insn:literal) => {
        $(#[$doc])*
        ///
        /// `false` if the access faulted; then nothing was stored, not even where the operand
        /// crosses into a bad page (Intel SDM 3A 8.1: both pages are checked before the write).
        ///
        /// # Safety
        /// `host` must lie in a window (or its guards), and the handlers must be installed.
        #[inline(always)]
        pub(super) unsafe fn $name(host: u64, value: $ty) -> bool {
            // SAFETY: a store to guest memory, which Rust never accesses otherwise; if it faults,
            // control goes to the label. No flags, no stack.
            unsafe {
                asm!(
                    concat!("2: ", $insn),
                    fixup!("{failed}"),
                    host = in(reg) host,
                    value = in($class) value,
                    failed = label { return false },
                    options(nostack, nomem, preserves_flags),
                );
            }
            true
        }
    };
}

store!(/** Stores a byte. */ store_u8, u8, reg_byte, "mov byte ptr [{host}], {value}");
store!(/** Stores a word. */ store_u16, u16, reg, "mov word ptr [{host}], {value:x}");
store!(/** Stores a longword. */ store_u32, u32, reg, "mov dword ptr [{host}], {value:e}");
store!(/** Stores a quadword. */ store_u64, u64, reg, "mov qword ptr [{host}], {value:r}");

macro_rules! compare_exchange {
    ($(#[$doc:meta])* $name:ident, $ty:ty, $insn:literal) => {
        $(#[$doc])*
        ///
        /// `None` if the access faulted, else whether `new` was stored. A full barrier.
        ///
        /// # Safety
        /// `host` must lie in a window (or its guards), and the handlers must be installed.
        #[inline(always)]
        pub(super) unsafe fn $name(host: u64, old: $ty, new: $ty) -> Option<bool> {
            let failed: u32;
            let seen: $ty;
            // SAFETY: an atomic update of guest memory, which Rust never accesses otherwise; if it
            // faults, control comes back at label 3 with `failed` set.
            unsafe {
                asm!(
                    concat!("2: lock cmpxchg ", $insn),
                    "3:",
                    ".pushsection .text.unlikely.axp_fixups,\"ax\",@progbits",
                    "4: mov {failed:e}, 1",
                    "jmp 3b",
                    ".popsection",
                    fixup!("4b"),
                    host = in(reg) host,
                    new = in(reg) new,
                    failed = inout(reg) 0u32 => failed,
                    inout("rax") old => seen,
                    options(nostack),
                );
            }
            if failed == 0 { Some(seen == old) } else { None }
        }
    };
}

compare_exchange!(/** Replaces a longword. */ compare_exchange_u32, u32, "dword ptr [{host}], {new:e}");
compare_exchange!(/** Replaces a quadword. */ compare_exchange_u64, u64, "qword ptr [{host}], {new}");

/// Copies `len` bytes upwards; returns how many were not copied because one side faulted.
///
/// # Safety
/// One side must lie in a window (or its guards); the other must be valid host memory of `len`
/// bytes that nothing else uses meanwhile. The handlers must be installed.
#[inline]
pub(super) unsafe fn copy(from: u64, to: u64, len: usize) -> usize {
    let left: usize;
    // SAFETY: by the contract. A fault leaves the count of missing bytes in rcx and continues
    // right behind the instruction; the direction flag is clear by the ABI.
    unsafe {
        asm!(
            "2: rep movsb",
            "3:",
            fixup!("3b"),
            inout("rcx") len => left,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
    left
}

/// Fills `len` bytes with zeros; returns how many were not written because one faulted.
///
/// # Safety
/// The range must lie in a window (or its guards), and the handlers must be installed.
#[inline]
pub(super) unsafe fn zero(to: u64, len: usize) -> usize {
    let left: usize;
    // SAFETY: as in `copy`.
    unsafe {
        asm!(
            "2: rep stosb",
            "3:",
            fixup!("3b"),
            inout("rcx") len => left,
            inout("rdi") to => _,
            in("al") 0u8,
            options(nostack, preserves_flags),
        );
    }
    left
}
