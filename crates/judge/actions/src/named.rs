//! The annotation by which a rule asks for actions. It holds names only. The configuration defines the actions.

use crate::limits::NAMES_MAX;

/// The annotation: names of actions, with commas between them.
pub const ANNOTATION: &str = khz_rules::ACTIONS_ANNOTATION;

/// The names in their order, each once, and not more than [`NAMES_MAX`].
pub fn names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for name in text.split([',', ' ', '\t', '\n']).filter(|name| !name.is_empty()) {
        if !names.contains(&name) && names.len() < NAMES_MAX {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_once_in_their_order_and_not_without_end() {
        assert_eq!(names("drain, diagnose-io,drain\n"), ["drain", "diagnose-io"]);
        assert!(names(" , ").is_empty());
        let many: Vec<String> = (0..99).map(|number| number.to_string()).collect();
        assert_eq!(names(&many.join(",")).len(), NAMES_MAX);
    }
}
