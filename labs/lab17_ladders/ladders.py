"""Kernel ladders: softmax in six versions, matrix product in six, attention in four, each with one idea more.

Input: nothing. Each function gives the C++ text of a kernel's body. kernels.py builds it twice: as it is, and with
numbers and arrays that count. `num` is a number; `exp_`, `max_`, `abs_`, `sqrt_` take it; `Local<num> a(d)`: an array.
"""

from __future__ import annotations

# ---- softmax of each row: x and y have n rows of d -----------------------------------------------------------------


def softmax_1() -> str:
    """Given. Four passes over a row: the largest, the exponentials, their sum, the quotients."""
    return """
    for (long i = 0; i < n; i++) {
        num largest = x[i * d];
        for (long j = 1; j < d; j++) largest = max_(largest, x[i * d + j]);
        for (long j = 0; j < d; j++) y[i * d + j] = exp_(x[i * d + j] - largest);
        num sum = 0;
        for (long j = 0; j < d; j++) sum = sum + y[i * d + j];
        for (long j = 0; j < d; j++) y[i * d + j] = y[i * d + j] / sum;
    }
"""


def softmax_2() -> str:
    """Three passes: the sum is taken where the exponentials are made."""
    # lab: begin softmax_2
    return """
    for (long i = 0; i < n; i++) {
        num largest = x[i * d], sum = 0;
        for (long j = 1; j < d; j++) largest = max_(largest, x[i * d + j]);
        for (long j = 0; j < d; j++) {
            num e = exp_(x[i * d + j] - largest);
            y[i * d + j] = e;
            sum = sum + e;
        }
        for (long j = 0; j < d; j++) y[i * d + j] = y[i * d + j] / sum;
    }
"""
    # lab: end


def softmax_3() -> str:
    """One division a row."""
    # lab: begin softmax_3
    return """
    for (long i = 0; i < n; i++) {
        num largest = x[i * d], sum = 0;
        for (long j = 1; j < d; j++) largest = max_(largest, x[i * d + j]);
        for (long j = 0; j < d; j++) {
            num e = exp_(x[i * d + j] - largest);
            y[i * d + j] = e;
            sum = sum + e;
        }
        num part = num(1) / sum;
        for (long j = 0; j < d; j++) y[i * d + j] = y[i * d + j] * part;
    }
"""
    # lab: end


def softmax_4() -> str:
    """Online: one pass for the largest and the sum together, one for the result. y is written and never read.

    When a larger number comes, the sum so far is multiplied by exp(old largest - new largest).
    """
    # lab: begin softmax_4
    return """
    for (long i = 0; i < n; i++) {
        num largest = x[i * d], sum = 1;
        for (long j = 1; j < d; j++) {
            num v = x[i * d + j];
            num e = exp_(-abs_(v - largest));
            if (v > largest) { sum = sum * e + num(1); largest = v; }
            else sum = sum + e;
        }
        num part = num(1) / sum;
        for (long j = 0; j < d; j++) y[i * d + j] = exp_(x[i * d + j] - largest) * part;
    }
"""
    # lab: end


def softmax_5() -> str:
    """Eight lanes: eight largest numbers and eight sums side by side, so that no addition waits for the one before."""
    # lab: begin softmax_5
    return """
    for (long i = 0; i < n; i++) {
        const long W = 8, whole = d / W * W;
        num largest = x[i * d];
        num top[W], sums[W];
        for (long w = 0; w < W; w++) { top[w] = largest; sums[w] = 0; }
        for (long j = 0; j < whole; j += W)
            for (long w = 0; w < W; w++) top[w] = max_(top[w], x[i * d + j + w]);
        for (long j = whole; j < d; j++) top[j - whole] = max_(top[j - whole], x[i * d + j]);
        for (long w = 0; w < W; w++) largest = max_(largest, top[w]);
        for (long j = 0; j < whole; j += W)
            for (long w = 0; w < W; w++) {
                num e = exp_(x[i * d + j + w] - largest);
                y[i * d + j + w] = e;
                sums[w] = sums[w] + e;
            }
        for (long j = whole; j < d; j++) {
            num e = exp_(x[i * d + j] - largest);
            y[i * d + j] = e;
            sums[j - whole] = sums[j - whole] + e;
        }
        num sum = 0;
        for (long w = 0; w < W; w++) sum = sum + sums[w];
        num part = num(1) / sum;
        for (long j = 0; j < d; j++) y[i * d + j] = y[i * d + j] * part;
    }
"""
    # lab: end


def softmax_6() -> str:
    """The rows in parallel, each as in version 5."""
    # lab: begin softmax_6
    return "\n    #pragma omp parallel for" + softmax_5()
    # lab: end


