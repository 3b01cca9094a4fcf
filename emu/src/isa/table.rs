//! The instruction table: one row defines one instruction for every consumer in the workspace.
//!
//! `for_each_insn!(consumer)` hands all rows to the macro `consumer`. A row reads
//!
//! ```text
//! Variant = "mnemonic", Format(encoding), kind(semantics), Extension;
//! ```
//!
//! * *Format* and its encoding numbers: [`Format`](super::Format).
//! * *kind* says how operands are fetched and results stored ([`Kind`](super::Kind)); what stands
//!   in its parentheses is the pure function in `axp_emu::sem` or `axp_emu::fp` (or a width)
//!   that the kind needs. A consumer that expands it imports those modules by their last name.
//! * *Extension*: the AMASK feature that the instruction belongs to.
//!
//! Two rows with one encoding do not compile (`decode.rs`). Rows are grouped as in the Alpha
//! Architecture Reference Manual (AARM) chapter 4.

/// Calls `$consumer!` with every row of the instruction table.
#[macro_export]
macro_rules! for_each_insn {
    ($consumer:ident) => {
        $consumer! {
            // AARM 4.2 Memory integer load/store
            Lda     = "lda",      Mem(0x08),              lea(0),                       Base;
            Ldah    = "ldah",     Mem(0x09),              lea(16),                      Base;
            Ldbu    = "ldbu",     Mem(0x0a),              load(U8),                     Bwx;
            LdqU    = "ldq_u",    Mem(0x0b),              load_unaligned(),             Base;
            Ldwu    = "ldwu",     Mem(0x0c),              load(U16),                    Bwx;
            Stw     = "stw",      Mem(0x0d),              store(U16),                   Bwx;
            Stb     = "stb",      Mem(0x0e),              store(U8),                    Bwx;
            StqU    = "stq_u",    Mem(0x0f),              store_unaligned(),            Base;
            Ldl     = "ldl",      Mem(0x28),              load(I32),                    Base;
            Ldq     = "ldq",      Mem(0x29),              load(U64),                    Base;
            LdlL    = "ldl_l",    Mem(0x2a),              load_locked(I32),             Base;
            LdqL    = "ldq_l",    Mem(0x2b),              load_locked(U64),             Base;
            Stl     = "stl",      Mem(0x2c),              store(I32),                   Base;
            Stq     = "stq",      Mem(0x2d),              store(U64),                   Base;
            StlC    = "stl_c",    Mem(0x2e),              store_conditional(I32),       Base;
            StqC    = "stq_c",    Mem(0x2f),              store_conditional(U64),       Base;

            // AARM 4.3 Control
            Br      = "br",       Bra(0x30),              branch(),                     Base;
            Bsr     = "bsr",      Bra(0x34),              branch(),                     Base;
            Blbc    = "blbc",     Bra(0x38),              cond_branch(branch::lbc),     Base;
            Beq     = "beq",      Bra(0x39),              cond_branch(branch::eq),      Base;
            Blt     = "blt",      Bra(0x3a),              cond_branch(branch::lt),      Base;
            Ble     = "ble",      Bra(0x3b),              cond_branch(branch::le),      Base;
            Blbs    = "blbs",     Bra(0x3c),              cond_branch(branch::lbs),     Base;
            Bne     = "bne",      Bra(0x3d),              cond_branch(branch::ne),      Base;
            Bge     = "bge",      Bra(0x3e),              cond_branch(branch::ge),      Base;
            Bgt     = "bgt",      Bra(0x3f),              cond_branch(branch::gt),      Base;
            Jmp     = "jmp",      Jump(0x1a, 0),          jump(),                       Base;
            Jsr     = "jsr",      Jump(0x1a, 1),          jump(),                       Base;
            Ret     = "ret",      Jump(0x1a, 2),          jump(),                       Base;
            JsrCoroutine = "jsr_coroutine", Jump(0x1a, 3), jump(),                      Base;

            // AARM 4.4 Integer arithmetic
            Addl    = "addl",     Opr(0x10, 0x00),        alu(int::addl),               Base;
            S4addl  = "s4addl",   Opr(0x10, 0x02),        alu(int::s4addl),             Base;
            Subl    = "subl",     Opr(0x10, 0x09),        alu(int::subl),               Base;
            S4subl  = "s4subl",   Opr(0x10, 0x0b),        alu(int::s4subl),             Base;
            S8addl  = "s8addl",   Opr(0x10, 0x12),        alu(int::s8addl),             Base;
            S8subl  = "s8subl",   Opr(0x10, 0x1b),        alu(int::s8subl),             Base;
            Addq    = "addq",     Opr(0x10, 0x20),        alu(int::addq),               Base;
            S4addq  = "s4addq",   Opr(0x10, 0x22),        alu(int::s4addq),             Base;
            Subq    = "subq",     Opr(0x10, 0x29),        alu(int::subq),               Base;
            S4subq  = "s4subq",   Opr(0x10, 0x2b),        alu(int::s4subq),             Base;
            S8addq  = "s8addq",   Opr(0x10, 0x32),        alu(int::s8addq),             Base;
            S8subq  = "s8subq",   Opr(0x10, 0x3b),        alu(int::s8subq),             Base;
            AddlV   = "addl/v",   Opr(0x10, 0x40),        alu_v(int::addl_v),           Base;
            SublV   = "subl/v",   Opr(0x10, 0x49),        alu_v(int::subl_v),           Base;
            AddqV   = "addq/v",   Opr(0x10, 0x60),        alu_v(int::addq_v),           Base;
            SubqV   = "subq/v",   Opr(0x10, 0x69),        alu_v(int::subq_v),           Base;
            Cmpult  = "cmpult",   Opr(0x10, 0x1d),        alu(int::cmpult),             Base;
            Cmpeq   = "cmpeq",    Opr(0x10, 0x2d),        alu(int::cmpeq),              Base;
            Cmpule  = "cmpule",   Opr(0x10, 0x3d),        alu(int::cmpule),             Base;
            Cmplt   = "cmplt",    Opr(0x10, 0x4d),        alu(int::cmplt),              Base;
            Cmple   = "cmple",    Opr(0x10, 0x6d),        alu(int::cmple),              Base;
            Mull    = "mull",     Opr(0x13, 0x00),        alu(int::mull),               Base;
            Mulq    = "mulq",     Opr(0x13, 0x20),        alu(int::mulq),               Base;
            Umulh   = "umulh",    Opr(0x13, 0x30),        alu(int::umulh),              Base;
            MullV   = "mull/v",   Opr(0x13, 0x40),        alu_v(int::mull_v),           Base;
            MulqV   = "mulq/v",   Opr(0x13, 0x60),        alu_v(int::mulq_v),           Base;
            Ctpop   = "ctpop",    OprB(0x1c, 0x30),       alu(count::ctpop),            Cix;
            Ctlz    = "ctlz",     OprB(0x1c, 0x32),       alu(count::ctlz),             Cix;
            Cttz    = "cttz",     OprB(0x1c, 0x33),       alu(count::cttz),             Cix;

            // AARM 4.5 Logical and shift
            And     = "and",      Opr(0x11, 0x00),        alu(logic::and),                Base;
            Bic     = "bic",      Opr(0x11, 0x08),        alu(logic::bic),                Base;
            Bis     = "bis",      Opr(0x11, 0x20),        alu(logic::bis),                Base;
            Ornot   = "ornot",    Opr(0x11, 0x28),        alu(logic::ornot),              Base;
            Xor     = "xor",      Opr(0x11, 0x40),        alu(logic::xor),                Base;
            Eqv     = "eqv",      Opr(0x11, 0x48),        alu(logic::eqv),                Base;
            Cmovlbs = "cmovlbs",  Opr(0x11, 0x14),        cmov(branch::lbs),            Base;
            Cmovlbc = "cmovlbc",  Opr(0x11, 0x16),        cmov(branch::lbc),            Base;
            Cmoveq  = "cmoveq",   Opr(0x11, 0x24),        cmov(branch::eq),             Base;
            Cmovne  = "cmovne",   Opr(0x11, 0x26),        cmov(branch::ne),             Base;
            Cmovlt  = "cmovlt",   Opr(0x11, 0x44),        cmov(branch::lt),             Base;
            Cmovge  = "cmovge",   Opr(0x11, 0x46),        cmov(branch::ge),             Base;
            Cmovle  = "cmovle",   Opr(0x11, 0x64),        cmov(branch::le),             Base;
            Cmovgt  = "cmovgt",   Opr(0x11, 0x66),        cmov(branch::gt),             Base;
            Srl     = "srl",      Opr(0x12, 0x34),        alu(logic::srl),                Base;
            Sll     = "sll",      Opr(0x12, 0x39),        alu(logic::sll),                Base;
            Sra     = "sra",      Opr(0x12, 0x3c),        alu(logic::sra),                Base;

            // AARM 4.6 Byte manipulation
            Cmpbge  = "cmpbge",   Opr(0x10, 0x0f),        alu(byte::cmpbge),            Base;
            Mskbl   = "mskbl",    Opr(0x12, 0x02),        alu(byte::mskbl),             Base;
            Extbl   = "extbl",    Opr(0x12, 0x06),        alu(byte::extbl),             Base;
            Insbl   = "insbl",    Opr(0x12, 0x0b),        alu(byte::insbl),             Base;
            Mskwl   = "mskwl",    Opr(0x12, 0x12),        alu(byte::mskwl),             Base;
            Extwl   = "extwl",    Opr(0x12, 0x16),        alu(byte::extwl),             Base;
            Inswl   = "inswl",    Opr(0x12, 0x1b),        alu(byte::inswl),             Base;
            Mskll   = "mskll",    Opr(0x12, 0x22),        alu(byte::mskll),             Base;
            Extll   = "extll",    Opr(0x12, 0x26),        alu(byte::extll),             Base;
            Insll   = "insll",    Opr(0x12, 0x2b),        alu(byte::insll),             Base;
            Zap     = "zap",      Opr(0x12, 0x30),        alu(byte::zap),               Base;
            Zapnot  = "zapnot",   Opr(0x12, 0x31),        alu(byte::zapnot),            Base;
            Mskql   = "mskql",    Opr(0x12, 0x32),        alu(byte::mskql),             Base;
            Extql   = "extql",    Opr(0x12, 0x36),        alu(byte::extql),             Base;
            Insql   = "insql",    Opr(0x12, 0x3b),        alu(byte::insql),             Base;
            Mskwh   = "mskwh",    Opr(0x12, 0x52),        alu(byte::mskwh),             Base;
            Inswh   = "inswh",    Opr(0x12, 0x57),        alu(byte::inswh),             Base;
            Extwh   = "extwh",    Opr(0x12, 0x5a),        alu(byte::extwh),             Base;
            Msklh   = "msklh",    Opr(0x12, 0x62),        alu(byte::msklh),             Base;
            Inslh   = "inslh",    Opr(0x12, 0x67),        alu(byte::inslh),             Base;
            Extlh   = "extlh",    Opr(0x12, 0x6a),        alu(byte::extlh),             Base;
            Mskqh   = "mskqh",    Opr(0x12, 0x72),        alu(byte::mskqh),             Base;
            Insqh   = "insqh",    Opr(0x12, 0x77),        alu(byte::insqh),             Base;
            Extqh   = "extqh",    Opr(0x12, 0x7a),        alu(byte::extqh),             Base;
            Sextb   = "sextb",    OprB(0x1c, 0x00),       alu(byte::sextb),             Bwx;
            Sextw   = "sextw",    OprB(0x1c, 0x01),       alu(byte::sextw),             Bwx;

            // AARM 4.7, 4.8 Floating-point load/store: bit moves between memory and register format
            Ldf     = "ldf",      MemF(0x20),             fload(F),                     Base;
            Ldg     = "ldg",      MemF(0x21),             fload(G),                     Base;
            Lds     = "lds",      MemF(0x22),             fload(S),                     Base;
            Ldt     = "ldt",      MemF(0x23),             fload(T),                     Base;
            Stf     = "stf",      MemF(0x24),             fstore(F),                    Base;
            Stg     = "stg",      MemF(0x25),             fstore(G),                    Base;
            Sts     = "sts",      MemF(0x26),             fstore(S),                    Base;
            Stt     = "stt",      MemF(0x27),             fstore(T),                    Base;

            // AARM 4.9 Floating-point branch
            Fbeq    = "fbeq",     BraF(0x31),             cond_branch_f(branch::feq),   Base;
            Fblt    = "fblt",     BraF(0x32),             cond_branch_f(branch::flt),   Base;
            Fble    = "fble",     BraF(0x33),             cond_branch_f(branch::fle),   Base;
            Fbne    = "fbne",     BraF(0x35),             cond_branch_f(branch::fne),   Base;
            Fbge    = "fbge",     BraF(0x36),             cond_branch_f(branch::fge),   Base;
            Fbgt    = "fbgt",     BraF(0x37),             cond_branch_f(branch::fgt),   Base;

            // AARM 4.10 Floating-point operate, moves. One row per base function; qualifiers are operands.
            Cvtlq   = "cvtlq",    Fp1(0x17, 0x10, Plain), fp(convert::cvtlq),           Base;
            Cpys    = "cpys",     Fp(0x17, 0x20, Plain),  fmove(memfmt::cpys),          Base;
            Cpysn   = "cpysn",    Fp(0x17, 0x21, Plain),  fmove(memfmt::cpysn),         Base;
            Cpyse   = "cpyse",    Fp(0x17, 0x22, Plain),  fmove(memfmt::cpyse),         Base;
            MtFpcr  = "mt_fpcr",  FpcrMove(0x17, 0x24),   mt_fpcr(),                    Base;
            MfFpcr  = "mf_fpcr",  FpcrMove(0x17, 0x25),   mf_fpcr(),                    Base;
            Fcmoveq = "fcmoveq",  Fp(0x17, 0x2a, Plain),  fcmov(branch::feq),           Base;
            Fcmovne = "fcmovne",  Fp(0x17, 0x2b, Plain),  fcmov(branch::fne),           Base;
            Fcmovlt = "fcmovlt",  Fp(0x17, 0x2c, Plain),  fcmov(branch::flt),           Base;
            Fcmovge = "fcmovge",  Fp(0x17, 0x2d, Plain),  fcmov(branch::fge),           Base;
            Fcmovle = "fcmovle",  Fp(0x17, 0x2e, Plain),  fcmov(branch::fle),           Base;
            Fcmovgt = "fcmovgt",  Fp(0x17, 0x2f, Plain),  fcmov(branch::fgt),           Base;
            Cvtql   = "cvtql",    Fp1(0x17, 0x30, CvtQl), fp(convert::cvtql),           Base;

            // AARM 4.10 Floating-point operate, IEEE arithmetic
            Adds    = "adds",     Fp(0x16, 0x00, Ieee),     fp(ieee::add_s),            Base;
            Subs    = "subs",     Fp(0x16, 0x01, Ieee),     fp(ieee::sub_s),            Base;
            Muls    = "muls",     Fp(0x16, 0x02, Ieee),     fp(ieee::mul_s),            Base;
            Divs    = "divs",     Fp(0x16, 0x03, Ieee),     fp(ieee::div_s),            Base;
            Addt    = "addt",     Fp(0x16, 0x20, Ieee),     fp(ieee::add_t),            Base;
            Subt    = "subt",     Fp(0x16, 0x21, Ieee),     fp(ieee::sub_t),            Base;
            Mult    = "mult",     Fp(0x16, 0x22, Ieee),     fp(ieee::mul_t),            Base;
            Divt    = "divt",     Fp(0x16, 0x23, Ieee),     fp(ieee::div_t),            Base;
            Cmptun  = "cmptun",   Fp(0x16, 0x24, IeeeCmp),  fp(ieee::cmptun),           Base;
            Cmpteq  = "cmpteq",   Fp(0x16, 0x25, IeeeCmp),  fp(ieee::cmpteq),           Base;
            Cmptlt  = "cmptlt",   Fp(0x16, 0x26, IeeeCmp),  fp(ieee::cmptlt),           Base;
            Cmptle  = "cmptle",   Fp(0x16, 0x27, IeeeCmp),  fp(ieee::cmptle),           Base;
            Cvtts   = "cvtts",    Fp1(0x16, 0x2c, Ieee),    fp(convert::cvtts),         Base;
            Cvtst   = "cvtst",    Fp1(0x16, 0x2c, CvtSt),   fp(convert::cvtst),         Base;
            Cvttq   = "cvttq",    Fp1(0x16, 0x2f, ToQuad),  fp(convert::cvttq),         Base;
            Cvtqs   = "cvtqs",    Fp1(0x16, 0x3c, FromQuad), fp(convert::cvtqs),        Base;
            Cvtqt   = "cvtqt",    Fp1(0x16, 0x3e, FromQuad), fp(convert::cvtqt),        Base;
            Sqrts   = "sqrts",    Fp1(0x14, 0x0b, Ieee),    fp(ieee::sqrt_s),           Fix;
            Sqrtt   = "sqrtt",    Fp1(0x14, 0x2b, Ieee),    fp(ieee::sqrt_t),           Fix;

            // AARM 4.10 Floating-point operate, VAX arithmetic
            Addf    = "addf",     Fp(0x15, 0x00, Vax),      fp(vax::add_f),             Base;
            Subf    = "subf",     Fp(0x15, 0x01, Vax),      fp(vax::sub_f),             Base;
            Mulf    = "mulf",     Fp(0x15, 0x02, Vax),      fp(vax::mul_f),             Base;
            Divf    = "divf",     Fp(0x15, 0x03, Vax),      fp(vax::div_f),             Base;
            Cvtdg   = "cvtdg",    Fp1(0x15, 0x1e, Vax),     fp(vax::cvtdg),             Base;
            Addg    = "addg",     Fp(0x15, 0x20, Vax),      fp(vax::add_g),             Base;
            Subg    = "subg",     Fp(0x15, 0x21, Vax),      fp(vax::sub_g),             Base;
            Mulg    = "mulg",     Fp(0x15, 0x22, Vax),      fp(vax::mul_g),             Base;
            Divg    = "divg",     Fp(0x15, 0x23, Vax),      fp(vax::div_g),             Base;
            Cmpgeq  = "cmpgeq",   Fp(0x15, 0x25, VaxCmp),   fp(vax::cmpgeq),            Base;
            Cmpglt  = "cmpglt",   Fp(0x15, 0x26, VaxCmp),   fp(vax::cmpglt),            Base;
            Cmpgle  = "cmpgle",   Fp(0x15, 0x27, VaxCmp),   fp(vax::cmpgle),            Base;
            Cvtgf   = "cvtgf",    Fp1(0x15, 0x2c, Vax),     fp(vax::cvtgf),             Base;
            Cvtgd   = "cvtgd",    Fp1(0x15, 0x2d, Vax),     fp(vax::cvtgd),             Base;
            Cvtgq   = "cvtgq",    Fp1(0x15, 0x2f, VaxToQuad), fp(vax::cvtgq),           Base;
            Cvtqf   = "cvtqf",    Fp1(0x15, 0x3c, VaxFromQuad), fp(vax::cvtqf),         Base;
            Cvtqg   = "cvtqg",    Fp1(0x15, 0x3e, VaxFromQuad), fp(vax::cvtqg),         Base;
            Sqrtf   = "sqrtf",    Fp1(0x14, 0x0a, Vax),     fp(vax::sqrt_f),            Fix;
            Sqrtg   = "sqrtg",    Fp1(0x14, 0x2a, Vax),     fp(vax::sqrt_g),            Fix;

            // AARM 4.10 Moves between the register files
            Itofs   = "itofs",    ItoF(0x14, 0x004),      itof(memfmt::itofs),          Fix;
            Itoff   = "itoff",    ItoF(0x14, 0x014),      itof(memfmt::itoff),          Fix;
            Itoft   = "itoft",    ItoF(0x14, 0x024),      itof(memfmt::itoft),          Fix;
            Ftoit   = "ftoit",    FtoI(0x1c, 0x70),       ftoi(memfmt::ftoit),          Fix;
            Ftois   = "ftois",    FtoI(0x1c, 0x78),       ftoi(memfmt::ftois),          Fix;

            // AARM 4.11 Miscellaneous
            Trapb   = "trapb",    Misc(0x18, 0x0000),     barrier(),                    Base;
            Excb    = "excb",     Misc(0x18, 0x0400),     barrier(),                    Base;
            Mb      = "mb",       Misc(0x18, 0x4000),     fence(),                      Base;
            Wmb     = "wmb",      Misc(0x18, 0x4400),     fence(),                      Base;
            Fetch   = "fetch",    MiscB(0x18, 0x8000),    hint(),                       Base;
            FetchM  = "fetch_m",  MiscB(0x18, 0xa000),    hint(),                       Base;
            Rpcc    = "rpcc",     MiscA(0x18, 0xc000),    rpcc(),                       Base;
            Rc      = "rc",       MiscA(0x18, 0xe000),    intr_flag(0),                 Base;
            Ecb     = "ecb",      MiscB(0x18, 0xe800),    hint(),                       Base;
            Rs      = "rs",       MiscA(0x18, 0xf000),    intr_flag(1),                 Base;
            Wh64    = "wh64",     MiscB(0x18, 0xf800),    hint(),                       Base;
            Wh64en  = "wh64en",   MiscB(0x18, 0xfc00),    hint(),                       Base;
            Amask   = "amask",    OprB(0x11, 0x61),       amask(),                      Base;
            Implver = "implver",  OprC(0x11, 0x6c),       implver(),                    Base;
            CallPal = "call_pal", Pal(0x00),              pal(),                        Base;

            // AARM 4.13 Multimedia
            Perr    = "perr",     OprR(0x1c, 0x31),       alu(mvi::perr),               Mvi;
            Unpkbw  = "unpkbw",   OprB(0x1c, 0x34),       alu(mvi::unpkbw),             Mvi;
            Unpkbl  = "unpkbl",   OprB(0x1c, 0x35),       alu(mvi::unpkbl),             Mvi;
            Pkwb    = "pkwb",     OprB(0x1c, 0x36),       alu(mvi::pkwb),               Mvi;
            Pklb    = "pklb",     OprB(0x1c, 0x37),       alu(mvi::pklb),               Mvi;
            Minsb8  = "minsb8",   Opr(0x1c, 0x38),        alu(mvi::minsb8),             Mvi;
            Minsw4  = "minsw4",   Opr(0x1c, 0x39),        alu(mvi::minsw4),             Mvi;
            Minub8  = "minub8",   Opr(0x1c, 0x3a),        alu(mvi::minub8),             Mvi;
            Minuw4  = "minuw4",   Opr(0x1c, 0x3b),        alu(mvi::minuw4),             Mvi;
            Maxub8  = "maxub8",   Opr(0x1c, 0x3c),        alu(mvi::maxub8),             Mvi;
            Maxuw4  = "maxuw4",   Opr(0x1c, 0x3d),        alu(mvi::maxuw4),             Mvi;
            Maxsb8  = "maxsb8",   Opr(0x1c, 0x3e),        alu(mvi::maxsb8),             Mvi;
            Maxsw4  = "maxsw4",   Opr(0x1c, 0x3f),        alu(mvi::maxsw4),             Mvi;
        }
    };
}
