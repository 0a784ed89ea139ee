/*
 * librrd in a loop: the reference for updates of many .rrd files.
 *
 *   librrd LIST    LIST has the path of a file in each line. Reads "TIME VALUES MILLISECONDS" from standard input,
 *                  updates every file once with VALUES samples from TIME on, 300 seconds apart, and prints "FILES
 *                  WALL_NS CPU_NS" until the input ends. Ignores the milliseconds: a batch is one pass over all files.
 */
#include <rrd.h>

#include "five.h"

enum { STEP = 300, SAMPLES_MAX = 64 };

/* The lines of a file, each ended by a zero, and how many they are. */
static char *lines(const char *path, long *count) {
    FILE *file = fopen(path, "r");
    if (!file || fseek(file, 0, SEEK_END)) return NULL;
    long size = ftell(file);
    char *text = malloc(size + 1);
    rewind(file);
    if (size < 0 || !text || fread(text, 1, size, file) != (size_t)size) return NULL;
    fclose(file);
    text[size] = 0;
    for (char *end = text; (end = strchr(end, '\n')); ++*count) *end++ = 0;
    return text;
}

int main(int count, char **words) {
    if (count != 2) return 2;
    long files = 0, time, samples, span;
    char *paths = lines(words[1], &files);
    if (!paths) {
        perror(words[1]);
        return 1;
    }
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
        const char *path = paths;
        for (long i = 0; i < files; i++, path += strlen(path) + 1) {
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
