//! Patterns that people and programs type: they compile or are refused with a column, and print as written.

#![no_main]

use khz_model::Pattern;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // The first line is the pattern, the second a name that it is held against.
    let (text, name) = text.split_once('\n').unwrap_or((text, "cpu.user"));
    match Pattern::new(text) {
        Ok(pattern) => {
            assert_eq!(pattern.to_string(), text);
            assert_eq!(Pattern::new(&pattern.to_string()).as_ref(), Ok(&pattern));
            let _ = pattern.matches_node(name);
            let _ = pattern.matches_series(name, Some(&khz_model::Instance::from_kernel(name.as_bytes())));
            if pattern.matches_series(name, None) {
                assert!(pattern.matches_metric(name));
            }
            if let Some(nodes) = pattern.nodes()
                && let Some(names) = nodes.expand()
            {
                for name in names.iter().take(1_000) {
                    assert!(nodes.matches(name), "{name} is not one of {text}");
                }
            }
        }
        Err(error) => {
            assert!(error.at <= error.text.len());
            assert!(error.to_string().contains("column"));
        }
    }
});
