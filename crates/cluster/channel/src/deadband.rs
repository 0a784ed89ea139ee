//! A deadband as people write it: `5%`, `10MiB`, or both. Gives what nodes take.

use khz_plan::Deadband;

use crate::amount::amount;

/// Reads a deadband: an absolute difference in the unit of the values, a share of what was sent last, or both.
///
/// # Errors
/// Returns what is wrong with it.
pub(crate) fn read(text: &str) -> Result<Deadband, String> {
    let (mut absolute, mut relative) = (None, None);
    for part in parts(text) {
        let (place, value) = match part.strip_suffix('%') {
            Some(share) => (&mut relative, amount(share, None)? / 100.0),
            None => (&mut absolute, amount(part, None)?),
        };
        if value < 0.0 {
            return Err(format!("'{part}' is below 0"));
        }
        if place.replace(value).is_some() {
            return Err(format!(
                "'{text}' has two of a kind: write a share (5%), a difference (10MiB), or both"
            ));
        }
    }
    match (absolute, relative) {
        (None, None) => Err("it is empty: write a share (5%), a difference (10MiB), or both".to_owned()),
        _ => Ok(Deadband { absolute: absolute.unwrap_or(0.0), relative: relative.unwrap_or(0.0) }),
    }
}

/// The quantities in a deadband.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',']).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadband_is_a_share_a_difference_or_both() {
        for (text, absolute, relative) in
            [("5%", 0.0, 0.05), ("1KiB", 1_024.0, 0.0), ("5% 10ms", 0.01, 0.05), ("2,0.5%", 2.0, 0.005)]
        {
            assert_eq!(read(text), Ok(Deadband { absolute, relative }), "{text}");
        }
        for (text, problem) in [
            ("", "empty"),
            ("5% 6%", "two of a kind"),
            ("1 2", "two of a kind"),
            ("-5%", "below 0"),
            ("x", "no number"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