# ---- matrix product: c (n, m) = a (n, k) times b (k, m) ------------------------------------------------------------


def matmul_1() -> str:
    """Given. A row times a column. A column of b is spread over memory: each element is in another cache line."""
    return """
    for (long i = 0; i < n; i++)
        for (long j = 0; j < m; j++) {
            num sum = 0;
            for (long p = 0; p < k; p++) sum = sum + a[i * k + p] * b[p * m + j];
            c[i * m + j] = sum;
        }
"""


def matmul_2() -> str:
    """The loops in another order: i, p, j. Rows of b and c are read as they lie in memory."""
    # lab: begin matmul_2
    return """
    for (long i = 0; i < n; i++) {
        for (long j = 0; j < m; j++) c[i * m + j] = 0;
        for (long p = 0; p < k; p++) {
            num left = a[i * k + p];
            for (long j = 0; j < m; j++) c[i * m + j] = c[i * m + j] + left * b[p * m + j];
        }
    }
"""
    # lab: end


def matmul_3() -> str:
    """Tiles: 16 by 16 parts of b and c, so that what is in the cache is used for many rows before it goes."""
    # lab: begin matmul_3
    return """
    const long T = 16;
    for (long i = 0; i < n * m; i++) c[i] = 0;
    for (long j0 = 0; j0 < m; j0 += T)
        for (long p0 = 0; p0 < k; p0 += T)
            for (long i = 0; i < n; i++)
                for (long p = p0; p < min_(p0 + T, k); p++) {
                    num left = a[i * k + p];
                    for (long j = j0; j < min_(j0 + T, m); j++) c[i * m + j] = c[i * m + j] + left * b[p * m + j];
                }
"""
    # lab: end


def matmul_4() -> str:
    """Registers: 4 by 4 sums are kept in local numbers for the whole loop over p. Each element of c is stored once."""
    # lab: begin matmul_4
    return """
    const long R = 4;
    for (long j0 = 0; j0 < m; j0 += R)
        for (long i0 = 0; i0 < n; i0 += R) {
            num sums[R][R], left[R], right[R];
            for (long i = 0; i < R; i++) for (long j = 0; j < R; j++) sums[i][j] = 0;
            for (long p = 0; p < k; p++) {  // beyond the edge, the last row or column is used again
                for (long i = 0; i < R; i++) left[i] = a[min_(i0 + i, n - 1) * k + p];
                for (long j = 0; j < R; j++) right[j] = b[p * m + min_(j0 + j, m - 1)];
                for (long i = 0; i < R; i++)
                    for (long j = 0; j < R; j++) sums[i][j] = sums[i][j] + left[i] * right[j];
            }
            num done[R][R];  // a copy: sums, which no variable index reads, stays in registers
            for (long i = 0; i < R; i++) for (long j = 0; j < R; j++) done[i][j] = sums[i][j];
            for (long i = 0; i < min_(R, n - i0); i++)
                for (long j = 0; j < min_(R, m - j0); j++) c[(i0 + i) * m + j0 + j] = done[i][j];
        }
"""
    # lab: end


def matmul_5() -> str:
    """Packing: 16 columns of b are copied into a local array first. Each element of b is loaded from memory once."""
    # lab: begin matmul_5
    return """
    const long W = 16, R = 4;
    for (long j0 = 0; j0 < m; j0 += W) {
        const long columns = min_(W, m - j0);
        Local<num> panel(k * W + 1);
        for (long p = 0; p < k; p++)
            for (long j = 0; j < W; j++) panel[p * W + j] = j < columns ? num(b[p * m + j0 + j]) : num(0);
        for (long i0 = 0; i0 < n; i0 += R) {
            num sums[R][W], done[R][W];
            for (long i = 0; i < R; i++) for (long j = 0; j < W; j++) sums[i][j] = 0;
            for (long p = 0; p < k; p++)
                for (long i = 0; i < R; i++) {
                    num left = a[min_(i0 + i, n - 1) * k + p];
                    for (long j = 0; j < W; j++) sums[i][j] = sums[i][j] + left * panel[p * W + j];
                }
            for (long i = 0; i < R; i++) for (long j = 0; j < W; j++) done[i][j] = sums[i][j];
            for (long i = 0; i < min_(R, n - i0); i++)
                for (long j = 0; j < columns; j++) c[(i0 + i) * m + j0 + j] = done[i][j];
        }
    }
"""
    # lab: end


def matmul_6() -> str:
    """The panels in parallel, each as in version 5."""
    # lab: begin matmul_6
    before, loop, after = matmul_5().partition("for (long j0")
    return f"{before}#pragma omp parallel for\n    {loop}{after}"
    # lab: end


