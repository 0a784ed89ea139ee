//! Which of many numbers is odd: few others are near it. What counts is the distance to a few nearest neighbours, not to the median: where
//! half of a cluster works and half is free, neither half is odd. `khz top` and `khz why` compare nodes with it.

/// Numbers that there must be before one of them can be odd: of two, nobody knows which one.
const NODES_MIN: usize = 3;
/// A number is odd that is this many times as far from its neighbours as is usual.
pub const ODD_MIN: f64 = 5.0;
/// Numbers that are alike are not odd if they are more than this share of all, or more than two.
const NEIGHBOURS: usize = 20;

/// Of each number how many times as far it is from its neighbours as is usual, or as `least`; below 0 if it is lower than most. `None`:
/// there is no number, or there are fewer than `few` of them.
pub fn distances(numbers: &[Option<f64>], least: f64, few: usize) -> Vec<Option<f64>> {
    let mut known: Vec<f64> = numbers.iter().flatten().copied().collect();
    if known.len() < few.max(NODES_MIN) {
        return vec![None; numbers.len()];
    }
    known.sort_by(f64::total_cmp);
    let middle = known[known.len() / 2];
    // Of three, the one that is far from two has one neighbour less.
    let neighbours = (known.len() / NEIGHBOURS).max(2).min(known.len() - 2);
    let alone: Vec<f64> = (0..known.len()).map(|at| to_neighbour(&known, at, neighbours)).collect();
    let usual = median(alone.clone()).max(least);
    let far = |number: f64| {
        let place = known.partition_point(|other| *other < number);
        let far = alone.get(place).copied().unwrap_or(0.0) / usual;
        if number < middle { -far } else { far }
    };
    numbers.iter().map(|number| number.map(far)).collect()
}

/// The distance to the neighbour of this rank, among numbers in their order.
fn to_neighbour(known: &[f64], at: usize, rank: usize) -> f64 {
    // The nearest `rank` others and the number itself are a window of the order.
    let first = at.saturating_sub(rank);
    let windows = (first..=at).filter_map(|from| Some(known[at] - known[from]).zip(known.get(from + rank)));
    windows.map(|(below, above)| below.max(above - known[at])).fold(f64::INFINITY, f64::min)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_is_far_from_all_others_is_odd() {
        let mut numbers: Vec<Option<f64>> = (0..20).map(|at| Some(0.2 + f64::from(at) / 1_000.0)).collect();
        numbers.push(Some(0.9));
        numbers.push(None);
        let far = distances(&numbers, 0.03, 5);
        assert!(far[20].is_some_and(|far| far > 20.0) && far[21].is_none(), "{far:?}");
        assert!(far[..20].iter().flatten().all(|far| far.abs() < 1.0));
    }

    #[test]
    fn two_halves_that_do_different_things_are_not_odd_and_one_between_them_is() {
        let mut numbers: Vec<Option<f64>> =
            (0..40).map(|at| Some(if at % 2 == 0 { 0.01 } else { 0.95 })).collect();
        numbers.push(Some(0.5));
        let far = distances(&numbers, 0.03, 5);
        assert!(far[..40].iter().flatten().all(|far| far.abs() < 1.0), "{far:?}");
        assert!(far[40].is_some_and(|far| far.abs() > ODD_MIN));
    }

    #[test]
    fn among_a_few_nobody_is_odd_and_equal_ones_are_not_either() {
        assert_eq!(distances(&[Some(0.0), Some(0.0), Some(1.0)], 0.1, 5), [None, None, None]);
        let same = vec![Some(0.5); 9];
        assert!(distances(&same, 0.03, 5).iter().flatten().all(|far| *far == 0.0));
    }

    #[test]
    fn of_three_and_of_four_the_one_that_is_far_from_the_others_is_odd() {
        for numbers in
            [&[Some(0.1), Some(0.12), Some(0.9)][..], &[Some(0.1), Some(0.12), Some(0.11), Some(0.9)]]
        {
            let far = distances(numbers, 0.03, 3);
            let (last, others) = far.split_last().unwrap();
            assert!(last.is_some_and(|far| far > ODD_MIN), "{far:?}");
            assert!(others.iter().flatten().all(|far| far.abs() < ODD_MIN), "{far:?}");
        }
        assert_eq!(distances(&[Some(0.0), Some(1.0)], 0.03, 2), [None, None], "two are only different");
    }
}
