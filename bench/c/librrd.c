/*
 * librrd in a loop: the reference for updates of many .rrd files.
 *
 *   librrd DIR FILES    reads "TIME VALUES MILLISECONDS" from standard input, updates every file once with VALUES
 *                       samples from TIME on, 300 seconds apart, and prints "FILES WALL_NS CPU_NS" until the input ends.
 *                       Ignores the milliseconds: a batch is one pass over all files.
 */
#include <rrd.h>

#include "five.h"

enum { STEP = 300, SAMPLES_MAX = 64, PATH_LENGTH = 512 };

int main(int count, char **words) {
    if (count != 3) return 2;
    const char *directory = words[1];
    long files = atol(words[2]), time, samples, span;
    static char texts[SAMPLES_MAX][64];
    const char *arguments[SAMPLES_MAX];
    while (scanf("%ld %ld %ld", &time, &samples, &span) == 3) {
        if (samples < 1 || samples > SAMPLES_MAX) return 2;
        for (long i = 0; i < samples; i++) {
            long t = time + i * STEP, seconds = t % 100000000;
            snprintf(texts[i], sizeof texts[i], "%ld:%ld:%ld", t, seconds * 1000, seconds * 77);
            arguments[i] = texts[i];
        }
        int64_t wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (long i = 0; i < files; i++) {
            char path[PATH_LENGTH];
            snprintf(path, sizeof path, "%s/%03ld/%ld.rrd", directory, i / 1000, i);
            if (rrd_update_r(path, NULL, samples, arguments)) {
                fprintf(stderr, "%s\n", rrd_get_error());
                return 1;
            }
        }
        cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        wall = now_ns(CLOCK_MONOTONIC) - wall;
        printf("%ld %lld %lld\n", files, (long long)wall, (long long)cpu);
        fflush(stdout);
    }
    return 0;
}
