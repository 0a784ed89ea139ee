# Runs in the lab: what the examples find there, and then each of them.
cd /lab
for name in ${!KHZ_@}; do unset "$name"; done
export PATH=/lab/bin:$PATH HOME=/root XDG_CONFIG_HOME=/root/.config

# Programs that stand for what a reader has.
stand_in() { printf '#!/bin/bash\n%s\n' "$2" > "/lab/$1"; chmod +x "/lab/$1"; }
stand_in bin/sudo 'exec "$@"'
stand_in bin/mpirun 'exec "$@"'
stand_in program 'sleep 1'
stand_in bin/my-job 'echo latency=0.0125 unit=seconds'
command -v nc > /dev/null || stand_in bin/nc 'exec python3 -c "
import socket, sys
from threading import Thread
host, port = sys.argv[-2:]
line = socket.create_connection((host, int(port)))
def hear():
    while data := line.recv(4096):
        sys.stdout.buffer.write(data); sys.stdout.flush()
ear = Thread(target=hear); ear.start()
while data := sys.stdin.buffer.readline(): line.sendall(data)
line.shutdown(socket.SHUT_WR); ear.join()" "$@"'

# Other machines, folders that packages make, a captured host.
echo '127.0.0.1 hub1 hub2 old1' >> /etc/hosts
mkdir -p /etc/khz /etc/bash_completion.d /root/.config/fish/completions /usr/local/share/man/man1 \
    /var/lib/{khz,rrd,munin} /srv
cp -r fixtures/linux-6.18-vm2 /srv/captured
cp -r fixtures/linux-6.18-vm2 /srv/captured-host
cat > run.toml <<'P'
match = ["cpu.*", "net.*"]
rate = "100Hz"
for = "2s"
output = "params.khzt"
P

# A program for rows in C, and the module that a compiler makes of it.
cp examples/handlers/mean.c examples/handlers/khz.h .
clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o mean.wasm mean.c

# Files of rrdtool's kind, with the data sources that the examples name: some minutes, and a day and a half.
now=$(date +%s)
khz rrd create load.rrd --start $((now - 600)) --step 5 DS:load:GAUGE:10:0:U RRA:AVERAGE:0.5:1:720
khz rrd update load.rrd $(for second in $(seq $((now - 595)) 5 $now); do echo "$second:0.$((second % 90 + 10))"; done)
khz rrd create eth0.rrd --start $((now - 130000)) --step 300 DS:in:DERIVE:600:0:U DS:out:DERIVE:600:0:U \
    RRA:AVERAGE:0.5:1:600 RRA:MAX:0.5:12:800
khz rrd update eth0.rrd $(for second in $(seq $((now - 129900)) 300 $now); do echo "$second:$((second * 1000)):$((second * 200))"; done)

until_it() { for _ in $(seq 300); do "$@" > /dev/null 2>&1 && return; sleep 0.2; done; echo "in vain: $*"; exit 1; }
begin() { "$@" > "/lab/place/${RANDOM}.log" 2>&1 < /dev/null & }
# An agent with this name, whose rows have come; $! is its process.
come() {
    khz agent --node "$1" --hub 127.0.0.1:7071 > /dev/null 2>&1 < /dev/null &
    until_it khz get "$1:mem.free"
}
# Nodes that were there and have left.
come_and_go() {
    for name; do
        come "$name"
        kill -INT $! && wait $!
        until_it bash -c "khz nodes $name --json | grep -q left"
    done
}
begin khz hub --history 16MiB
until_it khz nodes --server http://127.0.0.1:7070
# A node that was there and is down.
go_down() {
    come "$1"
    kill -KILL $!
    until_it bash -c "khz nodes $1 --json | grep -q down"
}
begin khz simulate --nodes 9 --rate 10
begin khz agent --hub 127.0.0.1:7071
begin khz agent --node node7 --hub 127.0.0.1:9 --run-dir /run/other
begin khz hub --listen 127.0.0.1:8080 --link-listen 127.0.0.1:7081 --text-listen none --run-dir /run/second \
    --source 127.0.0.1:7071
until_it khz get node1:mem.free example:mem.free
until_it khz get node7:mem.free --server http://127.0.0.1:8080
until_it test -d /dev/shm/khz/node7
for job in 4711 4712; do khz job start $job --nodes 'node[1-8]' --user ann --name solve; done
cp -r /dev/shm/khz /srv/rings
khz record 'node[1-9]:*' --hub 127.0.0.1:7071 --for 10s -o run.khzt > /lab/place/record.log 2>&1
cp run.khzt run.0001.khzt
for name in kept before after; do cp run.khzt $name.khzt; done

for file in /lab/place/examples/*; do
    example=$(cat "$file") number=${file##*/}
    alone=()
    case $example in
        # These are hubs and nodes themselves: each on a machine without others.
        khz | 'khz --'* | 'khz hub'* | 'khz agent'*)
            alone=(unshare --net bash -c 'ip link set lo up; export KHZ_RUN_DIR=/run/alone KHZ_RING_DIR=/run/alone-rings; eval "$1"' alone) ;;
        'khz export'* | 'khz plot'* | 'khz correlate'* | 'khz handler test'*) cp kept.khzt run.khzt ;;
        'khz mount /cluster'*) khz umount /cluster > /dev/null 2>&1 ;;
        'khz nodes --down'*) go_down node018 ;;
        # On a machine with a hub of its own: its nodes have the names of those that are there, and thousands of them keep a
        # hub busy long after they have ended.
        'khz simulate'*)
            alone=(unshare --net --pid --fork --kill-child --mount-proc bash -c '
                ip link set lo up; export KHZ_RUN_DIR=/run/alone KHZ_RING_DIR=/run/alone-rings
                khz hub --history 0MiB > /dev/null 2>&1 &
                until khz nodes > /dev/null 2>&1; do sleep 0.1; done
                eval "$1"' alone) ;;
        'khz nodes forget'*) come_and_go node017 old1 test1 ;;
        # Of agents that have ended.
        'khz ring rm'*)
            for name in old1 old2; do
                for there in /dev/shm/khz /srv/rings; do
                    mkdir -p "$there/$name" && cp /srv/rings/node7/base.ring "$there/$name/"
                done
            done ;;
        'khz umount /cluster') mountpoint -q /cluster || khz mount /cluster ;;
    esac
    runner=(bash -c)
    [ ${#alone[@]} -gt 0 ] && runner=("${alone[@]}")
    timeout --signal INT --kill-after 5 "${LIMIT_SECONDS:-3}" "${runner[@]}" "$example" \
        > "/lab/place/results/$number.out" 2> "/lab/place/results/$number.err" < <(sleep 60)
    echo $? > "/lab/place/results/$number.code"
    # What one example leaves is nothing that another finds.
    case $example in
        'khz nodes forget'*) khz nodes forget 'node017,old1,test1'; rm -rf /dev/shm/khz/{node017,old1,test1} ;;
        'khz nodes --down'*) khz nodes forget node018; rm -rf /dev/shm/khz/node018 ;;
        'khz ring rm'*) rm -rf {/dev/shm/khz,/srv/rings}/old[12] ;;
    esac > /dev/null 2>&1
done
