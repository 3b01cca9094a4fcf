//! PALcode function codes: names, privilege, and which calls engines perform inline.
//!
//! The instruction is one (`CALL_PAL`); its function codes mean what the installed PALcode says.
//! OSF/1 PALcode serves Linux programs; the OpenVMS table comes with the privileged machine.

/// Which PALcode gives CALL_PAL functions their meaning. Fixed when a program is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PalVariant {
    /// DEC OSF/1 (Tru64, Linux).
    #[default]
    Osf1,
}

macro_rules! for_each_osf_call {
    ($consumer:ident) => {
        $consumer! {
            // AARM II-B 2.1 Unprivileged
            Bpt     = 0x80, "bpt";
            Bugchk  = 0x81, "bugchk";
            Callsys = 0x83, "callsys";
            Imb     = 0x86, "imb";
            Urti    = 0x92, "urti";
            Rduniq  = 0x9e, "rdunique";
            Wruniq  = 0x9f, "wrunique";
            Gentrap = 0xaa, "gentrap";
            Clrfen  = 0xae, "clrfen";
        }
    };
}

macro_rules! define_osf {
    ($($v:ident = $code:literal, $name:literal;)*) => {
        /// OSF/1 PALcode calls that user mode may issue (AARM II-B 2.1).
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        #[allow(missing_docs, reason = "each variant is the call named beside it")]
        pub enum Osf { $($v = $code,)* }

        impl Osf {
            /// The call with that function code; `None` is privileged or reserved.
            pub const fn from_code(code: u32) -> Option<Osf> {
                match code { $($code => Some(Osf::$v),)* _ => None }
            }

            /// Name in lower case, as the manual gives it.
            pub const fn name(self) -> &'static str {
                match self { $(Osf::$v => $name,)* }
            }
        }
    };
}
for_each_osf_call!(define_osf);

impl Osf {
    /// Performed by engines without an exit: only registers are touched.
    pub const fn is_inline(self) -> bool {
        matches!(self, Osf::Rduniq | Osf::Wruniq)
    }
}
