//! A node on which interfaces come and go by the thousand: the agent starts again instead of growing for ever.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use crate::process::{Running, code, khz, out};

const HEAD: &str = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";

fn net_dev(interfaces: impl Iterator<Item = String>) -> String {
    let line = |name: String| format!("{name}: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    HEAD.to_owned() + &interfaces.map(line).collect::<String>()
}

#[test]
fn an_agent_whose_interfaces_are_gone_starts_again_with_the_same_rings() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("worn-{}", std::process::id()));
    let (text, rings) = (root.join("proc/net/dev"), root.join("rings"));
    std::fs::create_dir_all(text.parent().unwrap()).unwrap();
    std::fs::write(&text, net_dev((0..2_200).map(|n| format!("veth{n:04x}")))).unwrap();
    let variables = [("KHZ_RING_DIR", rings.to_str().unwrap())];
    let words = ["--root", root.to_str().unwrap(), "--cpu-max", "100%"];
    let mut running = Running::start_in(&variables, &words);
    let show = || {
        let shown = khz(&["ring", "show", "--node", "n1", "--json"])
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        assert_eq!(code(&shown), 0, "{shown:?}");
        let lanes = out(&shown);
        let base = lanes.lines().find(|line| line.contains("\"base\"")).expect("a base lane").to_owned();
        let number = |field: &str| -> u64 {
            let (_, rest) = base.split_once(&format!("\"{field}\":")).expect(&base);
            let rest = rest.trim_start_matches([' ', '"']);
            rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap()].parse().unwrap()
        };
        (number("generation"), number("slots"))
    };
    let until = |is_so: &dyn Fn(u64) -> bool| {
        let shown = (0..600).find_map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            Some(show()).filter(|(_, slots)| is_so(*slots))
        });
        shown.expect("rows come")
    };
    let (generation, _) = until(&|slots| slots > 35_000);
    std::fs::write(&text, net_dev(["eth0".to_owned()].into_iter())).unwrap();
    // It announces itself again: the same process, another start.
    let mut line = String::new();
    BufReader::new(running.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("http://127.0.0.1:"), "{line}");
    assert!(running.child.try_wait().unwrap().is_none());
    let (renewed, _) = until(&|slots| (1..1_000).contains(&slots));
    assert_eq!(renewed, generation + 1);
    let (code, message) = running.end("TERM");
    assert_eq!(code, Some(0));
    assert!(message.contains("beginning again"), "{message}");
    std::fs::remove_dir_all(root).unwrap();
}
