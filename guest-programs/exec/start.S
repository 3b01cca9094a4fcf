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
    dispatcher chmk_entry, 12, caller_mode, services

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

/* A page that an image may not have ends the image: the frame then leads to `image_fault`, in user
 * mode. Anywhere else it is a fault of this program. */
    .balign 64
    .globl access_violation
    .ent access_violation
access_violation:
    ldq     $6,56($30)
    and     $6,24,$6
    cmpeq   $6,24,$6
    beq     $6,1f
    br      $27,2f
2:  ldgp    $29,0($27)
    lda     $6,image_fault
    stq     $6,48($30)
    call_pal 0x92
1:  call_pal 0x00
    .end access_violation

/* The interval clock and other processors: nothing to do. */
    .balign 64
    .globl interrupted
    .ent interrupted
interrupted:
    call_pal 0x92
    .end interrupted

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

/* Where an image starts that RUN names: number in $16, stack in $17. It ends by CHMS with a code in $0
 * and a status in $16. */
    .globl user_image
    .ent user_image
user_image:
    mov     $17,$30
    br      $27,1f
1:  ldgp    $29,0($27)
    lda     $27,image_main
    jsr     $26,($27)
    mov     $0,$16
    mov     $31,$0
    call_pal 0x84
    .end user_image

    .globl image_fault
    .ent image_fault
image_fault:
    lda     $0,1($31)
    lda     $16,12($31)
    call_pal 0x84
    .end image_fault

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

/* u64 run_image(u64 number, u64 stack): goes to user mode by REI and comes back by the image's CHMS; the
 * image's status times two, plus the code. */
    .globl run_image
    .ent run_image
run_image:
    lda     $30,-80($30)
    stq     $26,0($30)
    stq     $9,8($30)
    stq     $10,16($30)
    stq     $11,24($30)
    stq     $12,32($30)
    stq     $13,40($30)
    stq     $14,48($30)
    stq     $15,56($30)
    stq     $29,64($30)
    br      $27,1f
1:  ldgp    $29,0($27)
    lda     $1,supervisor_sp
    stq     $30,0($1)
    lda     $30,-64($30)
    bic     $30,63,$30
    lda     $1,user_image
    stq     $1,48($30)
    lda     $1,24($31)
    stq     $1,56($30)
    call_pal 0x92
    .end run_image

    .balign 64
    .globl image_ended
    .ent image_ended
image_ended:
    br      $27,1f
1:  ldgp    $29,0($27)
    lda     $1,supervisor_sp
    ldq     $30,0($1)
    addq    $16,$16,$16
    addq    $16,$0,$0
    ldq     $26,0($30)
    ldq     $9,8($30)
    ldq     $10,16($30)
    ldq     $11,24($30)
    ldq     $12,32($30)
    ldq     $13,40($30)
    ldq     $14,48($30)
    ldq     $15,56($30)
    ldq     $29,64($30)
    lda     $30,80($30)
    ret     $31,($26),1
    .end image_ended
