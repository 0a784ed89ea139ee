//! Lines of jobs: refused with a reason, or read; what is read is printed by doors so that it is published as the same.

#![no_main]

use khz_gather::publication::{Publication, with_defaults};
use khz_model::{Nanos, Reading, SeriesName};

const NOW: Nanos = Nanos::from_secs(1_763_690_000);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    let publication = match Publication::read(line) {
        Ok(publication) => publication,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if let Err(error) = publication.check(NOW) {
        assert!(!error.to_string().is_empty());
    }
    let Ok(said) = publication.describe() else { return };
    let bits = publication.number.bits(said.format, said.kind).expect("what is described fits");
    let value = said.format.value(Reading::Present(bits)).expect("a number");
    let name = SeriesName { node: None, metric: said.name.as_str().into(), instance: said.instance.clone() };
    let printed = format!("{name}={value}");
    let options = format!("kind={} type={} unit={}", said.kind, said.format.value_type.as_str(), said.unit);
    let printed = with_defaults(&printed, &options, None);
    let again = match Publication::read(&printed) {
        Ok(again) => again,
        // Escapes make it longer.
        Err(error) => return assert!(printed.len() > khz_gather::DATAGRAM_MAX, "{printed}: {error}"),
    };
    let same = again.describe().expect(&printed);
    assert_eq!((&same.name, &same.instance, same.kind, same.unit), (&said.name, &said.instance, said.kind, said.unit));
    assert_eq!((same.format, again.number.bits(said.format, said.kind)), (said.format, Ok(bits)), "{printed}");
});
