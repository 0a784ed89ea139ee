#!/bin/bash
# A machine of the examples' own: the root of this one below a layer that takes what is written, networks, names and processes
# apart. In it run a hub, nodes with `khz simulate`'s names, this machine as a node; then each example as it stands.
# Arguments: the folder of this run, the khz to run, the repository.
set -e
place=$1 khz=$2 repository=$3
mkdir -p "$place/layer"
mount -t tmpfs lab "$place/layer"
mkdir "$place"/layer/{upper,work,root}
root=$place/layer/root
mount -t overlay lab -o "lowerdir=/,upperdir=$place/layer/upper,workdir=$place/layer/work" "$root"
for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
# What a hub of this machine remembers is none of the lab's business.
mkdir -p "$root/var/lib/khz"
for folder in dev/shm run tmp var/lib/khz; do mount -t tmpfs lab "$root/$folder"; done
mkdir -p "$root/lab" && mount -t tmpfs lab "$root/lab"
mkdir "$root"/lab/{place,bin}
mount --bind "$place" "$root/lab/place"
ip link set lo up
hostname example
cp "$khz" "$root/lab/bin/khz"
# A copy: the repository may lie where the lab has a folder of its own, and what examples write is not for it.
cp -r "$repository/examples" "$repository/fixtures" "$root/lab/"
cp "$repository/crates/khz/tests/examples/inside.sh" "$root/lab/inside.sh"
exec chroot "$root" bash /lab/inside.sh
