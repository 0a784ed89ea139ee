//! A small machine: busybox, khz, and the modules of the kernel that it is given. It has nothing that a distribution
//! starts.

use crate::debian::Kernel;
use crate::image::Image;

/// The first process of such a machine. Modules are there only where it has a network.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
ip link set lo up
for name in $(cat /modules/order); do insmod /modules/$name; done
exec console
"#;

/// What a network between guest and host needs, each after what it builds on.
pub const NETWORK: [&str; 8] = [
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
];

/// QEMU's words for a network in which the host's loopback is 10.0.2.2. It needs no rights.
pub const NETWORK_OF_QEMU: [&str; 4] =
    ["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="];

/// What a guest says to take part in that network.
pub const JOIN_NETWORK: &str = "ip link set eth0 up && ip address add 10.0.2.15/24 dev eth0";

/// The kernel's words that start it.
pub const KERNEL_WORDS: &str = "rdinit=/init";

/// Its file system. It loads the modules in their order.
pub fn image(name: &str, kernel: &Kernel, modules: &[&str]) -> Image {
    let machine_id = "0123456789abcdef0123456789abcdef\n";
    let mut image = Image::new(name).with_shell().with_khz("bin/khz");
    image = image.with_program("init", INIT).with_text("etc/machine-id", machine_id);
    let mut order = String::new();
    for module in modules {
        let file = module.rsplit('/').next().unwrap_or(module);
        image = image.with_copy(&kernel.modules.join("kernel").join(module), &format!("modules/{file}"));
        order += &format!("{file}\n");
    }
    image.with_text("modules/order", &order)
}
