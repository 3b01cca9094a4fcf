/* Rows ll-sc, indirect-calls, unaligned-quad: instructions that emulators treat specially.
 *
 * ll-sc adds to a counter by LDQ_L/STQ_C, which nobody contends for; on the host the same C is
 * a locked addition. indirect-calls goes through a register to one of SIZE targets in turn.
 * unaligned-quad loads and stores quadwords at odd addresses with plain LDQ and STQ, which the
 * Alpha hands to the kernel to fix up; most hosts do it in hardware.
 */
#include "lab.h"

#define ROUNDS 65536
#define PASSES 64

static u64 counter[16];
static u64 count, outcome;

static void prepare(u64 size) { count = size; }

static void ll_sc(void)
{
    for (u64 i = 0; i < ROUNDS; i++) {
        __atomic_fetch_add(&counter[0], i, __ATOMIC_RELAXED);
        __atomic_fetch_add(&counter[8], 1, __ATOMIC_RELAXED);
    }
}
static void ll_sc_restore(void) { counter[0] = counter[8] = 0; }
static u64 ll_sc_check(void) { return ax_mix(counter[0], counter[8]); }
static u64 ll_sc_work(void) { return 2 * ROUNDS; }

static AX_NOINLINE u64 add(u64 x) { return x + 0x9e37; }
static AX_NOINLINE u64 rotate(u64 x) { return x << 7 | x >> 57; }
static AX_NOINLINE u64 fold(u64 x) { return x ^ x >> 9; }
static AX_NOINLINE u64 scale(u64 x) { return x * 5; }
static u64 (*target[4])(u64) = { add, rotate, fold, scale };

static void indirect(void)
{
    u64 x = 1, at = 0;
    AX_OPAQUE(at);
    for (u64 i = 0; i < ROUNDS; i++) {
        x = target[at](x);
        if (++at == count) at = 0;
    }
    outcome = x;
}
static u64 indirect_check(void) { return outcome; }
static u64 indirect_work(void) { return ROUNDS; }

#ifdef __alpha__
static inline u64 load(const u8 *p)
{
    u64 v;
    __asm__ volatile("ldq %0,0(%1)" : "=r"(v) : "r"(p) : "memory");
    return v;
}
static inline void store(u8 *p, u64 v)
{
    __asm__ volatile("stq %0,0(%1)" : : "r"(v), "r"(p) : "memory");
}
#else
struct loose { u64 v; } __attribute__((packed, may_alias));
static inline u64 load(const u8 *p) { return ((const volatile struct loose *)p)->v; }
static inline void store(u8 *p, u64 v) { ((volatile struct loose *)p)->v = v; }
#endif

static u8 bytes[8192 + 16];

static void unaligned_restore(void)
{
    for (u64 i = 0; i < sizeof bytes; i++) bytes[i] = (u8)(i * 7);
}
static void unaligned(void)
{
    for (u64 pass = 0; pass < PASSES; pass++)
        for (u64 i = 1; i < 1 + 8 * count; i += 8) store(bytes + i, load(bytes + i) + i);
}
static u64 unaligned_check(void) { return ax_hash(count, bytes, sizeof bytes); }
static u64 unaligned_work(void) { return 2 * PASSES * count; }

const struct lab_row lab_rows[] = {
    { "ll-sc", "pairs", 1, 1, 1, prepare, ll_sc_restore, ll_sc, ll_sc_check, ll_sc_work },
    { "indirect-calls", "calls", 4, 1, 4, prepare, 0, indirect, indirect_check, indirect_work },
    { "unaligned-quad", "accesses", 512, 1, 1024, prepare, unaligned_restore, unaligned,
      unaligned_check, unaligned_work },
};
const u64 lab_row_count = 3;
