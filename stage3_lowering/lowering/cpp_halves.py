"""C++ helpers for float16 and bfloat16: from their bits to float32 and back, to nearest, ties to even.

Input: none; this is a table for cpp_ops.py. Every line is an integer operation, which a compiler runs in lanes. Half of
a bfloat16's last place is added and its sign kept by one subtraction of 0xFFFF8001 or, where the last bit is set, of
0xFFFF8000: an exclusive or, which AVX-512 does together with the test of the bit.
"""

from __future__ import annotations

HALF_HELPERS: dict[str, str] = {
    "from_bfloat16": """\
inline float from_bfloat16(uint16_t x) {  // the upper half of a float
    uint32_t bits = uint32_t(x) << 16;
    float out;
    __builtin_memcpy(&out, &bits, 4);
    return out;
}""",
    "to_bfloat16": """\
inline uint16_t to_bfloat16(float x) {  // to nearest, ties to even
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    uint32_t upper = bits >> 16, nearest = (bits - ((upper & 1) ^ 0xFFFF8001u)) >> 16;
    return uint16_t(x != x ? upper | 0x40u : nearest);  // of a NaN, one that no rounding makes an infinity
}""",
    "round_bfloat16": """\
inline float round_bfloat16(float x) {  // what is left of x in a bfloat16; of a NaN, one with 16 zeros at its end
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    bits = (bits - ((bits >> 16 & 1) ^ 0xFFFF8001u)) & 0xFFFF0000u;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}""",
    "through_bfloat16": """\
inline float through_bfloat16(float x) {  // to_bfloat16 and back, in lanes of one width
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    uint32_t nearest = bits - ((bits >> 16 & 1) ^ 0xFFFF8001u);
    bits = (x != x ? bits | 0x400000u : nearest) & 0xFFFF0000u;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}""",
    "narrow_bfloat16": """\
inline uint16_t narrow_bfloat16(float x) {  // to nearest, ties to even; a NaN has 16 zeros at its end
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    return uint16_t((bits - ((bits >> 16 & 1) ^ 0xFFFF8001u)) >> 16);
}""",
    "Pair": """\
typedef uint32_t Word __attribute__((may_alias, aligned(2)));  // a copy of bytes between selections has no lanes
struct Pair {  // two bfloat16 values that lie side by side, as one word: to take one, or to set it, moves no lanes
    uint32_t bits = 0;
    Pair() = default;
    explicit Pair(const uint16_t* from) : bits(*(const Word*)from) {}
    uint16_t operator[](int64_t place) const { return uint16_t(place ? bits >> 16 : bits); }
    void set(int64_t place, uint16_t half) { bits = place ? (bits & 0xFFFFu) | uint32_t(half) << 16 : half; }
    void to(uint16_t* place) const { *(Word*)place = bits; }
};""",
    "from_float16": """\
inline float from_float16(uint16_t x) {  // the exponent moved by a multiplication, which does what is below normal too
    uint32_t bits = uint32_t(x & 0x7FFFu) << 13, special = (x & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0;
    float size;
    __builtin_memcpy(&size, &bits, 4);
    size *= 0x1p112f;
    __builtin_memcpy(&bits, &size, 4);
    bits |= special | uint32_t(x & 0x8000u) << 16;
    __builtin_memcpy(&size, &bits, 4);
    return size;
}""",
    "to_float16": """\
inline uint16_t to_float16(float x) {  // to nearest, ties to even
    uint32_t bits, small;
    __builtin_memcpy(&bits, &x, 4);
    uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    float rounded;  // below normal: adding 0.5 rounds at the last bit of a half
    __builtin_memcpy(&rounded, &size, 4);
    rounded += 0.5f;
    __builtin_memcpy(&small, &rounded, 4);
    uint32_t normal = (size + 0xFFFu + (size >> 13 & 1) - 0x38000000u) >> 13;
    uint32_t number = size < 0x38800000u ? small - 0x3F000000u : normal;
    uint32_t finite = size >= 0x477FF000u ? 0x7C00u : number;
    return uint16_t(sign | (size > 0x7F800000u ? 0x7E00u : finite));
}""",
}
