/* shortest.c - the shortest decimal that reads back as the same binary number. Numbers of digits are tried in turn. As
 * long as the digits are below 2^53 and the power of ten at most 10^22, a decimal is one operation of exact doubles,
 * and so as well rounded as strtod's result; beyond that printf and strtod do it. */
#include "data/table/value_text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const double tri__power10[TRI_POWER10 + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The fewest digits, `first` to `last`, of a decimal in [low, high]: of those the nearest to the value. 0: there is
 * none, or the power of ten is too large. */
static uint64_t search(double value, double low, double high, int first, int last, int *exponent) {
    int size = (int)floor(log10(value));
    for (int n = first; n <= last; n++) {
        int k = n - 1 - size;
        if (k > TRI_POWER10 || k < -TRI_POWER10) return 0;
        double scaled = k < 0 ? value / tri__power10[-k] : value * tri__power10[k], near = nearbyint(scaled);
        const double digits[] = {near, near < scaled ? near + 1 : near - 1};
        for (int i = 0; i < 2; i++) {
            double back = k < 0 ? digits[i] * tri__power10[-k] : digits[i] / tri__power10[k];
            if (back < low || back > high) continue;
            *exponent = -k;
            return (uint64_t)digits[i];
        }
    }
    return 0;
}

/* The same by printf. A power of two has its lower neighbour nearer than the upper: there the second best may do. */
static uint64_t print(double value, int is_float, int first, int *exponent) {
    int power = frexp(value, exponent) == 0.5;
    for (int n = first;; n++) {
        char text[32];
        snprintf(text, sizeof text, "%.*e", n - 1, value);
        uint64_t digits = (uint64_t)(text[0] - '0');
        for (int i = 0; i < n - 1; i++) digits = 10 * digits + (uint64_t)(text[2 + i] - '0');
        *exponent = atoi(strchr(text, 'e') + 1) - (n - 1);
        for (int more = 0; more <= power; more++, digits++) {
            if (more) snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, *exponent);
            if (is_float ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value) return digits;
        }
    }
}

uint64_t tri__shortest_double(double value, int *exponent) {
    *exponent = 0;
    if (value < 0x1p53 && value == trunc(value)) return (uint64_t)value;
    uint64_t digits = search(value, value, value, DBL_DIG, DBL_DIG, exponent);
    return digits ? digits : print(value, 0, value < DBL_MIN ? 1 : DBL_DIG, exponent);
}

/* Of numbers with fewer bits than a double, the middles between neighbours are doubles. They belong to the number whose
 * last bit is even. */
static uint64_t between(double below, double value, double above, int even, int first, int last, int *exponent) {
    double low = (below + value) / 2, high = (value + above) / 2;
    if (!even) low = nextafter(low, value), high = nextafter(high, value);
    return search(value, low, high, first, last, exponent);
}

uint64_t tri__shortest_float(float value, int *exponent) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    *exponent = 0;
    if (value < 0x1p24f && value == truncf(value)) return (uint64_t)value;
    int first = value < FLT_MIN ? 1 : FLT_DIG;
    double above = value < FLT_MAX ? (double)nextafterf(value, INFINITY) : 0x1p128;
    uint64_t digits = between((double)nextafterf(value, 0), (double)value, above, !(bits & 1), first, 9, exponent);
    return digits ? digits : print((double)value, 1, first, exponent);
}

uint64_t tri__shortest_half(uint16_t bits, int *exponent) {
    enum { NEIGHBOURS = 3 };
    double value[NEIGHBOURS];
    for (int i = 0; i < NEIGHBOURS; i++) {
        int near = bits - 1 + i, biased = near >> 10;
        value[i] = ldexp(biased ? near % 1024 + 1024 : near, biased ? biased - 25 : -24);
    }
    *exponent = 0;
    if (value[1] < 0x1p11 && value[1] == trunc(value[1])) return (uint64_t)value[1];
    return between(value[0], value[1], value[2], !(bits & 1), 1, 5, exponent);
}
