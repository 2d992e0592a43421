"""C++ for random words: Philox in 64-bit lanes, one word, and many in a row.

Input: none; the table is a part of cpp_ops.py's helpers.
"""

from __future__ import annotations

RANDOM_HELPERS: dict[str, str] = {
    "philox": """\
// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): four words of 32 bits of each block. In 64-bit lanes, so that
// the compiler may run several blocks in the lanes of one SIMD register.
inline void philox(uint64_t seed, uint64_t counter, uint64_t block, uint64_t (&c)[4]) {
    c[0] = uint32_t(block), c[1] = block >> 32, c[2] = uint32_t(counter), c[3] = counter >> 32;
    uint64_t k0 = uint32_t(seed), k1 = seed >> 32;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round, k0 = uint32_t(k0 + 0x9E3779B9u), k1 = uint32_t(k1 + 0xBB67AE85u)) {
        uint64_t p0 = 0xD2511F53u * c[0], p1 = 0xCD9E8D57u * c[2];
        c[0] = (p1 >> 32) ^ c[1] ^ k0, c[1] = uint32_t(p1), c[2] = (p0 >> 32) ^ c[3] ^ k1, c[3] = uint32_t(p0);
    }
}""",
    "random_word": """\
inline int64_t random_word(int64_t seed, int64_t counter, int64_t index) {  // word index % 4 of block index / 4
    uint64_t c[4];
    cutaway::philox(uint64_t(seed), uint64_t(counter), uint64_t(index) / 4, c);
    return int64_t(index & 2 ? (index & 1 ? c[3] : c[2]) : (index & 1 ? c[1] : c[0]));
}""",
    "RandomWords": """\
template <int most> struct RandomWords {  // up to `most` random words in a row, each block of four computed once
    uint32_t words[most + 8];
    int64_t skipped;  // of the first block
    RandomWords(int64_t seed, int64_t counter, int64_t first, int64_t left) : skipped(first % 4) {
        const int64_t start = first / 4, blocks = (skipped + (left < most ? left : most) + 3) / 4;
#pragma omp simd
        for (int64_t block = 0; block < blocks; ++block) {
            uint64_t c[4];
            cutaway::philox(uint64_t(seed), uint64_t(counter), uint64_t(start + block), c);
            for (int word = 0; word < 4; ++word) words[4 * block + word] = uint32_t(c[word]);
        }
    }
    int64_t operator[](int64_t place) const { return words[skipped + place]; }
};""",
}
