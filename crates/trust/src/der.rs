//! DER, as far as a certificate needs it: one element after another, tag and content. It copies nothing, and
//! refuses indefinite lengths and tags of several bytes, which DER certificates do not have where we look.

/// An element: its tag and what is in it.
pub(crate) type Element<'a> = (u8, &'a [u8]);

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const OID: u8 = 0x06;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERAL_TIME: u8 = 0x18;

/// Elements one after another; ends where the bytes end or make no sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements<'a>(pub &'a [u8]);

impl<'a> Elements<'a> {
    /// The next element if it has this tag; the content of it.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// The next element if it has this tag; any other stays where it is.
    pub(crate) fn skip_if(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            let _ = self.next();
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (length, rest) = length(rest)?;
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        // A tag number of 31 says that the tag goes on.
        (tag & 0x1f != 0x1f).then_some((tag, content))
    }
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    match first {
        0..=0x7f => Some((first.into(), rest)),
        // 1 to 3 bytes of length follow: 16 MiB are more than any certificate has.
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            Some((length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_and_long_lengths_are_read_others_end_it() {
        let long = [&[4, 0x81, 200][..], &[7; 200]].concat();
        assert_eq!(Elements(&long).collect::<Vec<_>>(), [(4, &[7; 200][..])]);
        assert_eq!(Elements(&[5, 0, 4, 1, 9]).collect::<Vec<_>>(), [(5, &[][..]), (4, &[9][..])]);
        for bytes in [&[4][..], &[4, 2, 1], &[4, 0x80, 0, 0], &[4, 0x84, 0, 0, 0, 1, 1], &[0x1f, 1, 1]] {
            assert_eq!(Elements(bytes).next(), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_end(bytes: Vec<u8>) {
            prop_assert!(Elements(&bytes).count() <= bytes.len());
        }
    }
}
