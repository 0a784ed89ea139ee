/*
 * The bare loop: no agent can be much cheaper. It sleeps until the next multiple of the period in wall-clock time,
 * reads the five classic files, which it keeps open, digit-parses them and keeps the values. It answers no requests.
 * Without a port it sends nothing. With a port it sends BYTES each tick over TCP to 127.0.0.1, after it has read the
 * answer to the bytes before.
 *
 *   paced RATE [PORT BYTES]      ends on SIGTERM and prints its ticks as one JSON object
 *
 * A tick is late when it starts more than a tenth of the period (at least 100 us, at most 10 ms) after its time. It is
 * missed when the next one is already due: it is then skipped, and not repeated later.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "five.h"

static char text[TEXT_MAX], answer[256];
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

static int connected_to(int port) {
    struct sockaddr_in hub = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&hub, sizeof hub)) die("connect");
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one)) die("setsockopt");
    return fd;
}

int main(int argc, char **argv) {
    long rate = argc == 2 || argc == 4 ? atol(argv[1]) : 0;
    int hub = argc == 4 ? connected_to(atoi(argv[2])) : -1;
    size_t bytes = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (rate < 1 || rate > 1000000 || bytes > sizeof text)
        return fprintf(stderr, "usage: paced RATE [PORT BYTES]\n"), 2;
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
        if (hub >= 0) {
            (void)!recv(hub, answer, sizeof answer, MSG_DONTWAIT);
            if (send(hub, text, bytes, MSG_NOSIGNAL) < 0) die("send");
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
