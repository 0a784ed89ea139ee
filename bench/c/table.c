/*
 * The table: a bare pread(2) of each of the five classic files, an ordinary digit parse of captured texts, and
 * both together; the C side of the ancestors' tables 2 and 3.
 *
 *   table FRAMES          reads "WAY FILE MILLISECONDS" from standard input, with WAY one of load, parse and
 *                         total and FILE 0..4, and prints "CALLS WALL_NS CPU_NS" until the input ends
 *   table FRAMES FILE N   parses N captured texts and ends: for counting instructions
 *
 * FRAMES is a directory with a file for each source: texts captured one after another, each after its
 * length in four bytes.
 */
#include <fcntl.h>
#include <unistd.h>

#include "five.h"

enum { FRAMES_MAX = 1024, BETWEEN_CLOCKS = 16 };

struct frame { char *text; uint32_t length; };

static struct frame frames[FILES][FRAMES_MAX];
static size_t frame_count[FILES], frame_next[FILES];
static int fds[FILES];
static char text[TEXT_MAX];
static uint64_t values[FILES][VALUES_MAX];
static volatile size_t sink;

static void load(int file) {
    ssize_t length = pread(fds[file], text, sizeof text, 0);
    if (length < 0) die(PATHS[file]);
    sink = length;
}

static void parse(int file) {
    struct frame *frame = &frames[file][frame_next[file]];
    frame_next[file] = frame_next[file] + 1 == frame_count[file] ? 0 : frame_next[file] + 1;
    sink = digits(frame->text, frame->length, values[file]);
}

static void total(int file) {
    ssize_t length = pread(fds[file], text, sizeof text, 0);
    if (length < 0) die(PATHS[file]);
    sink = digits(text, length, values[file]);
}

/* Loads the captured texts of one source. */
static void fetch(const char *directory, int file) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.frames", directory, file);
    FILE *in = fopen(path, "rb");
    if (!in) die(path);
    uint32_t length;
    while (frame_count[file] < FRAMES_MAX && fread(&length, sizeof length, 1, in) == 1) {
        char *copy = malloc(length + 1);
        if (!copy || fread(copy, 1, length, in) != length) die(path);
        copy[length] = 0;
        frames[file][frame_count[file]++] = (struct frame){copy, length};
    }
    fclose(in);
    if (frame_count[file] == 0) {
        fprintf(stderr, "%s: no texts in it\n", path);
        exit(1);
    }
}

static void serve(void) {
    static const struct { const char *name; void (*call)(int); } WAYS[] = {
        {"load", load}, {"parse", parse}, {"total", total},
    };
    char name[16];
    int file;
    long milliseconds;
    while (scanf("%15s %d %ld", name, &file, &milliseconds) == 3) {
        void (*call)(int) = NULL;
        for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
            if (!strcmp(WAYS[i].name, name)) call = WAYS[i].call;
        if (!call || file < 0 || file >= FILES) {
            fprintf(stderr, "table: no call '%s %d'\n", name, file);
            exit(2);
        }
        call(file);
        long count = 0;
        int64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID), start = now_ns(CLOCK_MONOTONIC), wall;
        do {
            for (int i = 0; i < BETWEEN_CLOCKS; i++) call(file);
            count += BETWEEN_CLOCKS;
        } while ((wall = now_ns(CLOCK_MONOTONIC) - start) < milliseconds * 1000000LL);
        cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
        printf("%ld %lld %lld\n", count, (long long)wall, (long long)cpu);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 4) return fprintf(stderr, "usage: table FRAMES [FILE N]\n"), 2;
    for (int file = 0; file < FILES; file++) {
        fds[file] = open(PATHS[file], O_RDONLY | O_CLOEXEC);
        if (fds[file] < 0) die(PATHS[file]);
        fetch(argv[1], file);
    }
    if (argc == 2) return serve(), 0;
    int file = atoi(argv[2]);
    if (file < 0 || file >= FILES) return fprintf(stderr, "table: FILE is 0..%d\n", FILES - 1), 2;
    for (long i = atol(argv[3]); i > 0; i--) parse(file);
    return 0;
}
