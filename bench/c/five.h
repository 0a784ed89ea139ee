/* The five classic files, and the ordinary way to read numbers from them; shared by table.c and paced.c. */
#ifndef FIVE_H
#define FIVE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FILES = 5, TEXT_MAX = 1 << 20, VALUES_MAX = 1 << 16 };

static const char *const PATHS[FILES] = {
    "/proc/stat", "/proc/meminfo", "/proc/loadavg", "/proc/uptime", "/proc/net/dev",
};

/* Prints what failed and why, and ends the program. */
static inline void die(const char *what) {
    perror(what);
    exit(1);
}

static inline int64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/*
 * Writes every number of the text, in order, into `values`; returns how many. A point separates two numbers, such as
 * the parts of 0.52. Skips the numbers of single interrupts after the total in the "intr" and "softirq" lines, since
 * nobody uses them: without that this parser would look slower than it has to be.
 */
static inline size_t digits(const char *text, size_t length, uint64_t *values) {
    const char *at = text, *end = text + length;
    size_t count = 0;
    while (at < end && count < VALUES_MAX) {
        unsigned digit = (unsigned char)*at - '0';
        if (digit > 9) {
            int total_only = (*at == 'i' && end - at > 5 && !memcmp(at, "intr ", 5)) ||
                             (*at == 's' && end - at > 8 && !memcmp(at, "softirq ", 8));
            if (total_only) {
                const char *newline = memchr(at, '\n', end - at);
                values[count++] = strtoull(strchr(at, ' ') + 1, NULL, 10);
                at = newline ? newline : end;
            } else {
                at++;
            }
            continue;
        }
        uint64_t value = digit;
        while (++at < end && (digit = (unsigned char)*at - '0') <= 9) value = value * 10 + digit;
        values[count++] = value;
    }
    return count;
}

#endif
