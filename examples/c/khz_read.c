/* khz_read FILE NAME...: prints values out of a node's snapshot, and what a read costs.
 *
 *     cc -O2 -std=gnu11 -o khz_read examples/c/khz_read.c
 *     ./khz_read /dev/shm/khz/$(hostname)/snapshot load.1m mem.free
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "khz_shm.h"

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* 52 with 2 places is 0.52. */
static void print_exactly(const char *name, int state, khz_value value) {
    uint64_t step = 1;
    const char *sign = "";
    if (state == KHZ_FLOAT) {
        printf("%s %.17g\n", name, khz_shm_double(state, &value));
        return;
    }
    if (state == KHZ_SIGNED && (int64_t)value.number < 0) {
        sign = "-";
        value.number = 0 - value.number;
    }
    for (int i = 0; i < value.places; i++)
        step *= 10;
    if (value.places == 0)
        printf("%s %s%" PRIu64 "\n", name, sign, value.number);
    else
        printf("%s %s%" PRIu64 ".%0*" PRIu64 "\n", name, sign, value.number / step, value.places, value.number % step);
}

int main(int count, char **words) {
    khz_shm shm;
    if (count < 3) {
        fprintf(stderr, "usage: khz_read FILE NAME...\n");
        return 2;
    }
    if (khz_shm_open(&shm, words[1]) != 0) {
        fprintf(stderr, "%s: %s\n", words[1], errno == EINVAL ? "not a snapshot" : strerror(errno));
        return 1;
    }
    int status = 0;
    for (int i = 2; i < count; i++) {
        khz_value value = {0};
        int64_t slot = khz_shm_find(&shm, words[i]);
        int state = khz_shm_read(&shm, slot, &value);
        if (state == KHZ_PRESENT || state == KHZ_SIGNED || state == KHZ_FLOAT) {
            print_exactly(words[i], state, value);
        } else {
            printf("%s unknown\n", words[i]);
            status = 3;
        }
    }
    if (status == 0) {
        enum { READS = 1000000 };
        khz_value value;
        int64_t slot = khz_shm_find(&shm, words[2]);
        double before = seconds();
        for (int i = 0; i < READS; i++)
            khz_shm_read(&shm, slot, &value);
        fprintf(stderr, "%.1f ns a read\n", (seconds() - before) / READS * 1e9);
    }
    khz_shm_close(&shm);
    return status;
}
