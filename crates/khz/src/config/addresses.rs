//! Addresses in settings: where doors listen, where hubs are, their default ports, and the local address of connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::values::items;

/// Port of the link door, where an address names none.
const LINK_PORT: u16 = 7071;
/// Port of the text door, where an address names none.
const TEXT_PORT: u16 = 2709;

/// A hub's address as it is written. The name is resolved for each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAddress {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Addresses with ports, separated by commas, for a door that may stay closed: `none`.
pub(super) fn door_addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    match listen_addresses(text)? {
        addresses if addresses.is_empty() => {
            Err("it names no address; \"none\" keeps this door closed".to_owned())
        }
        addresses => Ok(addresses),
    }
}

/// The same for the link door, which a hub always has.
pub(super) fn link_addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    if text == "none" {
        return Err(
            "agents report there, so it is never closed: with 127.0.0.1:7071 only this machine reaches it"
                .into(),
        );
    }
    match listen_addresses(text)? {
        addresses if addresses.is_empty() => {
            Err("it names no address; agents report there, so it is never closed".to_owned())
        }
        addresses => Ok(addresses),
    }
}

fn listen_addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    items(text).map(listen_address).collect()
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse()
        .map_err(|_| format!("'{text}' is not an address with a port, as 127.0.0.1:7070 or [::1]:7070"))
}

/// Addresses of hubs, separated by commas.
pub fn hub_addresses(text: &str) -> Result<Vec<HubAddress>, String> {
    items(text).map(hub_address).collect()
}

/// The beginning of a source over the text protocol.
const TEXT: &str = "text://";

/// The sources that are followed over the link.
pub(super) fn source_hubs(text: &str) -> Result<Vec<HubAddress>, String> {
    items(text).filter(|item| !item.starts_with(TEXT)).map(hub_address).collect()
}

/// The sources that are asked over the text protocol.
pub(super) fn source_doors(text: &str) -> Result<Vec<HubAddress>, String> {
    items(text).filter_map(|item| item.strip_prefix(TEXT)).map(|item| address(item, TEXT_PORT)).collect()
}

/// `HOST`, `HOST:PORT`, `ADDRESS` or `[ADDRESS]:PORT`.
pub fn hub_address(text: &str) -> Result<HubAddress, String> {
    address(text, LINK_PORT)
}

fn address(text: &str, usual: u16) -> Result<HubAddress, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(HubAddress { host: address.to_string(), port: usual });
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(HubAddress { host: address.ip().to_string(), port: address.port() });
    }
    let usual = usual.to_string();
    let (host, port) = text.rsplit_once(':').unwrap_or((text, &usual));
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_name = !host.is_empty() && host.len() <= 253 && host.chars().all(fits);
    match port.parse() {
        Ok(port) if is_name && port > 0 => Ok(HubAddress { host: host.to_owned(), port }),
        _ => Err(format!("'{text}' is not the address of a hub, as hub1, hub1:7071 or [2001:db8::1]:7071")),
    }
}

/// An address without a port: the kernel chooses that.
pub fn local_address(text: &str) -> Result<Option<IpAddr>, String> {
    let wrong =
        || format!("'{text}' is not an address of this machine without a port, as 10.0.0.7 or 2001:db8::7");
    match text {
        "" => Ok(None),
        text => match text.parse::<IpAddr>() {
            Ok(address) if !address.is_multicast() => Ok((!address.is_unspecified()).then_some(address)),
            _ => Err(wrong()),
        },
    }
}

/// Host names without ports, separated by commas.
pub(super) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let hosts: Vec<String> = items(text).map(str::to_owned).collect();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let valid = |host: &String| host.chars().all(fits) || host.parse::<IpAddr>().is_ok();
    match hosts.iter().find(|host| !valid(host)) {
        None => Ok(hosts),
        Some(host) => Err(format!("'{host}' is not a host name without port, as khz.example.org")),
    }
}
