//! One HTTP GET over loopback, enough to read our own agent's counters. Supports nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// If our agent does not answer within this time, something is wrong.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longer bodies are no answer to our requests.
const BODY_MAX: u64 = 16 << 20;

/// The body of `GET path`, if the answer is 200.
pub fn get(address: SocketAddr, path: &str) -> Result<String, BenchError> {
    get_within(address, path, PATIENCE)
}

/// The same from somebody who may take his time.
pub fn get_within(address: SocketAddr, path: &str, patience: Duration) -> Result<String, BenchError> {
    let body = fetch(address, path, "", patience)?;
    String::from_utf8(body).map_err(|e| BenchError::Reply(format!("http://{address}{path}: {e}")))
}

/// Waits until somebody who has just been started answers this with 200.
pub fn wait_for(address: SocketAddr, path: &str, patience: Duration) -> Result<(), BenchError> {
    let start = Instant::now();
    while let Err(error) = get(address, path) {
        if start.elapsed() > patience {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The body as it was sent: packed with gzip if we say that we take it so.
pub fn bytes(address: SocketAddr, path: &str, gzip: bool) -> Result<Vec<u8>, BenchError> {
    fetch(address, path, if gzip { "Accept-Encoding: gzip\r\n" } else { "" }, PATIENCE)
}

fn fetch(address: SocketAddr, path: &str, head: &str, patience: Duration) -> Result<Vec<u8>, BenchError> {
    let wrong =
        |problem: &dyn std::fmt::Display| BenchError::Reply(format!("http://{address}{path}: {problem}"));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|e| wrong(&e))?;
    stream.set_read_timeout(Some(patience)).map_err(|e| wrong(&e))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n{head}Connection: close\r\n\r\n")
        .map_err(|e| wrong(&e))?;
    let mut answer = BufReader::new(stream.take(BODY_MAX));
    let mut line = String::new();
    answer.read_line(&mut line).map_err(|e| wrong(&e))?;
    if line.split(' ').nth(1) != Some("200") {
        return Err(wrong(&line.trim()));
    }
    while line != "\r\n" {
        line.clear();
        if answer.read_line(&mut line).map_err(|e| wrong(&e))? == 0 {
            return Err(wrong(&"ends within its head"));
        }
    }
    let mut body = Vec::new();
    answer.read_to_end(&mut body).map_err(|e| wrong(&e))?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answered(answer: &'static str) -> Result<String, BenchError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let body = get(address, "/metrics");
        server.join().unwrap();
        body
    }

    #[test]
    fn the_body_comes_without_the_head_and_only_with_200() {
        assert_eq!(answered("HTTP/1.1 200 OK\r\nA: b\r\n\r\nx 1\n").unwrap(), "x 1\n");
        assert!(answered("HTTP/1.1 404 Not Found\r\n\r\n").is_err());
        assert!(answered("HTTP/1.1 200 OK\r\nA: b").is_err());
        assert!(answered("").is_err());
    }
}
