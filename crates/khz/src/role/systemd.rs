//! Messages to systemd: that the process is ready, lives, and ends (sd_notify(3)). Without NOTIFY_SOCKET nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The doors answer from now on.
pub fn ready() {
    send("READY=1");
}

/// The process ends, because it was asked to.
pub fn stopping() {
    send("STOPPING=1");
}

/// Reports that the doors' thread lives, twice in the time that systemd allows. Never ends.
pub async fn keep_alive() {
    let Some(period) = watchdog_period() else { return std::future::pending().await };
    loop {
        send("WATCHDOG=1");
        tokio::time::sleep(period).await;
    }
}

/// Half the time after which systemd calls this process dead; `None` where it does not watch.
fn watchdog_period() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let micros = number("WATCHDOG_USEC").filter(|micros| *micros > 0 && is_meant)?;
    Some(Duration::from_micros(micros / 2))
}

fn send(state: &str) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send_to(&address, state) {
        tracing::warn!("cannot send {state} to systemd: {error}");
    }
}

fn send_to(address: &OsStr, state: &str) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
