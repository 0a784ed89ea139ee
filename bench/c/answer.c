/* The least cost of an answer: for each byte that comes, reads the named files with one pread each and answers with as
 * many bytes as a status of five items has. One connection, one thread, no parsing. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FILES_MAX = 8, ANSWER = 128 };

int main(int count, char **names) {
    static char text[1 << 16], answer[ANSWER];
    int files[FILES_MAX], known = 0, one = 1;
    for (int i = 1; i < count && known < FILES_MAX; i++)
        if ((files[known++] = open(names[i], O_RDONLY)) < 0) return perror(names[i]), 1;
    memset(answer, 'x', ANSWER - 2);
    memset(answer + ANSWER - 2, '\n', 2);

    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof place;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(door, (void *)&place, length) || listen(door, 1) || getsockname(door, (void *)&place, &length))
        return perror("answer"), 1;
    printf("%d\n", ntohs(place.sin_port));
    fflush(stdout);

    int client = accept(door, NULL, NULL);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (char byte; recv(client, &byte, 1, 0) == 1;) {
        for (int i = 0; i < known; i++)
            if (pread(files[i], text, sizeof text, 0) < 0) return perror(names[i + 1]), 1;
        if (send(client, answer, ANSWER, 0) != ANSWER) return 1;
    }
    return 0;
}
