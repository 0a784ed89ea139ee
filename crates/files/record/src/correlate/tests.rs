//! Tests of which series move together.

use super::*;

/// numpy's coefficients, computed once; the file says how.
const NUMPY: &str = include_str!("../../tests/correlate.csv");

/// Series, lag, pairs, coefficient.
type Expected = (usize, i64, usize, f64);

fn numpy() -> (Vec<Vec<f32>>, Vec<Expected>) {
    let lines: Vec<&str> = NUMPY.lines().filter(|line| !line.starts_with('#')).collect();
    let series = lines[..4].iter().map(|line| line.split(',').map(|word| word.parse().unwrap()).collect());
    let expected = lines[4..].iter().map(|line| {
        let words: Vec<&str> = line.split(',').collect();
        (
            words[0].parse().unwrap(),
            words[1].parse().unwrap(),
            words[2].parse().unwrap(),
            words[3].parse().unwrap(),
        )
    });
    (series.collect(), expected.collect())
}

#[test]
fn every_coefficient_is_numpys() {
    let (series, all) = numpy();
    assert_eq!(all.len(), 3 * 31);
    let one = centred(&series[0]).unwrap();
    for (place, lag, pairs, expected) in all {
        let other = centred(&series[place]).unwrap();
        let (found, count) = at_lag(&one, &other, lag, 2).unwrap();
        assert_eq!(count, pairs, "series {place} at {lag}");
        assert!((found - expected).abs() < 1e-9, "series {place} at {lag}: {found}, numpy {expected}");
    }
}

#[test]
fn the_best_lag_is_the_one_with_the_largest_of_numpys_coefficients() {
    let (series, all) = numpy();
    let limits = Limits { lag: 15, ..Limits::default() };
    let others = series.iter().enumerate().skip(1).map(|(place, samples)| (place, samples.as_slice()));
    let (matches, skipped) = correlate(With { samples: &series[0], limits }, others);
    assert_eq!(skipped, Skipped::default());
    assert_eq!(matches.len(), 3);
    for found in matches {
        let of_it = all.iter().filter(|(place, ..)| *place == found.place);
        let best = of_it.max_by(|a, b| a.3.abs().total_cmp(&b.3.abs())).unwrap();
        assert_eq!((found.lag, found.pairs), (best.1, best.2), "series {}", found.place);
        let at_once = all.iter().find(|(place, lag, ..)| (*place, *lag) == (found.place, 0)).unwrap();
        assert!((found.at_once.unwrap() - at_once.3).abs() < 1e-9);
    }
    // Series 1 is 7 samples later, series 2 is 4 samples earlier and inverted.
    let (_, all) = numpy();
    let best = all[..31].iter().max_by(|a, b| a.3.abs().total_cmp(&b.3.abs())).unwrap();
    assert_eq!(best.1, 7);
}

#[test]
fn series_that_are_constant_short_or_beyond_the_limit_are_counted() {
    let one: Vec<f32> = (0..50).map(|n| (n % 7) as f32).collect();
    let constant = vec![3.0f32; 50];
    let mut short = vec![f32::NAN; 50];
    short[..4].copy_from_slice(&[1.0, 2.0, 1.0, 5.0]);
    let others = [&constant, &short, &one, &one];
    let limits = Limits { lag: 2, pairs: 2 * 5 * 50, pairs_min: 10 };
    let others = others.iter().enumerate().map(|(place, samples)| (place, samples.as_slice()));
    let (matches, skipped) = correlate(With { samples: &one, limits }, others);
    assert_eq!(skipped, Skipped { constant: 1, short: 1, work: 1 });
    assert_eq!(matches.len(), 1);
    assert_eq!((matches[0].place, matches[0].lag), (2, 0));
    assert!((matches[0].coefficient - 1.0).abs() < 1e-12);
}

#[test]
fn a_constant_reference_matches_nothing() {
    let one = vec![1.0f32; 50];
    let (matches, _) =
        correlate(With { samples: &one, limits: Limits::default() }, [(0, &one[..])].into_iter());
    assert!(matches.is_empty());
}
