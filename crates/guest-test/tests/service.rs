//! The units in packaging/ under a real systemd as first process: installed as the documentation says, started, killed.

#![allow(clippy::unwrap_used)]

use khz_guest_test::guest::Guest;
use khz_guest_test::image::Image;
use khz_guest_test::{debian, root, until};

/// The shell that the test speaks to.
const CONSOLE: &str = "\
[Unit]
Description=The test's shell
[Service]
ExecStart=/bin/console
Restart=always
[Install]
WantedBy=multi-user.target
";

#[test]
#[ignore = "slow: boots a machine of its own"]
fn explore() {
    let image = Image::new("service").lay_over(&debian::whole("systemd"));
    let image = image
        .without(&["usr/share/doc", "usr/share/locale", "usr/share/man", "usr/lib/x86_64-linux-gnu/gconv"])
        .with_shell()
        .with_khz("root/khz")
        .with_text("etc/systemd/system/console.service", CONSOLE)
        .with_link("../console.service", "etc/systemd/system/multi-user.target.wants/console.service")
        .with_link("/dev/null", "etc/systemd/system/getty.target")
        .with_text("etc/hostname", "n1\n")
        .with_text("etc/machine-id", "")
        .with_folder(&root().join("packaging"), "root/packaging");
    let image = image.with_link("lib/systemd/systemd", "init").pack();
    let kernel = debian::kernel();
    let words = "rdinit=/init systemd.getty_auto=no systemd.unit=multi-user.target";
    let mut guest = Guest::boot(&kernel, image, 256, words, &[]);
    for line in std::fs::read_to_string("/tmp/guest-try/lines").unwrap().lines() {
        let done = guest.run(line);
        println!("$ {line}\n{}[{}]", done.text, done.code);
    }
    until("x", || true);
}
