//! Whether bytes can be one JSON object, by its brackets: so an answer that was cut, or that something follows, is noticed
//! without holding it. Does not check what is between them.

/// Deeper than any answer of an engine.
const DEPTH_MAX: u32 = 64;

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brackets {
    depth: u32,
    is_text: bool,
    is_escaped: bool,
    is_closed: bool,
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
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => true,
            _ if self.is_closed => false,
            b'{' | b'[' => {
                // It begins with an object.
                let may_open = self.depth > 0 || byte == b'{';
                self.depth += 1;
                may_open && self.depth <= DEPTH_MAX
            }
            _ if self.depth == 0 => false,
            b'}' | b']' => {
                self.depth -= 1;
                self.is_closed = self.depth == 0;
                true
            }
            b'"' => {
                self.is_text = true;
                true
            }
            _ => true,
        }
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
