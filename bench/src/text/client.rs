//! A client of the text door: one connection, one request after the other.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::program::failed;

/// A request without an answer for this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The five items, if a simulation of few slots has them; else others.
const ITEMS: [&str; 5] = ["load1m", "memfree", "cpualluser", "vmpageinbytes", "kernelcontextswitches"];

/// A connection to a text door.
pub struct Client {
    socket: BufReader<TcpStream>,
    answer: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn new(door: SocketAddr) -> Result<Self, BenchError> {
        let socket = TcpStream::connect(door).map_err(|e| failed("the text door", e))?;
        socket.set_nodelay(true).map_err(|e| failed("the text door", e))?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(|e| failed("the text door", e))?;
        Ok(Client { socket: BufReader::with_capacity(1 << 20, socket), answer: Vec::new() })
    }

    /// Sends a line that has no answer.
    pub fn say(&mut self, text: &str) -> Result<(), BenchError> {
        self.socket.get_mut().write_all(text.as_bytes()).map_err(|e| failed("the text door", e))
    }

    /// Sends a request and reads the answer up to its blank line.
    pub fn ask(&mut self, text: &str) -> Result<&[u8], BenchError> {
        self.say(text)?;
        self.answer.clear();
        let mut piece = vec![0; 1 << 20];
        while !(self.answer.ends_with(b"\n\n") || self.answer == b"\n") {
            match self.socket.read(&mut piece).map_err(|e| failed("the text door", e))? {
                0 => return Err(failed("the text door", "it has closed the connection")),
                read => self.answer.extend_from_slice(&piece[..read]),
            }
        }
        Ok(&self.answer)
    }

    /// Sends an extension and reads the line that answers it.
    pub fn set(&mut self, line: &str) -> Result<(), BenchError> {
        self.say(line)?;
        let mut byte = [0];
        let mut answer = Vec::new();
        while byte != *b"\n" {
            self.socket.read_exact(&mut byte).map_err(|e| failed("the text door", e))?;
            answer.push(byte[0]);
        }
        match answer.starts_with(b":ok") {
            true => Ok(()),
            false => Err(failed("the text door", String::from_utf8_lossy(&answer))),
        }
    }

    /// The mask of five items that the nodes have, and the items' names.
    pub fn five_items(&mut self) -> Result<(String, Vec<String>), BenchError> {
        let start = Instant::now();
        loop {
            let described = String::from_utf8_lossy(self.ask("#")?).into_owned();
            let items: Vec<(&str, &str)> = described.lines().skip(2).filter_map(words).collect();
            let is_one = |item: &&(&str, &str)| ITEMS.contains(&item.1);
            let mut chosen: Vec<(&str, &str)> = items.iter().filter(is_one).copied().collect();
            chosen.extend(items.iter().filter(|item| !is_one(item)).take(5 - chosen.len().min(5)));
            if chosen.len() == 5 {
                let names = chosen.iter().map(|(_, name)| (*name).to_owned()).collect();
                return Ok((sum(chosen.iter().map(|(mask, _)| *mask)), names));
            }
            if start.elapsed() > PATIENCE {
                return Err(failed("the text door", format!("no five items in {described}")));
            }
        }
    }
}

fn words(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    Some((words.next()?, words.next()?))
}

/// The sum of masks of one bit each.
fn sum<'a>(masks: impl Iterator<Item = &'a str>) -> String {
    let mut digits: Vec<u8> = Vec::new();
    for mask in masks {
        for (place, digit) in mask.bytes().rev().enumerate() {
            if digits.len() <= place {
                digits.resize(place + 1, 0);
            }
            digits[place] += digit - b'0';
        }
    }
    digits.iter().rev().map(|&digit| char::from_digit(digit.into(), 16).unwrap_or('0')).collect()
}

/// How many times a second `act` runs in this time, at least a second.
pub fn rate(span: Duration, mut act: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let start = Instant::now();
    let mut times = 0u64;
    while start.elapsed() < span {
        act()?;
        times += 1;
    }
    Ok(times as f64 / start.elapsed().as_secs_f64())
}
