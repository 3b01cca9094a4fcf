/* Entry point and system calls of an Alpha guest without a C library.
 *
 * Linux starts a program with argc at 0($30) and argv behind it. CALL_PAL 0x83 takes the
 * number in $0 and arguments in $16..$21; $19 is non-zero on failure and $0 then holds errno.
 */
    .set noat
    .text
    .globl _start
    .ent _start
_start:
    .frame $31,0,$31,0
    br      $27,1f
1:  ldgp    $29,0($27)
    .prologue 0
    ldq     $16,0($30)
    lda     $17,8($30)
    lda     $18,-16($31)
    and     $30,$18,$30         # the calling standard keeps $30 16-byte aligned
    lda     $26,0($31)
    ldq     $27,main($29)       !literal!1
    jsr     $26,($27),main      !lituse_jsr!1
    mov     $0,$16
    lda     $0,405($31)         # exit_group
    call_pal 0x83
    call_pal 0x81               # bugcheck: exit does not return
    .end _start

/* i64 ax_syscall3(number, a, b, c): the result, or minus errno. */
    .globl ax_syscall3
    .ent ax_syscall3
ax_syscall3:
    .frame $30,0,$26,0
    .prologue 0
    mov     $16,$0
    mov     $17,$16
    mov     $18,$17
    mov     $19,$18
    call_pal 0x83
    subq    $31,$0,$1
    cmovne  $19,$1,$0
    ret     $31,($26),1
    .end ax_syscall3

    .section .note.GNU-stack,"",@progbits
