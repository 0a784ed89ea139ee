//! Whether bytes can be one JSON object, by its signs: so an answer that was cut, that something follows, or in which a value is
//! missing is noticed without holding it. Does not check how texts, numbers and words are written.

/// Deeper than any answer of an engine.
const DEPTH_MAX: u32 = 64;

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brackets {
    depth: u32,
    /// For each level that is open, the innermost last: 1 for an object, 0 for a list.
    objects: u64,
    before: Before,
    is_text: bool,
    is_escaped: bool,
    /// Within a number or a word.
    is_bare: bool,
    is_closed: bool,
}

/// What came last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Before {
    /// A bracket that opens, or nothing.
    #[default]
    Open,
    Key,
    Colon,
    Value,
    Comma,
}

impl Brackets {
    /// Takes the next bytes; false if they cannot belong to one object.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.take_byte(*byte))
    }

    /// True after the whole object.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn take_byte(&mut self, byte: u8) -> bool {
        if self.is_text {
            self.is_text = byte != b'"' || self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return true;
        }
        if self.is_bare && (byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')) {
            return true;
        }
        self.is_bare = false;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => true,
            _ if self.is_closed => false,
            b'{' | b'[' => self.open(byte == b'{'),
            _ if self.depth == 0 => false,
            b'}' | b']' => self.close(byte == b'}'),
            b'"' => {
                self.is_text = true;
                self.text()
            }
            b':' => self.follows(Before::Key, Before::Colon),
            b',' => self.follows(Before::Value, Before::Comma),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                self.is_bare = true;
                self.value()
            }
            _ => false,
        }
    }

    /// It begins with an object.
    fn open(&mut self, is_object: bool) -> bool {
        let may_open = if self.depth == 0 { is_object } else { self.value() };
        self.depth += 1;
        (self.objects, self.before) = (self.objects << 1 | u64::from(is_object), Before::Open);
        may_open && self.depth <= DEPTH_MAX
    }

    fn close(&mut self, is_object: bool) -> bool {
        let may_close =
            self.is_in_object() == is_object && matches!(self.before, Before::Open | Before::Value);
        self.depth -= 1;
        (self.objects, self.before, self.is_closed) = (self.objects >> 1, Before::Value, self.depth == 0);
        may_close
    }

    /// A key or a value.
    fn text(&mut self) -> bool {
        let is_key = self.is_in_object() && matches!(self.before, Before::Open | Before::Comma);
        if is_key {
            self.before = Before::Key;
        }
        is_key || self.value()
    }

    fn value(&mut self) -> bool {
        let may_begin = match self.before {
            Before::Colon => true,
            Before::Open | Before::Comma => !self.is_in_object(),
            Before::Key | Before::Value => false,
        };
        self.before = Before::Value;
        may_begin
    }

    fn follows(&mut self, before: Before, now: Before) -> bool {
        std::mem::replace(&mut self.before, now) == before
    }

    fn is_in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_whole_object_is_closed() {
        for (text, expected) in [
            (r#"{"status":"success","data":[]}"#, Some(true)),
            (" {\"a\":\"}\\\"{\"}\n", Some(true)),
            (r#"{"a":[1,2"#, Some(false)),
            (r#"{"a":"\"}"#, Some(false)),
            ("", Some(false)),
            ("[]", None),
            ("<html>", None),
            ("{}{}", None),
            ("{}x", None),
            ("}", None),
            (r#"{"status":"success","data":}"#, None),
            (r#"{"a":1,}"#, None),
            (r#"{"a":[1,]}"#, None),
            (r#"{"a":[,1]}"#, None),
            (r#"{"a":[1 2]}"#, None),
            (r#"{"a" 1}"#, None),
            (r#"{"a":"b":1}"#, None),
            (r#"{"a"}"#, None),
            (r#"{1:2}"#, None),
            (r#"{"a":[}]"#, None),
            (r#"{"a":{"b":[1,-2.5e+3,null,true,"x",[],{}]},"c":"d"}"#, Some(true)),
            (r#"{"a":[{"b":1},{"b":2}]}"#, Some(true)),
            ("{}", Some(true)),
        ] {
            // In any pieces.
            for at in 0..=text.len() {
                let (first, second) = text.as_bytes().split_at(at);
                let mut brackets = Brackets::default();
                let fits = brackets.take(first) && brackets.take(second);
                assert_eq!(fits.then_some(brackets.is_closed()), expected, "{text} at {at}");
            }
        }
        assert!(!Brackets::default().take("{".repeat(65).as_bytes()));
    }
}
