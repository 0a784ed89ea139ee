//! Series names: what is read is printed so that it is read again, and selects itself as a pattern.

#![no_main]

use khz_model::{Instance, Pattern, SeriesName};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let instance = Instance::from_kernel(bytes);
    assert_eq!(Instance::parse(&instance.to_string()).as_ref(), Ok(&instance));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match SeriesName::parse(text) {
        Ok(name) => {
            let written = name.to_string();
            assert_eq!(SeriesName::parse(&written).as_ref(), Ok(&name));
            let Ok(pattern) = Pattern::new(&written) else {
                // Only its length may be against it.
                return assert!(written.len() > khz_model::pattern::PATTERN_MAX, "{written} is no pattern");
            };
            assert!(name.node.is_none_or(|node| pattern.matches_node(node.as_str())), "{written}");
            assert!(pattern.matches_series(&name.metric, name.instance.as_ref()), "{written} does not select itself");
        }
        Err(error) => {
            assert!(error.at <= error.text.len());
            assert!(error.to_string().contains("column"));
        }
    }
});
