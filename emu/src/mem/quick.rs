//! Accesses that only try: where they fail, they say nothing and the caller repeats the access by
//! the full way. For the threaded interpreter, whose handlers may not hold a fault's value.

use super::{Access, AddressSpace, raw};

macro_rules! attempts {
    ($($load:ident $try_load:ident $store:ident $try_store:ident $ty:ty;)*) => {$(
        #[doc = concat!("[`", stringify!($load), "`](Self::", stringify!($load), ") if it is easy.")]
        #[inline(always)]
        pub fn $try_load(&self, va: u64) -> Option<$ty> {
            if va < self.limit {
                // SAFETY: `va` starts in the window and its guard follows.
                unsafe { raw::$load(self.base + va) }
            } else {
                let size = size_of::<$ty>() as u64;
                let host = self.system.as_ref()?.quick(va, size, Access::Load)?;
                // SAFETY: the translation buffer leads to RAM.
                unsafe { raw::$load(host) }
            }
        }

        #[doc = concat!("[`", stringify!($store), "`](Self::", stringify!($store), ") if it is easy.")]
        #[inline(always)]
        pub fn $try_store(&self, va: u64, value: $ty) -> Option<()> {
            let host = if va < self.limit {
                self.base + va
            } else {
                self.system.as_ref()?.quick(va, size_of::<$ty>() as u64, Access::Store)?
            };
            // SAFETY: as in the load.
            unsafe { raw::$store(host, value) }.then_some(())
        }
    )*};
}

impl AddressSpace {
    attempts! {
        load_u8 try_load_u8 store_u8 try_store_u8 u8;
        load_u16 try_load_u16 store_u16 try_store_u16 u16;
        load_u32 try_load_u32 store_u32 try_store_u32 u32;
        load_u64 try_load_u64 store_u64 try_store_u64 u64;
    }
}
