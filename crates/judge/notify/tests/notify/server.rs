//! A server of HTTP whose every answer a test decides.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How it treats a request.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// This status, with a text.
    Status(u16),
    /// It sends somewhere else.
    Redirect,
    /// It reads everything and never answers.
    Hang,
    /// It reads everything, says so to the test, and never answers.
    Swallow,
    /// It takes the request with status 200, and its text has no end.
    DripText,
    /// This status, and it quotes the whole request in its text.
    Quote(u16),
    /// It closes after the first bytes.
    Close,
    /// It answers a byte at a time, for ever.
    Drip,
}

/// Starts it. It treats connections in these manners, and those after the last one with status 200. Gives the address and the
/// bodies that it has taken.
pub fn start(manners: Vec<Manner>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (taken, bodies) = channel();
    std::thread::spawn(move || {
        let mut manners = manners.into_iter();
        while let Ok((mut socket, _)) = listener.accept() {
            let manner = manners.next().unwrap_or(Manner::Status(200));
            let taken = taken.clone();
            std::thread::spawn(move || treat(&mut socket, manner, &taken));
        }
    });
    (address, bodies)
}

/// Treats one connection.
fn treat(socket: &mut TcpStream, manner: Manner, taken: &Sender<String>) -> Option<()> {
    if matches!(manner, Manner::Close) {
        let _ = socket.read(&mut [0; 10]);
        return None;
    }
    let body = request(socket)?;
    if let Manner::Status(200) | Manner::Swallow | Manner::DripText = manner {
        let _ = taken.send(body.clone());
    }
    match manner {
        Manner::Status(status) => {
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 3\r\nConnection: close\r\n\r\nwhy");
            let _ = socket.write_all(answer.as_bytes());
        }
        Manner::Redirect => {
            let answer = "HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
            let _ = socket.write_all(answer.as_bytes());
        }
        Manner::Hang | Manner::Close | Manner::Swallow => _ = socket.read(&mut [0; 1]),
        Manner::Quote(status) => {
            let text = body.split_whitespace().collect::<Vec<_>>().join(" ");
            let head =
                format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
            let _ = socket.write_all(format!("{head}{text}").as_bytes());
        }
        Manner::DripText => {
            let _ = socket.write_all(b"HTTP/1.1 200 X\r\nContent-Length: 100000\r\n\r\n");
            while socket.write_all(b"a").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Manner::Drip => {
            let _ = socket.write_all(b"HTTP/1.1 200 X\r\nA: ");
            while socket.write_all(b"a").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
    Some(())
}

fn request(socket: &mut TcpStream) -> Option<String> {
    let (mut all, mut bytes) = (Vec::new(), [0; 65_536]);
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text.clone());
            }
        }
        match socket.read(&mut bytes) {
            Ok(count) if count > 0 => all.extend(&bytes[..count]),
            _ => return None,
        }
    }
}
