//! Splits a node's name into the ancestor's two words, base and number: `lbp12` becomes `lbp 12`. Joined, the
//! two are the name again, so different nodes never look alike.

/// The number has at most nine digits, so that it fits into 32 bits.
const DIGITS_MAX: usize = 9;

/// The base and the number after it; `None`: the name ends in no number, and -1 is printed.
pub(crate) fn split(name: &str) -> (&str, Option<&str>) {
    let bytes = name.as_bytes();
    // A base has at least one character.
    let first = bytes.iter().rposition(|b| !b.is_ascii_digit()).map_or(1, |at| at + 1);
    let mut at = first.max(bytes.len().saturating_sub(DIGITS_MAX));
    // A number has no leading zeros: they belong to the base.
    while at + 1 < bytes.len() && bytes[at] == b'0' {
        at += 1;
    }
    match name.split_at_checked(at) {
        Some((base, number)) if !number.is_empty() => (base, Some(number)),
        _ => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(name: &str) -> String {
        let (base, number) = split(name);
        format!("{base} {}", number.unwrap_or("-1"))
    }

    #[test]
    fn names_that_could_collide_stay_different() {
        for (name, expected) in [
            ("lbp12", "lbp 12"),
            ("web", "web -1"),
            ("web0", "web 0"),
            ("node7", "node 7"),
            ("node007", "node00 7"),
            ("node000", "node00 0"),
            ("7", "7 -1"),
            ("77", "7 7"),
            ("n7.example.org", "n7.example.org -1"),
            ("n123456789", "n 123456789"),
            ("n1234567890", "n1 234567890"),
            ("n1000000000", "n100000000 0"),
        ] {
            assert_eq!(shown(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn base_and_number_are_the_name_again(name in "[a-z0-9][a-z0-9.-]{0,20}") {
            let (base, number) = split(&name);
            prop_assert_eq!(format!("{base}{}", number.unwrap_or_default()), name.clone());
            prop_assert!(!base.is_empty());
            if let Some(number) = number {
                prop_assert_eq!(number.parse::<u32>().unwrap().to_string(), number);
            }
        }
    }
}
