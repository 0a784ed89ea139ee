//! Serves the page of a made-up cluster, for developers of the page.
//!
//! `cargo run -p khz-browser-test --bin cluster -- [NODES] [ADDRESS:PORT]`

use std::net::SocketAddr;

use khz_browser_test::cluster::Cluster;
use khz_browser_test::door::OpenDoor;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let wrong = || -> ! {
        eprintln!("usage: cluster [NODES] [ADDRESS:PORT]");
        std::process::exit(2);
    };
    let nodes = arguments.next().map_or(4_096, |text| text.parse().unwrap_or_else(|_| wrong()));
    let address = arguments
        .next()
        .map_or(SocketAddr::from(([127, 0, 0, 1], 7070)), |text| text.parse().unwrap_or_else(|_| wrong()));
    let door = OpenDoor::open(&Cluster::new(nodes), address);
    println!("{nodes} made-up nodes at {}", door.url());
    loop {
        std::thread::park();
    }
}
