//! Numbers in few characters, for the cells of a screen: `1.2M`, `45%`, `–`. The tables of other commands have room for more
//! (`show/quantities.rs`).

use super::look::Look;

/// A share in percent: `4.5`, `45`, `100`.
pub fn percent(look: Look, share: Option<f64>) -> String {
    match share.map(|share| share * 100.0) {
        None => look.unknown().to_owned(),
        Some(percent) if percent > 0.0 && percent < 9.95 => format!("{percent:.1}%"),
        Some(percent) => format!("{percent:.0}%"),
    }
}

/// Bytes, or bytes a second: `1023`, `1.2K`, `34M`.
pub fn bytes(look: Look, bytes: Option<f64>) -> String {
    const STEPS: [(f64, &str); 5] = [
        (1_125_899_906_842_624.0, "P"),
        (1_099_511_627_776.0, "T"),
        (1_073_741_824.0, "G"),
        (1_048_576.0, "M"),
        (1_024.0, "K"),
    ];
    let Some(bytes) = bytes else { return look.unknown().to_owned() };
    match STEPS.into_iter().find(|(step, _)| bytes.abs() >= *step) {
        Some((step, sign)) if bytes.abs() / step < 9.95 => format!("{:.1}{sign}", bytes / step),
        Some((step, sign)) => format!("{:.0}{sign}", bytes / step),
        None => format!("{bytes:.0}"),
    }
}

/// A count: `0.52`, `12.3`, `1234`, `12k`.
pub fn count(look: Look, count: Option<f64>) -> String {
    match count {
        None => look.unknown().to_owned(),
        Some(count) if count.abs() < 10.0 && count.fract() != 0.0 => format!("{count:.2}"),
        Some(count) if count.abs() < 100.0 && count.fract() != 0.0 => format!("{count:.1}"),
        Some(count) if count.abs() < 10_000.0 => format!("{count:.0}"),
        Some(count) if count.abs() < 1e7 => format!("{:.0}k", count / 1e3),
        Some(count) => format!("{:.0}M", count / 1e6),
    }
}

/// Seconds that something takes: `850us`, `1.2ms`.
pub fn span(look: Look, seconds: Option<f64>) -> String {
    seconds.map_or_else(|| look.unknown().to_owned(), crate::show::quantities::of_span)
}

#[cfg(test)]
mod tests {
    use super::super::look::Colours;
    use super::*;

    #[test]
    fn numbers_are_short_and_the_unknown_is_not_0() {
        let look = Look { colours: Colours::None, unicode: true };
        assert_eq!(
            [Some(0.0), Some(0.004), Some(0.5), Some(1.0), None].map(|share| percent(look, share)),
            ["0%", "0.4%", "50%", "100%", "–"]
        );
        assert_eq!(
            [Some(0.0), Some(1_023.0), Some(1_229.0), Some(2e9), None].map(|it| bytes(look, it)),
            ["0", "1023", "1.2K", "1.9G", "–"]
        );
        assert_eq!(
            [Some(0.0), Some(0.52), Some(12.34), Some(12_345.0), None].map(|it| count(look, it)),
            ["0", "0.52", "12.3", "12k", "–"]
        );
    }
}
