/* An outlier filter: sends a row when a series is more than five times as far from its usual value as is usual for it, and says which. The
 * usual value and distance are means that forget slowly. A counter is compared by its growth a second. */
#include "khz.h"

#define SERIES_MAX 256
#define ROWS_TO_LEARN 30
#define FORGET 0.02
#define FAR 5.0

KHZ_ROOM(SERIES_MAX)
static struct { double last, usual, distance; int64_t time; int rows, is_counter; } known[SERIES_MAX];
static int which, how_far;

int khz_begin(int series) {
    which = khz_output("series", 6);
    how_far = khz_output("times", 5);
    for (int at = 0; at < series; at++) {
        known[at].rows = 0;
        known[at].time = 0;
        known[at].is_counter = khz_is_counter(at);
    }
    return 0;
}

/* The number of a series in this row; 0: it has none yet. */
static int number(uint32_t at, double *value) {
    double now = khz.values[at], before = known[at].last;
    int64_t time = known[at].time;
    known[at].last = now;
    known[at].time = khz.time;
    *value = now;
    if (!known[at].is_counter) return 1;
    if (time == 0 || khz.time <= time || now < before) return 0;
    *value = (now - before) * 1e9 / (double)(khz.time - time);
    return 1;
}

int khz_row(void) {
    double farthest = 0;
    for (uint32_t at = 0; at < khz.count; at++) {
        double value;
        if (!KHZ_HAS(at) || !number(at, &value)) continue;
        double off = value - known[at].usual;
        if (off < 0) off = -off;
        /* The first row says what is usual, the next ones how much that varies. */
        double least = known[at].usual < 0 ? -known[at].usual * 1e-3 : known[at].usual * 1e-3;
        double usual = known[at].distance > least ? known[at].distance : least;
        double times = usual > 0 ? off / usual : off > 0 ? 1e9 : 0;
        if (known[at].rows >= ROWS_TO_LEARN && times > FAR && times > farthest) {
            farthest = times;
            khz_put(which, at);
            khz_put(how_far, times);
        }
        double weight = known[at].rows < ROWS_TO_LEARN ? 1.0 / (known[at].rows + 1) : FORGET;
        if (known[at].rows > 0) known[at].distance += (off - known[at].distance) * weight;
        known[at].usual += (value - known[at].usual) * weight;
        known[at].rows++;
    }
    return farthest > 0;
}
