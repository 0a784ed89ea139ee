/*
 * The bare loop: what an agent cannot be cheaper than by much. It sleeps until the next multiple of the period
 * in wall-clock time, reads the five classic files, which it keeps open, digit-parses them and keeps the
 * values. It sends nothing and answers nobody.
 *
 *   paced RATE      ends on SIGTERM and prints its ticks as one JSON object
 *
 * A tick is late when it starts more than a tenth of the period (but 100 us at least, 10 ms at most) after
 * its time, and missed when the next one was already due: it is then left out, never made up for.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "five.h"

static char text[TEXT_MAX];
static uint64_t values[FILES][VALUES_MAX];
static volatile sig_atomic_t over;

static void end(int number) {
    (void)number;
    over = 1;
}

static void sleep_until(int64_t when) {
    struct timespec t = {when / 1000000000LL, when % 1000000000LL};
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL);
}

int main(int argc, char **argv) {
    long rate = argc == 2 ? atol(argv[1]) : 0;
    if (rate < 1 || rate > 1000000) return fprintf(stderr, "usage: paced RATE\n"), 2;
    int fds[FILES];
    for (int file = 0; file < FILES; file++)
        if ((fds[file] = open(PATHS[file], O_RDONLY | O_CLOEXEC)) < 0) die(PATHS[file]);
    struct sigaction action = {.sa_handler = end}; /* without SA_RESTART: the signal ends the sleep */
    sigaction(SIGTERM, &action, NULL);

    int64_t period = 1000000000LL / rate, first = 0, last = 0;
    int64_t tenth = period / 10;
    int64_t late_after = tenth < 100000 ? 100000 : tenth > 10000000 ? 10000000 : tenth;
    long ticks = 0, late = 0, missed = 0, numbers = 0;
    while (!over) {
        int64_t due = (now_ns(CLOCK_REALTIME) / period + 1) * period;
        if (last && due > last + period) missed += (due - last) / period - 1;
        sleep_until(due);
        if (over) break;
        if (now_ns(CLOCK_REALTIME) - due > late_after) late++;
        numbers = 0;
        for (int file = 0; file < FILES; file++) {
            ssize_t length = pread(fds[file], text, sizeof text, 0);
            if (length < 0) die(PATHS[file]);
            numbers += digits(text, length, values[file]);
        }
        if (!first) first = due;
        last = due;
        ticks++;
    }
    double cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
    printf("{\"ticks\":%ld,\"late\":%ld,\"missed\":%ld,\"span_ns\":%lld,\"values\":%ld,\"cpu_s\":%.9f}\n", ticks,
           late, missed, (long long)(last - first), numbers, cpu);
    return 0;
}
