/* Row huffman (nbench-style): Huffman-compress and expand 5000 bytes of text.
 *
 * The tree is built by scanning for the two rarest nodes, codes are found by walking from leaf
 * to root, and bits are written and read one at a time, as nbench does. One repetition builds
 * the tree, compresses and expands.
 */
#include "lab.h"

#define MOST 65536
#define LEAVES 256
#define NONE (-1)

struct node { u32 count; i32 parent, left, right; u8 letter; };

static char text[MOST], again[MOST + 1];
static u8 packed[MOST * 2];
static struct node tree[2 * LEAVES];
static u64 length, packed_bits;

static void put_bit(u8 *to, u64 at, u32 bit)
{
    u8 mask = (u8)(1u << (at & 7));
    if (bit) to[at >> 3] |= mask;
    else to[at >> 3] &= (u8)~mask;
}

static u32 get_bit(const u8 *from, u64 at)
{
    return from[at >> 3] >> (at & 7) & 1u;
}

static i32 rarest(i32 nodes)
{
    i32 best = NONE;
    for (i32 i = 0; i < nodes; i++)
        if (tree[i].count && tree[i].parent == NONE
            && (best == NONE || tree[i].count < tree[best].count))
            best = i;
    return best;
}

/* Returns the root. */
static AX_NOINLINE i32 build(void)
{
    i32 root = LEAVES;
    for (i32 i = 0; i < LEAVES; i++)
        tree[i] = (struct node){ 0, NONE, NONE, NONE, (u8)i };
    for (u64 i = 0; i < length; i++) tree[(u8)text[i]].count++;
    for (;; root++) {
        i32 a = rarest(root);
        tree[a].parent = -2; /* taken while the second one is sought */
        i32 b = rarest(root);
        if (b == NONE) {
            tree[a].parent = NONE;
            return a;
        }
        tree[root] = (struct node){ tree[a].count + tree[b].count, NONE, a, b, 0 };
        tree[a].parent = tree[b].parent = root;
    }
}

static AX_NOINLINE u64 compress(void)
{
    u64 at = 0;
    u8 code[LEAVES];
    for (u64 i = 0; i < length; i++) {
        i32 node = (u8)text[i];
        u32 depth = 0;
        for (; tree[node].parent != NONE; node = tree[node].parent)
            code[depth++] = tree[tree[node].parent].right == node;
        while (depth) put_bit(packed, at++, code[--depth]);
    }
    return at;
}

static AX_NOINLINE void expand(i32 root, u64 bits)
{
    u64 at = 0, done = 0;
    while (at < bits) {
        i32 node = root;
        while (tree[node].left != NONE)
            node = get_bit(packed, at++) ? tree[node].right : tree[node].left;
        again[done++] = (char)tree[node].letter;
    }
    again[done] = 0;
}

/* Text of words from a small vocabulary in lines of varying length. */
static void prepare(u64 size)
{
    static const char *const words[] = {
        "alpha", "register", "branch", "and", "the", "of", "quadword", "store", "a", "trap",
        "Load", "system", "is", "memory", "barrier", "to", "page", "in", "value", "longword",
        "that", "fault", "with", "byte", "PALcode", "for", "queue", "unit", "by", "cycle",
    };
    struct ax_rng rng = { 5000 };
    u64 at = 0, column = 0;
    length = size;
    while (at < length) {
        for (const char *w = words[ax_below(&rng, 30)]; *w && at < length; w++, column++)
            text[at++] = *w;
        if (at < length) text[at++] = column > 50 ? '\n' : ' ';
        if (column > 50) column = 0;
    }
}

static void run(void)
{
    i32 root = build();
    packed_bits = compress();
    expand(root, packed_bits);
}

static u64 check(void)
{
    if (ax_memcmp(text, again, length)) return 0;
    return ax_hash(packed_bits, packed, packed_bits / 8);
}

static u64 work(void) { return 1; }

const struct lab_row lab_rows[] = {
    { "huffman", "iterations", 5000, 64, MOST, prepare, 0, run, check, work },
};
const u64 lab_row_count = 1;
