//! An agent that its hubs refuse tries again and again. Each log has one line about it, not one for each attempt.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use crate::process::{Ended, Running, khz, until};
use crate::record::folder;
use crate::text::own;

/// Awaited things have happened by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn an_agent_that_two_hubs_refuse_is_one_line_in_the_log_of_each_of_the_three() {
    let folder = folder("refused");
    let key = folder.join("cluster.key");
    std::fs::write(&key, "1".repeat(64)).unwrap();
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let hubs = [(); 2].map(|()| Running::start_hub(&["--cluster-key", key.to_str().unwrap()]));
    let links = hubs.each_ref().map(Running::link);
    let log = folder.join("agent.log");
    let mut agent = khz(&["agent", "--node", "n1", "--hub", &links.join(",")]);
    agent.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let agent = Ended(agent.spawn().unwrap());
    until(PATIENCE, "both hubs have refused it three times", || {
        hubs.iter().all(|hub| own(hub, "khz_hub_refused_total") >= 3)
    });
    drop(agent);
    let message = std::fs::read_to_string(&log).unwrap();
    for link in &links {
        assert_eq!(message.matches(&format!("hub {link}: ")).count(), 1, "{message}");
    }
    for hub in hubs {
        let (_, message) = hub.end("TERM");
        assert_eq!(message.matches("stranger 127.0.0.1:").count(), 1, "{message}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}
