// A system call with all six arguments, its error flag (a3) and second result (a4).
static long raw6(long n, long a, long b, long c, long d, long e, long f, long*err, long*second) {
    register long v0 asm("$0") = n, a0 asm("$16") = a, a1 asm("$17") = b, a2 asm("$18") = c, a3 asm("$19") = d, a4 asm("$20") = e, a5 asm("$21") = f;
    asm volatile("callsys":"+r"(v0),"+r"(a3),"+r"(a4),"+r"(a5):"r"(a0),"r"(a1),"r"(a2):"$1","$2","$3","$4","$5","$6","$7","$8","$22","$23","$24","$25","$27","$28","memory");
    *err = a3;
    if (second)*second = a4;
    return v0;
}
