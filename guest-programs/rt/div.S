/* Integer division for the Alpha guests: the architecture has no divide instruction.
 *
 * gcc calls __divqu and its kin with the dividend in $24, the divisor in $25, the return
 * address in $23, and takes the result from $27; only $23, $27 and $28 may change, so every
 * other register used here goes through the stack. The method is an integer one: normalise the
 * divisor, look up an 8-bit reciprocal, refine it by three Newton steps with UMULH (9, 18, 36,
 * 64 bits), multiply, and correct the quotient, which is never too large.
 * Division by zero raises GENTRAP code -2, as the system's own library does.
 */
    .set noat
    .set noreorder
    .text

/* Quotient of $24 / $25 to $0 and remainder to $1; changes $2 and $27;
 * $28 is the address of the tables. */
    .macro DIVIDE
    beq     $25,div_zero
    br      $28,div_tables\@
div_tables\@:
    lda     $28,div_data-div_tables\@($28)
#ifdef __alpha_cix__
    ctlz    $25,$2
    sll     $25,$2,$27
#else
    cmpbge  $31,$25,$2          # one bit per zero byte
    addq    $28,$2,$2
    LOADB   $2,$2,512           # 8 * leading zero bytes
    sll     $25,$2,$27
    srl     $27,56,$0
    addq    $28,$0,$0
    LOADB   $0,$0,768           # leading zero bits of the top byte
    sll     $27,$0,$27
    addq    $2,$0,$2
#endif
    /* $27 = normalised divisor D, top bit set; $2 = shift; X approximates 2^127 / D from below */
    srl     $27,55,$0           # 256..511
    addq    $0,$0,$0
    addq    $28,$0,$0
    LOADW   $0,$0,-512
    sll     $0,48,$0
    .rept   3
    umulh   $27,$0,$1           # X' = 2 X (2^64 - D X / 2^64) / 2^64
    ornot   $31,$1,$1           # one too small rather than ever too large
    umulh   $0,$1,$0
    addq    $0,$0,$0
    .endr
    umulh   $24,$0,$0
    lda     $1,63($31)
    subq    $1,$2,$2
    srl     $0,$2,$0            # at most a few units too small
    mulq    $0,$25,$1
    subq    $24,$1,$1
div_more\@:
    cmpule  $25,$1,$2
    beq     $2,div_done\@
    subq    $1,$25,$1
    addq    $0,1,$0
    br      $31,div_more\@
div_done\@:
    .endm

#ifdef __alpha_bwx__
    .macro LOADB to, base, at
    ldbu    \to,\at(\base)
    .endm
    .macro LOADW to, base, at
    ldwu    \to,\at(\base)
    .endm
#else
/* Without byte loads: the address goes to $1, which is free where these are used. */
    .macro LOADB to, base, at
    lda     $1,\at(\base)
    ldq_u   \to,0($1)
    extbl   \to,$1,\to
    .endm
    .macro LOADW to, base, at
    lda     $1,\at(\base)
    ldq_u   \to,0($1)
    extwl   \to,$1,\to
    .endm
#endif

    .macro ENTER name
    .globl  \name
    .align  4
    .ent    \name
\name:
    .frame  $30,48,$23,0
    lda     $30,-48($30)
    stq     $0,0($30)
    stq     $1,8($30)
    stq     $2,16($30)
    .prologue 0
    .endm

    .macro LEAVE name, result
    mov     \result,$27
    ldq     $0,0($30)
    ldq     $1,8($30)
    ldq     $2,16($30)
    lda     $30,48($30)
    ret     $31,($23),1
    .end    \name
    .endm

    ENTER   __divqu
    DIVIDE
    LEAVE   __divqu,$0

    ENTER   __remqu
    DIVIDE
    LEAVE   __remqu,$1

/* Signed forms divide magnitudes; the operands are kept in the frame and put back. */
    .macro MAGNITUDES
    stq     $24,24($30)
    stq     $25,32($30)
    subq    $31,$24,$28
    cmovlt  $24,$28,$24
    subq    $31,$25,$28
    cmovlt  $25,$28,$25
    DIVIDE
    ldq     $24,24($30)
    ldq     $25,32($30)
    .endm

    .macro SIGNED_QUOTIENT
    MAGNITUDES
    xor     $24,$25,$2
    subq    $31,$0,$28
    cmovlt  $2,$28,$0
    .endm

    .macro SIGNED_REMAINDER
    MAGNITUDES
    subq    $31,$1,$28
    cmovlt  $24,$28,$1
    .endm

    ENTER   __divq
    SIGNED_QUOTIENT
    LEAVE   __divq,$0

    ENTER   __remq
    SIGNED_REMAINDER
    LEAVE   __remq,$1

/* Longword forms: operands are taken modulo 2^32, results are sign-extended longwords. */
    .macro  LONGWORD name, core, result, extend
    .globl  \name
    .align  4
    .ent    \name
\name:
    .frame  $30,80,$23,0
    lda     $30,-80($30)
    stq     $0,0($30)
    stq     $1,8($30)
    stq     $2,16($30)
    stq     $24,48($30)
    stq     $25,56($30)
    .prologue 0
    .if     \extend
    addl    $24,0,$24
    addl    $25,0,$25
    .else
    zapnot  $24,15,$24
    zapnot  $25,15,$25
    .endif
    \core
    addl    \result,0,$27
    ldq     $0,0($30)
    ldq     $1,8($30)
    ldq     $2,16($30)
    ldq     $24,48($30)
    ldq     $25,56($30)
    lda     $30,80($30)
    ret     $31,($23),1
    .end    \name
    .endm

    LONGWORD __divlu,DIVIDE,$0,0
    LONGWORD __remlu,DIVIDE,$1,0
    LONGWORD __divl,SIGNED_QUOTIENT,$0,1
    LONGWORD __reml,SIGNED_REMAINDER,$1,1

    .align  4
div_zero:
    lda     $16,-2($31)
    call_pal 0xaa
    br      $31,div_zero

    .align  4
div_data:
/* Reciprocals of (256..511 + 1/2) / 512, rounded down, 16 bits: 2^15 * 512 / (i + 1/2). */
    i = 256
    .rept   256
    .2byte  (33554432 / (2 * i + 1))
    i = i + 1
    .endr
#ifndef __alpha_cix__
/* Indexed by the zero-byte mask: 8 * (number of consecutive ones from bit 7 down). */
    i = 0
    .rept   256
    .byte   -8 * (((i & 0x80) == 0x80) + ((i & 0xc0) == 0xc0) + ((i & 0xe0) == 0xe0) + ((i & 0xf0) == 0xf0) + ((i & 0xf8) == 0xf8) + ((i & 0xfc) == 0xfc) + ((i & 0xfe) == 0xfe)) & 0xff
    i = i + 1
    .endr
/* Leading zero bits of a byte. */
    i = 0
    .rept   256
    .byte   -((i < 0x80) + (i < 0x40) + (i < 0x20) + (i < 0x10) + (i < 8) + (i < 4) + (i < 2) + (i < 1)) & 0xff
    i = i + 1
    .endr
#endif

    .section .note.GNU-stack,"",@progbits