# ---- attention: o = softmax(q k' / sqrt(d)) v, all of n rows of d; s is scratch memory of n * n numbers ------------


def attention_1() -> str:
    """Given. All scores are written to memory, then softmax, then the product with v."""
    return """
    const num scale = num(1) / sqrt_(num(d));
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            num sum = 0;
            for (long p = 0; p < d; p++) sum = sum + q[i * d + p] * k[j * d + p];
            s[i * n + j] = sum * scale;
        }
    for (long i = 0; i < n; i++) {
        num largest = s[i * n], sum = 0;
        for (long j = 1; j < n; j++) largest = max_(largest, s[i * n + j]);
        for (long j = 0; j < n; j++) { num e = exp_(s[i * n + j] - largest); s[i * n + j] = e; sum = sum + e; }
        for (long j = 0; j < n; j++) s[i * n + j] = s[i * n + j] / sum;
    }
    for (long i = 0; i < n; i++)
        for (long p = 0; p < d; p++) {
            num sum = 0;
            for (long j = 0; j < n; j++) sum = sum + s[i * n + j] * v[j * d + p];
            o[i * d + p] = sum;
        }
"""


def attention_2() -> str:
    """One query after the other: only one row of scores is kept, in the first n numbers of s."""
    # lab: begin attention_2
    return """
    const num scale = num(1) / sqrt_(num(d));
    for (long i = 0; i < n; i++) {
        for (long j = 0; j < n; j++) {
            num sum = 0;
            for (long p = 0; p < d; p++) sum = sum + q[i * d + p] * k[j * d + p];
            s[j] = sum * scale;
        }
        num largest = s[0], sum = 0;
        for (long j = 1; j < n; j++) largest = max_(largest, s[j]);
        for (long j = 0; j < n; j++) { num e = exp_(s[j] - largest); s[j] = e; sum = sum + e; }
        num part = num(1) / sum;
        for (long p = 0; p < d; p++) {
            num total = 0;
            for (long j = 0; j < n; j++) total = total + s[j] * v[j * d + p];
            o[i * d + p] = total * part;
        }
    }
"""
    # lab: end


def attention_3() -> str:
    """Online: no score is kept. The sum and the d results so far are local, and shrink when a larger score comes."""
    # lab: begin attention_3
    return """
    const num scale = num(1) / sqrt_(num(d));
    for (long i = 0; i < n; i++) {
        Local<num> query(d), total(d);
        for (long p = 0; p < d; p++) { query[p] = q[i * d + p] * scale; total[p] = 0; }
        num largest = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) {
            num score = 0;
            for (long p = 0; p < d; p++) score = score + query[p] * k[j * d + p];
            num next = max_(largest, score);
            num shrink = exp_(largest - next), e = exp_(score - next);
            sum = sum * shrink + e;
            for (long p = 0; p < d; p++) total[p] = total[p] * shrink + e * v[j * d + p];
            largest = next;
        }
        num part = num(1) / sum;
        for (long p = 0; p < d; p++) o[i * d + p] = total[p] * part;
    }
"""
    # lab: end


def attention_4() -> str:
    """Blocks of 8 queries, in parallel. Each element of k and v that is loaded is used for the whole block."""
    # lab: begin attention_4
    return """
    const long R = 8;
    const num scale = num(1) / sqrt_(num(d));
    #pragma omp parallel for
    for (long i0 = 0; i0 < n; i0 += R) {
        const long rows = min_(R, n - i0);
        Local<num> query(R * d), total(R * d), key(d), value(d);
        num largest[R], sum[R];
        for (long r = 0; r < rows; r++) {
            largest[r] = -INFINITY;
            sum[r] = 0;
            for (long p = 0; p < d; p++) { query[r * d + p] = q[(i0 + r) * d + p] * scale; total[r * d + p] = 0; }
        }
        for (long j = 0; j < n; j++) {
            for (long p = 0; p < d; p++) { key[p] = k[j * d + p]; value[p] = v[j * d + p]; }
            for (long r = 0; r < rows; r++) {
                num score = 0;
                for (long p = 0; p < d; p++) score = score + query[r * d + p] * key[p];
                num next = max_(largest[r], score);
                num shrink = exp_(largest[r] - next), e = exp_(score - next);
                sum[r] = sum[r] * shrink + e;
                for (long p = 0; p < d; p++) total[r * d + p] = total[r * d + p] * shrink + e * value[p];
                largest[r] = next;
            }
        }
        for (long r = 0; r < rows; r++) {
            num part = num(1) / sum[r];
            for (long p = 0; p < d; p++) o[(i0 + r) * d + p] = total[r * d + p] * part;
        }
    }
"""
    # lab: end


RUNGS = {"softmax": 6, "matmul": 6, "attention": 4}  # versions of each ladder
