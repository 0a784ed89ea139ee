//! What systemd is told: that we are ready, that we live, that we end. Started by anybody else, it tells nobody.
//! It refuses to know more of systemd than its datagrams (sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// We answer from now on.
pub fn ready() {
    tell("READY=1");
}

/// We have been asked to end, and do.
pub fn stopping() {
    tell("STOPPING=1");
}

/// Says that the doors' thread lives, twice in the time that systemd grants; never ends.
pub async fn keep_alive() {
    let Some(period) = watchdog_period() else { return std::future::pending().await };
    loop {
        tell("WATCHDOG=1");
        tokio::time::sleep(period).await;
    }
}

/// Half the time after which systemd takes us for dead, if it watches us.
fn watchdog_period() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let micros = number("WATCHDOG_USEC").filter(|micros| *micros > 0 && is_meant)?;
    Some(Duration::from_micros(micros / 2))
}

fn tell(state: &str) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&address, state) {
        tracing::warn!("systemd was not told {state}: {error}");
    }
}

fn send(address: &OsStr, state: &str) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
