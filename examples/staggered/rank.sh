#!/bin/busybox sh
# One process of a small parallel program, on a machine that has busybox and khz, and nothing else. A launcher on the
# front end starts it there:
#
#     rank start PORT       fetches its input from the front end and unpacks it
#     rank exchange PORT    exchanges messages with the front end, as all processes do at the same time
set -eu
front_end=10.0.2.2
port=$2

# Hundredths of a second since boot. The shell reads them itself: each program that it starts costs system time.
now() {
    read -r up _ < /proc/uptime
    now=${up%.*}${up#*.}
}

# Fresh memory, page by page: work for the kernel.
unpack() {
    now
    end=$((now + 100))
    while [ "$now" -lt $end ]; do
        cat /dev/shm/input > /dev/shm/unpacked
        rm /dev/shm/unpacked
        now
    done
}

messages() {
    text=$(printf '%16383s' '')
    echo exchange
    round=0
    while [ $round -lt 25 ]; do
        echo "$text"
        sleep 0.1
        round=$((round + 1))
    done
}

case $1 in
    start)
        echo input | nc $front_end "$port" > /dev/shm/input
        unpack
        rm /dev/shm/input ;;
    exchange) messages | nc $front_end "$port" > /dev/null ;;
esac
