//! PALcode function codes: names, privilege, and which calls engines perform inline.
//!
//! The instruction is one (`CALL_PAL`); its function codes mean what the installed PALcode says.
//! OSF/1 PALcode serves Linux programs, OpenVMS PALcode the privileged machine.

/// Which PALcode gives CALL_PAL functions their meaning. Fixed when a program is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PalVariant {
    /// DEC OSF/1 (Tru64, Linux).
    #[default]
    Osf1,
    /// OpenVMS.
    Vms,
}

impl PalVariant {
    /// Whether engines perform the call without an exit.
    pub fn performs(self, code: u32) -> bool {
        match self {
            PalVariant::Osf1 => Osf::from_code(code).is_some_and(Osf::is_inline),
            PalVariant::Vms => Vms::from_code(code).is_some_and(Vms::is_inline),
        }
    }
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

/// OSF/1 PALcode calls of the kernel (AARM II-B 2.2); codes below 0x40.
macro_rules! for_each_osf_system_call {
    ($consumer:ident) => {
        $consumer! {
            Halt = 0x00, "halt";
            Cflush = 0x01, "cflush";
            Draina = 0x02, "draina";
            Cserve = 0x09, "cserve";
            Swppal = 0x0a, "swppal";
            Wripir = 0x0d, "wripir";
            Rdmces = 0x10, "rdmces";
            Wrmces = 0x11, "wrmces";
            Wrfen = 0x2b, "wrfen";
            Wrvptptr = 0x2d, "wrvptptr";
            Swpctx = 0x30, "swpctx";
            Wrval = 0x31, "wrval";
            Rdval = 0x32, "rdval";
            Tbi = 0x33, "tbi";
            Wrent = 0x34, "wrent";
            Swpipl = 0x35, "swpipl";
            Rdps = 0x36, "rdps";
            Wrkgp = 0x37, "wrkgp";
            Wrusp = 0x38, "wrusp";
            Wrperfmon = 0x39, "wrperfmon";
            Rdusp = 0x3a, "rdusp";
            Whami = 0x3c, "whami";
            Retsys = 0x3d, "retsys";
            Wtint = 0x3e, "wtint";
            Rti = 0x3f, "rti";
        }
    };
}

/// OpenVMS PALcode calls (AARM II-A 4 and 5); codes below 0x40 are privileged.
macro_rules! for_each_vms_call {
    ($consumer:ident) => {
        $consumer! {
            Halt = 0x00, "halt";
            Cflush = 0x01, "cflush";
            Draina = 0x02, "draina";
            Ldqp = 0x03, "ldqp";
            Stqp = 0x04, "stqp";
            Swpctx = 0x05, "swpctx";
            MfprAsn = 0x06, "mfpr_asn";
            MtprAsten = 0x07, "mtpr_asten";
            MtprAstsr = 0x08, "mtpr_astsr";
            Cserve = 0x09, "cserve";
            Swppal = 0x0a, "swppal";
            MfprFen = 0x0b, "mfpr_fen";
            MtprFen = 0x0c, "mtpr_fen";
            MtprIpir = 0x0d, "mtpr_ipir";
            MfprIpl = 0x0e, "mfpr_ipl";
            MtprIpl = 0x0f, "mtpr_ipl";
            MfprMces = 0x10, "mfpr_mces";
            MtprMces = 0x11, "mtpr_mces";
            MfprPcbb = 0x12, "mfpr_pcbb";
            MfprPrbr = 0x13, "mfpr_prbr";
            MtprPrbr = 0x14, "mtpr_prbr";
            MfprPtbr = 0x15, "mfpr_ptbr";
            MfprScbb = 0x16, "mfpr_scbb";
            MtprScbb = 0x17, "mtpr_scbb";
            MtprSirr = 0x18, "mtpr_sirr";
            MfprSisr = 0x19, "mfpr_sisr";
            MfprTbchk = 0x1a, "mfpr_tbchk";
            MtprTbia = 0x1b, "mtpr_tbia";
            MtprTbiap = 0x1c, "mtpr_tbiap";
            MtprTbis = 0x1d, "mtpr_tbis";
            MfprEsp = 0x1e, "mfpr_esp";
            MtprEsp = 0x1f, "mtpr_esp";
            MfprSsp = 0x20, "mfpr_ssp";
            MtprSsp = 0x21, "mtpr_ssp";
            MfprUsp = 0x22, "mfpr_usp";
            MtprUsp = 0x23, "mtpr_usp";
            MtprTbisd = 0x24, "mtpr_tbisd";
            MtprTbisi = 0x25, "mtpr_tbisi";
            MfprAsten = 0x26, "mfpr_asten";
            MfprAstsr = 0x27, "mfpr_astsr";
            MfprVptb = 0x29, "mfpr_vptb";
            MtprVptb = 0x2a, "mtpr_vptb";
            MtprPerfmon = 0x2b, "mtpr_perfmon";
            MtprDatfx = 0x2e, "mtpr_datfx";
            MfprVirbnd = 0x30, "mfpr_virbnd";
            MtprVirbnd = 0x31, "mtpr_virbnd";
            MfprSysptbr = 0x32, "mfpr_sysptbr";
            MtprSysptbr = 0x33, "mtpr_sysptbr";
            Wtint = 0x3e, "wtint";
            MfprWhami = 0x3f, "mfpr_whami";
            Bpt = 0x80, "bpt";
            Bugchk = 0x81, "bugchk";
            Chme = 0x82, "chme";
            Chmk = 0x83, "chmk";
            Chms = 0x84, "chms";
            Chmu = 0x85, "chmu";
            Imb = 0x86, "imb";
            Insqhil = 0x87, "insqhil";
            Insqtil = 0x88, "insqtil";
            Insqhiq = 0x89, "insqhiq";
            Insqtiq = 0x8a, "insqtiq";
            Insquel = 0x8b, "insquel";
            Insqueq = 0x8c, "insqueq";
            InsquelD = 0x8d, "insquel/d";
            InsqueqD = 0x8e, "insqueq/d";
            Prober = 0x8f, "prober";
            Probew = 0x90, "probew";
            RdPs = 0x91, "rd_ps";
            Rei = 0x92, "rei";
            Remqhil = 0x93, "remqhil";
            Remqtil = 0x94, "remqtil";
            Remqhiq = 0x95, "remqhiq";
            Remqtiq = 0x96, "remqtiq";
            Remquel = 0x97, "remquel";
            Remqueq = 0x98, "remqueq";
            RemquelD = 0x99, "remquel/d";
            RemqueqD = 0x9a, "remqueq/d";
            Swasten = 0x9b, "swasten";
            WrPsSw = 0x9c, "wr_ps_sw";
            Rscc = 0x9d, "rscc";
            ReadUnq = 0x9e, "read_unq";
            WriteUnq = 0x9f, "write_unq";
            Amovrr = 0xa0, "amovrr";
            Amovrm = 0xa1, "amovrm";
            Insqhilr = 0xa2, "insqhilr";
            Insqtilr = 0xa3, "insqtilr";
            Insqhiqr = 0xa4, "insqhiqr";
            Insqtiqr = 0xa5, "insqtiqr";
            Remqhilr = 0xa6, "remqhilr";
            Remqtilr = 0xa7, "remqtilr";
            Remqhiqr = 0xa8, "remqhiqr";
            Remqtiqr = 0xa9, "remqtiqr";
            Gentrap = 0xaa, "gentrap";
            Clrfen = 0xae, "clrfen";
        }
    };
}

macro_rules! define_calls {
    ($(#[$doc:meta])* $ty:ident; $($v:ident = $code:literal, $name:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        #[allow(missing_docs, reason = "each variant is the call named beside it")]
        pub enum $ty { $($v = $code,)* }

        impl $ty {
            /// The call with that function code; `None` is privileged or reserved.
            pub const fn from_code(code: u32) -> Option<$ty> {
                match code { $($code => Some($ty::$v),)* _ => None }
            }

            /// Name in lower case, as the manual gives it.
            pub const fn name(self) -> &'static str {
                match self { $($ty::$v => $name,)* }
            }
        }
    };
}

macro_rules! define_osf {
    ($($row:tt)*) => {
        define_calls! {
            /// OSF/1 PALcode calls that user mode may issue (AARM II-B 2.1).
            Osf; $($row)*
        }
    };
}
for_each_osf_call!(define_osf);

macro_rules! define_osf_system {
    ($($row:tt)*) => {
        define_calls! {
            /// OSF/1 PALcode calls that only the kernel may issue (AARM II-B 2.2).
            OsfSystem; $($row)*
        }
    };
}
for_each_osf_system_call!(define_osf_system);

macro_rules! define_vms {
    ($($row:tt)*) => {
        define_calls! {
            /// OpenVMS PALcode calls.
            Vms; $($row)*
        }
    };
}
for_each_vms_call!(define_vms);

impl Vms {
    /// Performed by engines without an exit: what changes neither mode nor address space.
    pub const fn is_inline(self) -> bool {
        matches!(self, Vms::ReadUnq | Vms::WriteUnq | Vms::Prober | Vms::Probew)
    }
}

impl Osf {
    /// Performed by engines without an exit: only registers are touched.
    pub const fn is_inline(self) -> bool {
        matches!(self, Osf::Rduniq | Osf::Wruniq)
    }
}
