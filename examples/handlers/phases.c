/* A phase detector of a parallel program: the CPU time that the node uses says whether its processes compute, wait or exchange. A phase
 * begins when the share of the time that is used stays near another level for five rows; the row says the level, how long the phase before
 * took, and the number of the phase. Give it counters of CPU seconds, such as cpu.all.user. */
#include "khz.h"

#define ROWS_TO_CHANGE 5
#define NEAR 0.15

KHZ_ROOM(64)
static int level, took, number;
static double before, at_level, new_level;
static int64_t time_before, began, new_began;
static int new_rows, phases;

int khz_begin(int series) {
    for (int at = 0; at < series; at++)
        if (!khz_is_counter(at)) return 1;
    level = khz_output("level", 5);
    took = khz_output("took", 4);
    number = khz_output("phase", 5);
    time_before = 0;
    phases = 0;
    return series == 0;
}

static int is_near(double a, double b) { return a - b < NEAR && b - a < NEAR; }

int khz_row(void) {
    double used = 0;
    for (uint32_t at = 0; at < khz.count; at++)
        if (KHZ_HAS(at)) used += khz.values[at];
    int64_t since = time_before;
    double share = since ? (used - before) * 1e9 / (double)(khz.time - since) : 0;
    before = used;
    time_before = khz.time;
    if (since == 0 || khz.lost > 0 || share < 0) return 0;
    if (phases > 0 && is_near(share, at_level)) {
        new_rows = 0;
        return 0;
    }
    if (new_rows == 0 || !is_near(share, new_level)) {
        new_rows = 0;
        new_level = share;
        new_began = since;
    }
    if (++new_rows < ROWS_TO_CHANGE) return 0;
    khz_put(level, new_level);
    if (phases > 0) khz_put(took, (double)(new_began - began) / 1e9);
    khz_put(number, ++phases);
    at_level = new_level;
    began = new_began;
    new_rows = 0;
    return 1;
}
