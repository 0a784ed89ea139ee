/*
 * The ladder: four ways to gather /proc/meminfo, each better than the one before, as the ancestors climbed it.
 *
 *   char   open, read(2) one byte at a time, allocate a name and a number for each line, close
 *   block  open, read the file in one block, allocate and convert as before, close
 *   plain  open, read in one block, only note where each value is, close
 *   kept   the same with the file kept open: pread(2) from its beginning
 *
 * Reads "WAY MILLISECONDS" from standard input and prints "GATHERS WALL_NS CPU_NS" until it ends, so that the
 * harness can interleave it with others.
 */
#include <fcntl.h>
#include <unistd.h>

#include "five.h"

enum { LINES_MAX = 256, BETWEEN_CLOCKS = 8 };

struct entry { char *name; uint64_t value; };          /* a line in "char" and "block" */
struct place { const char *digits; uint32_t length; }; /* a line in "plain" and "kept" */

static const char *path = "/proc/meminfo";
static char text[TEXT_MAX];
static struct entry entries[LINES_MAX];
static struct place places[LINES_MAX];
static size_t lines;
static int kept_open;

static int opened(void) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) die(path);
    return fd;
}

/* Allocates the name and converts the number of one line; the line ends in 0. */
static void keep(char *line) {
    char *colon = strchr(line, ':');
    if (!colon || lines == LINES_MAX) return;
    *colon = 0;
    entries[lines].name = strdup(line);
    entries[lines].value = strtoull(colon + 1, NULL, 10);
    lines++;
}

static void forget(void) {
    while (lines > 0) free(entries[--lines].name);
}

static void by_character(void) {
    char line[256], byte;
    size_t length = 0;
    int fd = opened();
    forget();
    while (read(fd, &byte, 1) == 1) {
        if (byte != '\n') {
            if (length < sizeof line - 1) line[length++] = byte;
            continue;
        }
        line[length] = 0;
        keep(line);
        length = 0;
    }
    close(fd);
}

static void by_block(void) {
    int fd = opened();
    ssize_t length = read(fd, text, sizeof text - 1);
    if (length < 0) die(path);
    text[length] = 0;
    forget();
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) keep(line);
    close(fd);
}

/* Notes where the value of each line is; converts nothing. */
static void locate(size_t length) {
    const char *at = text, *end = text + length;
    lines = 0;
    while (at < end && lines < LINES_MAX) {
        const char *colon = memchr(at, ':', end - at);
        if (!colon) break;
        const char *digit = colon + 1;
        while (digit < end && *digit == ' ') digit++;
        const char *stop = digit;
        while (stop < end && *stop >= '0' && *stop <= '9') stop++;
        places[lines].digits = digit;
        places[lines++].length = stop - digit;
        const char *newline = memchr(stop, '\n', end - stop);
        at = newline ? newline + 1 : end;
    }
}

static void plainly(void) {
    int fd = opened();
    ssize_t length = read(fd, text, sizeof text);
    if (length < 0) die(path);
    locate(length);
    close(fd);
}

static void kept(void) {
    ssize_t length = pread(kept_open, text, sizeof text, 0);
    if (length < 0) die(path);
    locate(length);
}

int main(void) {
    static const struct { const char *name; void (*gather)(void); } WAYS[] = {
        {"char", by_character}, {"block", by_block}, {"plain", plainly}, {"kept", kept},
    };
    char name[16];
    long milliseconds;
    kept_open = opened();
    while (scanf("%15s %ld", name, &milliseconds) == 2) {
        void (*gather)(void) = NULL;
        for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
            if (!strcmp(WAYS[i].name, name)) gather = WAYS[i].gather;
        if (!gather) return fprintf(stderr, "ladder: no way called '%s'\n", name), 2;
        lines = 0; /* the places of one way are not the entries of another */
        gather();
        long count = 0;
        int64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID), start = now_ns(CLOCK_MONOTONIC), wall;
        do {
            for (int i = 0; i < BETWEEN_CLOCKS; i++) gather();
            count += BETWEEN_CLOCKS;
        } while ((wall = now_ns(CLOCK_MONOTONIC) - start) < milliseconds * 1000000LL);
        cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
        if (gather == by_character || gather == by_block) forget();
        printf("%ld %lld %lld\n", count, (long long)wall, (long long)cpu);
        fflush(stdout);
    }
    return 0;
}
