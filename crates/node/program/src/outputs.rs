//! The values that a program gives: their names, and what they are in a row.

use crate::limits::{OUTPUT_NAME_BYTES_MAX, OUTPUTS_MAX};

/// The values of a program.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    names: Vec<String>,
    values: Vec<f64>,
}

impl Outputs {
    /// None, before a program begins.
    pub fn clear(&mut self) {
        self.names.clear();
        self.values.clear();
    }

    /// The number of a value of this name, made if there is room; `None`: there is none, or the name is not good.
    pub fn name(&mut self, name: &[u8]) -> Option<usize> {
        let is_good = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/' | b':');
        let fits = (1..=OUTPUT_NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_good);
        let name = std::str::from_utf8(name).ok().filter(|_| fits)?;
        if let Some(known) = self.names.iter().position(|known| known == name) {
            return Some(known);
        }
        if self.names.len() >= OUTPUTS_MAX {
            return None;
        }
        self.names.push(name.to_owned());
        self.values.push(f64::NAN);
        Some(self.names.len() - 1)
    }

    /// All values are absent: a row begins.
    pub fn begin_row(&mut self) {
        self.values.fill(f64::NAN);
    }

    /// Gives a value; `None`: there is no such one.
    pub fn put(&mut self, output: usize, value: f64) -> Option<()> {
        *self.values.get_mut(output)? = value;
        Some(())
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The values of the row; one that is no number is absent.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_value_and_bad_names_and_too_many_are_refused() {
        let mut outputs = Outputs::default();
        assert_eq!(
            (outputs.name(b"a"), outputs.name(b"b.c[0]"), outputs.name(b"b")),
            (Some(0), None, Some(1))
        );
        assert_eq!(outputs.name(b"a"), Some(0));
        for bad in [&b""[..], b"a b", b"\xff", &[b'x'; OUTPUT_NAME_BYTES_MAX + 1]] {
            assert_eq!(outputs.name(bad), None, "{bad:?}");
        }
        (2..OUTPUTS_MAX)
            .for_each(|number| assert_eq!(outputs.name(format!("n{number}").as_bytes()), Some(number)));
        assert_eq!((outputs.name(b"more"), outputs.name(b"n7")), (None, Some(7)));
        assert_eq!((outputs.put(1, 2.0), outputs.put(OUTPUTS_MAX, 1.0)), (Some(()), None));
        assert_eq!(outputs.values()[1], 2.0);
        outputs.begin_row();
        assert!(outputs.values().iter().all(|value| value.is_nan()));
    }
}
