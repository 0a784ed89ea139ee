//! Server-sent events from bytes: the `text/event-stream` of the HTML standard, section 9.2. It refuses
//! events beyond a limit. What an event means is in `piece.rs`.

use std::io::{self, BufRead, BufReader, Read};

/// The longest event that is read. The columns of half a million slots are shorter.
pub(crate) const EVENT_BYTES_MAX: usize = 64 << 20;

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its kind; "message" when it names none.
    pub name: String,
    /// Its lines of data, joined with `\n`.
    pub data: String,
}

/// Events as they come.
pub(crate) struct Events<R> {
    bytes: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> Events<R> {
    /// Reads events from `bytes`.
    pub(crate) fn new(bytes: R) -> Self {
        Events { bytes: BufReader::with_capacity(64 << 10, bytes), line: Vec::new() }
    }

    /// The next event; `None` at the end of the stream. Waits until one has come.
    pub(crate) fn next(&mut self) -> io::Result<Option<Event>> {
        let mut event = Event::default();
        let mut has_data = false;
        loop {
            if !self.read_line(EVENT_BYTES_MAX - event.data.len())? {
                // The standard drops an event that was not finished.
                return Ok(None);
            }
            let line = String::from_utf8_lossy(&self.line);
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" if line.is_empty() && has_data => return Ok(Some(event.named())),
                "" if line.is_empty() => event = Event::default(),
                "event" => value.clone_into(&mut event.name),
                "data" => {
                    if has_data {
                        event.data.push('\n');
                    }
                    event.data.push_str(value);
                    has_data = true;
                }
                // Comments keep the connection alive; `id` and `retry` are for readers that reconnect.
                _ => {}
            }
        }
    }

    /// One line without its end; false when there is none.
    fn read_line(&mut self, bytes_max: usize) -> io::Result<bool> {
        self.line.clear();
        let limit = bytes_max as u64 + 1;
        self.bytes.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
        if self.line.pop_if(|byte| *byte == b'\n').is_none() {
            if self.line.len() > bytes_max {
                let problem = format!("an event of more than {EVENT_BYTES_MAX} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
            return Ok(false);
        }
        self.line.pop_if(|byte| *byte == b'\r');
        Ok(true)
    }
}

impl Event {
    fn named(mut self) -> Self {
        if self.name.is_empty() {
            "message".clone_into(&mut self.name);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Vec<(String, String)> {
        let mut events = Events::new(text.as_bytes());
        std::iter::from_fn(|| events.next().unwrap()).map(|event| (event.name, event.data)).collect()
    }

    #[test]
    fn events_comments_and_unfinished_ends() {
        let text = ": hello\n\nevent: rows\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nevent: lost\n\nid: 7\nevent: rows\ndata: cut";
        let expected = [("rows", "{\"a\":\n1}"), ("message", "x")];
        assert_eq!(events(text), expected.map(|(name, data)| (name.to_owned(), data.to_owned())));
    }

    #[test]
    fn an_endless_line_is_refused_not_buffered() {
        let mut events = Events::new(io::repeat(b'x'));
        events.bytes = BufReader::new(io::repeat(b'x'));
        assert!(!events.read_line(10).is_ok_and(|whole| whole));
        assert_eq!(events.line.len(), 11);
    }

    #[test]
    fn bytes_that_are_not_utf8_do_no_harm() {
        let mut events = Events::new(&b"data: \xff\xfe\n\n"[..]);
        assert_eq!(events.next().unwrap().unwrap().data, "\u{fffd}\u{fffd}");
    }
}
