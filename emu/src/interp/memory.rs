//! Memory as effects see it: the real one, and one that gives up easily, for the threaded loop.

use super::effect::Stop;
use crate::mem::{AddressSpace, MemFault};

/// The ways to reach memory: all of it, or only what succeeds at once.
pub(super) trait Memory: Copy {
    /// Why an access was not performed.
    type Failure: Into<Stop>;

    fn load_u8(self, va: u64) -> Result<u8, Self::Failure>;
    fn load_u16(self, va: u64) -> Result<u16, Self::Failure>;
    fn load_u32(self, va: u64) -> Result<u32, Self::Failure>;
    fn load_u64(self, va: u64) -> Result<u64, Self::Failure>;
    fn store_u8(self, va: u64, value: u8) -> Result<(), Self::Failure>;
    fn store_u16(self, va: u64, value: u16) -> Result<(), Self::Failure>;
    fn store_u32(self, va: u64, value: u32) -> Result<(), Self::Failure>;
    fn store_u64(self, va: u64, value: u64) -> Result<(), Self::Failure>;

    /// The memory itself, where more than a simple access is allowed.
    fn space(&self) -> Result<&AddressSpace, Stop>;
}

/// Memory that gives up where an access does not succeed at once. No fault's value ever lies in the
/// frame of a handler that uses it, which would keep its last call from becoming a jump.
#[derive(Clone, Copy)]
pub(super) struct Quick<'a>(pub &'a AddressSpace);

/// An access that [`Quick`] left undone.
pub(super) struct Undone;

impl From<Undone> for Stop {
    #[inline(always)]
    fn from(_: Undone) -> Stop {
        Stop::Retry
    }
}

impl From<MemFault> for Stop {
    fn from(fault: MemFault) -> Stop {
        Stop::Fault(fault)
    }
}

macro_rules! impl_memory {
    ($($load:ident $try_load:ident $store:ident $try_store:ident $ty:ty;)*) => {
        impl Memory for &AddressSpace {
            type Failure = MemFault;

            $(#[inline(always)]
            fn $load(self, va: u64) -> Result<$ty, MemFault> {
                AddressSpace::$load(self, va)
            }

            #[inline(always)]
            fn $store(self, va: u64, value: $ty) -> Result<(), MemFault> {
                AddressSpace::$store(self, va, value)
            })*

            #[inline(always)]
            fn space(&self) -> Result<&AddressSpace, Stop> {
                Ok(self)
            }
        }

        impl Memory for Quick<'_> {
            type Failure = Undone;

            $(#[inline(always)]
            fn $load(self, va: u64) -> Result<$ty, Undone> {
                self.0.$try_load(va).ok_or(Undone)
            }

            #[inline(always)]
            fn $store(self, va: u64, value: $ty) -> Result<(), Undone> {
                self.0.$try_store(va, value).ok_or(Undone)
            })*

            #[inline(always)]
            fn space(&self) -> Result<&AddressSpace, Stop> {
                Err(Stop::Retry)
            }
        }
    };
}
impl_memory! {
    load_u8 try_load_u8 store_u8 try_store_u8 u8;
    load_u16 try_load_u16 store_u16 try_store_u16 u16;
    load_u32 try_load_u32 store_u32 try_store_u32 u32;
    load_u64 try_load_u64 store_u64 try_store_u64 u64;
}
