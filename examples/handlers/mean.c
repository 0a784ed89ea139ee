/* The mean of all series of a row, and how many there are. */
#include "khz.h"

KHZ_ROOM(1024)
static int mean, count;

int khz_begin(int series) {
    mean = khz_output("mean", 4);
    count = khz_output("count", 5);
    return series == 0;
}

int khz_row(void) {
    double sum = 0;
    int present = 0;
    for (uint32_t at = 0; at < khz.count; at++)
        if (KHZ_HAS(at)) {
            sum += khz.values[at];
            present++;
        }
    if (present > 0) khz_put(mean, sum / present);
    khz_put(count, present);
    return 1;
}
