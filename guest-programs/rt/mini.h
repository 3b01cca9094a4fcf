/* Small freestanding library shared by every kernel: memory, strings, math, system calls.
 *
 * The Alpha guest and the `native` twin compile this same text, so both sides run the same
 * algorithm. With AX_HOST_LIBS (the `native-o3` twin) the timed code uses the host's libc and
 * libm instead; the ax_ functions then serve only for the untimed reference results.
 */
#ifndef AX_MINI_H
#define AX_MINI_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef signed int i32;
typedef signed long i64;
typedef unsigned __int128 u128;

#define AX_NOINLINE __attribute__((noinline, noclone))

/* Keeps a value alive and opaque, so that no compiler folds a whole repetition away. */
#define AX_OPAQUE(x) __asm__ volatile("" : "+r"(x) : : "memory")

void *ax_memcpy(void *to, const void *from, u64 bytes);
void *ax_memmove(void *to, const void *from, u64 bytes);
void *ax_memset(void *to, int value, u64 bytes);
int ax_memcmp(const void *a, const void *b, u64 bytes);
u64 ax_strlen(const char *s);
int ax_strcmp(const char *a, const char *b);
char *ax_strcpy(char *to, const char *from);

double ax_exp(double x);
double ax_log(double x);
double ax_pow(double x, double y);
double ax_sin(double x);
double ax_cos(double x);

static inline double ax_fabs(double x) { return x < 0.0 ? -x : x; }

#ifdef AX_HOST_LIBS
#include <math.h>
#include <string.h>
#define lib_memcpy memcpy
#define lib_memmove memmove
#define lib_memset memset
#define lib_memcmp memcmp
#define lib_strlen strlen
#define lib_strcmp strcmp
#define lib_strcpy strcpy
#define lib_exp exp
#define lib_pow pow
#define lib_sin sin
#define lib_cos cos
#else
#define lib_memcpy ax_memcpy
#define lib_memmove ax_memmove
#define lib_memset ax_memset
#define lib_memcmp ax_memcmp
#define lib_strlen ax_strlen
#define lib_strcmp ax_strcmp
#define lib_strcpy ax_strcpy
#define lib_exp ax_exp
#define lib_pow ax_pow
#define lib_sin ax_sin
#define lib_cos ax_cos
#endif

/* Deterministic 64-bit generator (xorshift-multiply); every kernel's input comes from it. */
struct ax_rng { u64 state; };
u64 ax_next(struct ax_rng *rng);
/* Uniform enough in [0, bound); multiply-high, so that no division is needed. */
u64 ax_below(struct ax_rng *rng, u64 bound);

/* Running hash of results; order matters. */
static inline u64 ax_mix(u64 hash, u64 value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ul;
    return hash ^ (hash >> 29);
}
u64 ax_hash(u64 hash, const void *data, u64 bytes);
static inline u64 ax_mix_double(u64 hash, double value)
{
    union { double d; u64 u; } bits = { value };
    return ax_mix(hash, bits.u);
}

i64 ax_write(int fd, const void *data, u64 bytes);
u64 ax_now(void); /* nanoseconds, CLOCK_MONOTONIC */

#endif
