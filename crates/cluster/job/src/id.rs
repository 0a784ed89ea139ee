//! The id of a job: what one may be. It stands in patterns, labels, paths and names of control groups, so it has few characters.

use khz_model::printable::printable;

use crate::error::JobError;
use crate::limits::{ID_BYTES_MAX, NAME_BYTES_MAX};

/// Characters of a wrong id that an error repeats.
const SHOWN_CHARS_MAX: usize = 80;

/// Checks an id.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_id(id: &str) -> Result<(), JobError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@[]".contains(&byte);
    let problem = match id {
        "" => "it is empty",
        _ if id.len() > ID_BYTES_MAX => "it is too long",
        _ if !id.bytes().all(fits) => "it has a character that an id cannot have",
        // In a path such a part is none.
        "." | ".." => "it is a part of a path",
        _ => return Ok(()),
    };
    let shown: String = printable(id).chars().take(SHOWN_CHARS_MAX).collect();
    Err(JobError::Id { shown, problem })
}

/// A name that somebody gave, as it is kept: what cannot be printed is replaced, and what is too long is cut. A job does not fail because
/// of its name.
pub(crate) fn name(text: &str) -> String {
    let mut name = printable(text.trim()).into_owned();
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_batch_systems_are_ids_and_anything_else_is_refused_with_the_reason() {
        for id in ["4711", "4711_3", "123[4].server", "sABC-1", "a+b@c"] {
            assert!(check_id(id).is_ok(), "{id}");
        }
        let long = "1".repeat(ID_BYTES_MAX + 1);
        for id in
            ["", "a b", "a:b", "a(b", "a)", "a,b", "a/b", "..", "a\u{1b}[2J", "ä", "a*", "a?", "a\"", &long]
        {
            let error = check_id(id).unwrap_err().to_string();
            assert!(error.contains("is no id of a job") && !error.contains('\u{1b}'), "{error}");
            assert!(error.len() < 300, "{error}");
        }
    }

    #[test]
    fn a_name_is_cut_and_printable() {
        assert_eq!(name(" my job\n"), "my job");
        assert!(!name("a\u{1b}[31m").contains('\u{1b}'));
        assert!(name(&"ä".repeat(500)).len() <= NAME_BYTES_MAX);
    }
}
