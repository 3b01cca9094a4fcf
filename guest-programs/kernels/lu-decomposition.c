/* Row lu-decomposition (nbench-style): solve a 101 x 101 system by Crout's LU decomposition.
 *
 * Scaled partial pivoting, then forward and back substitution, as nbench does; one repetition
 * solves one system. The matrix is restored outside the timed part.
 */
#include "lab.h"

#define MOST 101

static double original[MOST][MOST], given[MOST];
static double matrix[MOST][MOST], vector[MOST], scale[MOST];
static i64 order[MOST];
static i64 n;
static int singular;

static AX_NOINLINE int decompose(double a[MOST][MOST])
{
    for (i64 i = 0; i < n; i++) {
        double big = 0.0;
        for (i64 j = 0; j < n; j++) {
            double size = ax_fabs(a[i][j]);
            if (size > big) big = size;
        }
        if (big == 0.0) return 0;
        scale[i] = 1.0 / big;
    }
    for (i64 j = 0; j < n; j++) {
        i64 pivot = j;
        double big = 0.0;
        for (i64 i = 0; i < j; i++) {
            double sum = a[i][j];
            for (i64 k = 0; k < i; k++) sum -= a[i][k] * a[k][j];
            a[i][j] = sum;
        }
        for (i64 i = j; i < n; i++) {
            double sum = a[i][j];
            for (i64 k = 0; k < j; k++) sum -= a[i][k] * a[k][j];
            a[i][j] = sum;
            double merit = scale[i] * ax_fabs(sum);
            if (merit >= big) {
                big = merit;
                pivot = i;
            }
        }
        if (pivot != j) {
            for (i64 k = 0; k < n; k++) {
                double held = a[pivot][k];
                a[pivot][k] = a[j][k];
                a[j][k] = held;
            }
            scale[pivot] = scale[j];
        }
        order[j] = pivot;
        if (a[j][j] == 0.0) return 0;
        if (j != n - 1) {
            double inverse = 1.0 / a[j][j];
            for (i64 i = j + 1; i < n; i++) a[i][j] *= inverse;
        }
    }
    return 1;
}

static AX_NOINLINE void substitute(double a[MOST][MOST], double *b)
{
    i64 from = -1;
    for (i64 i = 0; i < n; i++) {
        i64 p = order[i];
        double sum = b[p];
        b[p] = b[i];
        if (from >= 0)
            for (i64 k = from; k < i; k++) sum -= a[i][k] * b[k];
        else if (sum != 0.0)
            from = i;
        b[i] = sum;
    }
    for (i64 i = n - 1; i >= 0; i--) {
        double sum = b[i];
        for (i64 k = i + 1; k < n; k++) sum -= a[i][k] * b[k];
        b[i] = sum / a[i][i];
    }
}

static void prepare(u64 size)
{
    struct ax_rng rng = { 101 };
    n = (i64)size;
    for (i64 i = 0; i < n; i++) {
        given[i] = (double)(i64)ax_below(&rng, 100) + 1.0;
        for (i64 j = 0; j < n; j++)
            original[i][j] = (double)(i64)ax_below(&rng, 2001) * 0.001 - 1.0;
    }
}

static void restore(void)
{
    ax_memcpy(matrix, original, sizeof matrix);
    ax_memcpy(vector, given, sizeof vector);
}

static void run(void)
{
    singular = !decompose(matrix);
    if (!singular) substitute(matrix, vector);
}

/* The residual is part of the check: a wrong solution changes the checksum to its row. */
static u64 check(void)
{
    u64 hash = (u64)singular + 2;
    for (i64 i = 0; i < n; i++) {
        double sum = 0.0;
        for (i64 j = 0; j < n; j++) sum += original[i][j] * vector[j];
        if (!(ax_fabs(sum - given[i]) < 1e-6)) return (u64)i;
        hash = ax_mix_double(hash, vector[i]);
    }
    return hash;
}

static u64 work(void) { return 1; }

const struct lab_row lab_rows[] = {
    { "lu-decomposition", "iterations", 101, 2, MOST, prepare, restore, run, check, work },
};
const u64 lab_row_count = 1;
