/* Entry of the machine, exception handlers, and the way into the kernel's services.
 *
 * The machine starts here with translation off, $16 bytes of memory, $30 its end. The kernel's C
 * part builds the page tables; SWPCTX turns translation on; REI goes to user mode.
 */
    .set noat
    .set noreorder
    .text
    .globl start
    .ent start
start:
    lda     $30,-64($30)
    br      $27,1f
1:  ldgp    $29,0($27)
    lda     $27,kernel_main
    jsr     $26,($27)
    /* $0: the first context's address, with a frame on its kernel stack. */
    mov     $0,$16
    call_pal 0x05               /* SWPCTX */
    mov     $31,$16
    call_pal 0x92               /* REI */
    .end start

/* CHMK and CHME: the service number in $0, up to six arguments in $16 to $21. Temporaries are the
 * caller's to save, as for any call; R2 to R7 come back by REI. */
    .macro  dispatcher entry, count, mode, table
    .balign 64
    .globl \entry
    .ent \entry
\entry:
    lda     $4,\count($31)
    cmpult  $0,$4,$4
    ldq     $5,56($30)          /* the caller's PS: its mode is whom buffers must belong to */
    lda     $30,-32($30)
    stq     $26,0($30)
    stq     $29,8($30)
    beq     $4,3f
    br      $27,2f
2:  ldgp    $29,0($27)
    srl     $5,3,$5
    and     $5,3,$5
    lda     $6,\mode
    stq     $5,0($6)
    lda     $6,\table
    s8addq  $0,$6,$6
    ldq     $27,0($6)
    jsr     $26,($27)
    ldq     $26,0($30)
    ldq     $29,8($30)
    lda     $30,32($30)
    call_pal 0x92
3:  lda     $0,2100($31)        /* SS$_ILLSER */
    lda     $30,32($30)
    call_pal 0x92
    .end \entry
    .endm
    dispatcher chmk_entry, 10, caller_mode, services

/* CHMK that does nothing: the service number SERVICE_NONE, for the cost of the way alone. */
    .globl service_none
    .ent service_none
service_none:
    ret     $31,($26),1
    .end service_none

/* Any other exception or interrupt is a fault of this program: $3 tells which. */
    .balign 64
    .globl unexpected
    .ent unexpected
unexpected:
    call_pal 0x00
    .end unexpected

/* Where user mode starts. */
    .section .user_entry,"ax"
    .globl user_entry
    .ent user_entry
user_entry:
    br      $27,1f
1:  ldgp    $29,0($27)
    lda     $27,user_main
    jsr     $26,($27)
    .end user_entry

/* The way into executive mode's services, and where the command interpreter starts. */
    .section .exec_entry,"ax"
    dispatcher chme_entry, 5, exec_caller_mode, exec_services

    .section .dcl_entry,"ax"
    .globl dcl_entry
    .ent dcl_entry
dcl_entry:
    br      $27,1f
1:  ldgp    $29,0($27)
    lda     $27,dcl_main
    jsr     $26,($27)
    .end dcl_entry
