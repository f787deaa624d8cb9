/* shortest.c - the shortest decimal that reads back as the same binary number (Schubfach: Raffaello Giulietti, "The
 * Schubfach way to render doubles", 2020). The interval that rounds to the number is scaled by a power of ten, rounded
 * to odd so that comparisons stay exact, and searched for a multiple of ten, then of one. */
#include "data/table/value_text.h"

#include <string.h>

typedef struct power {
    uint64_t high, low;
} power;

#include "data/table/shortest_powers.h"

__extension__ typedef unsigned __int128 wide;

static inline int floor_log2_power10(int e) { return (e * 1741647) >> 19; }
/* floor(log10(2^q)), or of 3/4 * 2^q for a number whose lower neighbour is nearer. */
static inline int floor_log10_power2(int q, int nearer) { return (q * 1262611 - (nearer ? 524031 : 0)) >> 22; }

static inline uint64_t scale_double(power g, uint64_t c) {
    wide x = (wide)g.low * c, y = (wide)g.high * c + (uint64_t)(x >> 64);
    return (uint64_t)(y >> 64) | ((uint64_t)y > 1);
}

static inline uint64_t scale_float(power g, uint64_t c) {
    wide p = (wide)(g.high + (g.low != 0)) * c;
    return (uint64_t)(p >> 64) | ((uint32_t)((uint64_t)p >> 32) > 1);
}

/* The number is c * 2^q; `nearer`: its lower neighbour is half as far as its upper. */
static inline uint64_t shortest(uint64_t c, int q, int nearer, int is_float, int *exponent) {
    int k = floor_log10_power2(q, nearer), h = q + floor_log2_power10(-k) + 1, odd = (int)(c & 1);
    power g = powers[-k - POWERS_FIRST];
    uint64_t (*scale)(power g, uint64_t c) = is_float ? scale_float : scale_double;
    uint64_t below = scale(g, (4 * c - 2 + (uint64_t)nearer) << h), at = scale(g, 4 * c << h);
    uint64_t above = scale(g, (4 * c + 2) << h);
    below += (uint64_t)odd, above -= (uint64_t)odd;
    uint64_t s = at / 4;
    *exponent = k;
    if (s >= 10) {
        uint64_t ten = s / 10;
        int low = below <= 40 * ten, high = 40 * ten + 40 <= above;
        if (low != high) {
            *exponent = k + 1;
            return ten + (uint64_t)high;
        }
    }
    int low = below <= 4 * s, high = 4 * s + 4 <= above;
    if (low != high) return s + (uint64_t)high;
    uint64_t middle = 4 * s + 2;
    return s + (at > middle || (at == middle && (s & 1)));
}

/* c * 2^q as an integer of its own; 0: it is not one, or does not fit c's bits. */
static inline uint64_t whole(uint64_t c, int q, int bits) {
    return q <= 0 && -q < bits && !(c & (((uint64_t)1 << -q) - 1)) ? c >> -q : 0;
}

uint64_t tri__shortest_double(double value, int *exponent) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1), integer;
    int biased = (int)(bits >> 52 & 0x7FF);
    if (!biased) return shortest(fraction, -1074, 0, 0, exponent);
    uint64_t c = fraction | (uint64_t)1 << 52;
    int q = biased - 1075;
    *exponent = 0;
    if ((integer = whole(c, q, 53))) return integer;
    return shortest(c, q, !fraction && biased > 1, 0, exponent);
}

uint64_t tri__shortest_float(float value, int *exponent) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t fraction = bits & (((uint32_t)1 << 23) - 1), integer;
    int biased = (int)(bits >> 23 & 0xFF);
    if (!biased) return shortest(fraction, -149, 0, 1, exponent);
    uint64_t c = fraction | (uint64_t)1 << 23;
    int q = biased - 150;
    *exponent = 0;
    if ((integer = whole(c, q, 24))) return integer;
    return shortest(c, q, !fraction && biased > 1, 1, exponent);
}

uint64_t tri__shortest_half(uint16_t bits, int *exponent) {
    uint64_t fraction = bits & 0x3FF, c = fraction | 0x400, integer;
    int biased = bits >> 10 & 31;
    if (!biased) return shortest(fraction, -24, 0, 0, exponent);
    *exponent = 0;
    if ((integer = whole(c, biased - 25, 11))) return integer;
    return shortest(c, biased - 25, !fraction && biased > 1, 0, exponent);
}
