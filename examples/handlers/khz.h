/* What a program for khz's nodes needs: docs/handlers.md explains it. Version 1 of the interface.
 *
 *   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o mean.wasm mean.c
 */
#ifndef KHZ_H
#define KHZ_H

#include <stdint.h>

#define KHZ_EXPORT(name) __attribute__((export_name(name)))
#define KHZ_IMPORT(name) __attribute__((import_module("khz"), import_name(name)))

/* What a value of a row is. Only a present one is a number; the others are NaN. */
enum khz_state { KHZ_PRESENT = 0, KHZ_ABSENT = 1, KHZ_FAILED = 2 };

/* Rows come into this. */
struct khz_room {
    double *values;       /* of each series its value, in the metric's own unit */
    uint8_t *states;      /* of each series an enum khz_state */
    uint32_t capacity;    /* series for which there is room */
    uint32_t count;       /* series of the rows; khz writes this and what follows */
    int64_t time;         /* when the row was gathered, ns since 1970 */
    uint64_t boot;        /* the same, ns since the node was booted */
    uint64_t lost;        /* rows that were lost before this one */
};

/* Room for rows of up to this many series, as `khz`. Write this once. */
#define KHZ_ROOM(most)                                                                   \
    static double khz_values[most];                                                      \
    static uint8_t khz_states[most];                                                     \
    static struct khz_room khz = {khz_values, khz_states, most, 0, 0, 0, 0};             \
    KHZ_EXPORT("khz_version") int khz_version(void) { return 1; }                        \
    KHZ_EXPORT("khz_room") struct khz_room *khz_room(void) { return &khz; }

/* Write these two. khz_begin is called before the first row, and when the series change: name your values here. It returns 0, or
 * another number if the program cannot use these series. khz_row is called for each row. It returns 1 if khz sends a row of your values,
 * and 0 if not. */
KHZ_EXPORT("khz_begin") int khz_begin(int series);
KHZ_EXPORT("khz_row") int khz_row(void);

/* Only in khz_begin: the number of your value of this name, or -1 if the name is not good, or there are too many. */
KHZ_IMPORT("output") int khz_output(const char *name, int length);
/* Gives one of your values of this row. A value that you do not give is absent. */
KHZ_IMPORT("put") void khz_put(int output, double value);
/* The name and the unit of a series; its whole length, also if there is less room. */
KHZ_IMPORT("name") int khz_name(int series, char *into, int room);
KHZ_IMPORT("unit") int khz_unit(int series, char *into, int room);
/* 1 if a series only grows. */
KHZ_IMPORT("is_counter") int khz_is_counter(int series);
/* A line for the person who tests the program. */
KHZ_IMPORT("say") void khz_say(const char *line, int length);

static inline int khz_length(const char *text) {
    int length = 0;
    while (text[length]) length++;
    return length;
}

/* True if series number `at` has a value in this row. */
#define KHZ_HAS(at) (khz.states[at] == KHZ_PRESENT)

#endif
