//! `khz certs`: makes a small CA, certificates and tokens, and says what to copy where. It copies nothing.

mod authority;
pub mod flags;
mod show;

use std::io::Write;
use std::path::{Path, PathBuf};

use khz_model::NodeName;
use khz_trust::{Identity, Role};

use self::authority::{Authority, Issued};
use self::flags::{CertsCommand, CertsFlags, Folder, Leaf, Place};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::terminal;

/// Runs the command below `khz certs`.
pub fn run(flags: CertsFlags, out: &mut impl Write) -> Outcome {
    match flags.command {
        CertsCommand::Init { place } => init(&place, out)?,
        CertsCommand::Hub { name, hosts, term, place } => {
            let hosts = if hosts.is_empty() { vec![name.to_string()] } else { hosts };
            issue(Role::Hub, &name, &hosts, term.days, &place, out)?;
        }
        CertsCommand::Node(leaf) => of_caller(Role::Node, &leaf, out)?,
        CertsCommand::Reader(leaf) => of_caller(Role::Reader, &leaf, out)?,
        CertsCommand::Operator(leaf) => of_caller(Role::Operator, &leaf, out)?,
        CertsCommand::Token { role, name, folder } => {
            let token = Authority::new(usual(&folder)?, false).token(&Identity { role, name })?;
            // Alone on stdout, so that it can be redirected into a file.
            writeln!(out, "{token}")?;
        }
        CertsCommand::Show { files, json, folder } => {
            return show::print(&files, &usual(&folder)?, json, terminal::width(), out);
        }
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn init(place: &Place, out: &mut impl Write) -> Result<(), Failure> {
    let authority = Authority::new(usual(&place.folder)?, place.force);
    let (ca, cluster_key) = authority.init()?;
    writeln!(out, "{}  the CA, valid until {}", ca.certificate.display(), ca.until)?;
    writeln!(out, "{}  its key: anyone who has it can make certificates", ca.key.display())?;
    writeln!(out, "{}  the cluster key: anyone who has it can make tokens", cluster_key.display())?;
    writeln!(
        out,
        "\nCopy ca.pem to every machine, and cluster.key to hubs that accept tokens; ca.key stays here."
    )?;
    writeln!(
        out,
        "Next: khz certs hub NAME HOST...   then: khz certs node NAME, or khz certs token node NAME"
    )?;
    Ok(())
}

fn of_caller(role: Role, leaf: &Leaf, out: &mut impl Write) -> Result<(), Failure> {
    issue(role, &leaf.name, &[], leaf.term.days, &leaf.place, out)
}

fn issue(
    role: Role,
    name: &NodeName,
    hosts: &[String],
    days: u32,
    place: &Place,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let authority = Authority::new(usual(&place.folder)?, place.force);
    let identity = Identity { role, name: name.clone() };
    let Issued { certificate, key, until } = authority.issue(&identity, hosts, days)?;
    let for_hosts = if hosts.is_empty() { String::new() } else { format!(", for {}", hosts.join(", ")) };
    writeln!(
        out,
        "{}  the certificate of {identity}{for_hosts}, valid until {until}",
        certificate.display()
    )?;
    writeln!(out, "{}  its key: only {identity} may have it", key.display())?;
    let (to, end) = match role {
        Role::Hub => ("the hub", cluster_key_line(&authority)),
        Role::Node => ("the node", String::new()),
        Role::Reader | Role::Operator => ("the reader's machine", String::new()),
    };
    writeln!(
        out,
        "\nCopy both and ca.pem to {to}, the key with mode 600 for the user of khz, and set in khz.toml:"
    )?;
    writeln!(
        out,
        "  tls_cert = {:?}\n  tls_key = {:?}\n  tls_ca = {:?}{end}",
        certificate,
        key,
        authority.ca()
    )?;
    Ok(())
}

fn cluster_key_line(authority: &Authority) -> String {
    format!("\n  cluster_key = {:?}   # where tokens count as well", authority.cluster_key())
}

/// The folder that was named, or the usual one.
fn usual(folder: &Folder) -> Result<PathBuf, Failure> {
    const SYSTEM: &str = "/etc/khz/tls";
    if let Some(dir) = &folder.dir {
        return Ok(dir.clone());
    }
    if rustix::process::geteuid().is_root() {
        return Ok(SYSTEM.into());
    }
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    config.map(|config| config.join(Path::new("khz/tls"))).ok_or_else(|| {
        Failure::usage("neither HOME nor XDG_CONFIG_HOME says where; name a folder with --dir")
    })
}
