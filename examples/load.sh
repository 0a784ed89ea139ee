#!/bin/sh
# Load and free memory of every node, once a second, with nc alone: load.sh [HOST [PORT [COUNT]]]
# docs/text-protocol.md tells what is said.
host=${1:-localhost} port=${2:-2709} count=${3:-0}

# '#' names the items: their masks are words 1, their names words 2. A mask of two items is the sum of their bits; asked one
# after the other nothing has to be added.
items=$(printf '#' | nc -N "$host" "$port" | grep -E '^[0-9a-f]+ (load1m|memfree) ') || exit 1
masks=$(echo "$items" | cut -d ' ' -f 1)

round=0
while [ "$count" -eq 0 ] || [ "$round" -lt "$count" ]; do
    for mask in $masks; do printf '%s\nS' "$mask"; done
    round=$((round + 1))
    [ "$round" -eq "$count" ] || sleep 1
done | nc -N "$host" "$port" | grep .
