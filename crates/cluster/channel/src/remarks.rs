//! What is right in a definition and probably not meant, in sentences.

use khz_model::Nanos;
use khz_plan::{Combine, Operator, Over, Plan, Step, Values};

use crate::definition::Definition;
use crate::each;

impl Definition {
    /// A sentence for each thing that is right and probably not meant, with what to write instead.
    pub fn remarks(&self) -> Vec<String> {
        let is_condition = self.when.is_none() && self.slower.is_none() && !self.once;
        let plan = self.expr.as_deref().and_then(|expr| khz_promql::compile(expr).ok());
        let mut remarks = Vec::new();
        if is_condition && self.unless.is_some() && plan.is_some_and(|plan| leaves_out(&plan)) {
            remarks.push(
                "unless: a row needs a value, and 'expr' has none while its own condition is not true; for rows until 'unless' is \
                 true, give the values with 'expr' and the condition with 'when'"
                    .to_owned(),
            );
        }
        remarks.extend(self.empty_windows());
        remarks
    }

    /// Windows of functions that need two rows, and have one at most.
    fn empty_windows(&self) -> Vec<String> {
        let Ok(period) = self.rate().map(khz_model::Rate::period) else { return Vec::new() };
        let texts = [("expr", &self.expr), ("when", &self.when), ("unless", &self.unless)];
        let plans = texts.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?)));
        let mut windows: Vec<(&str, Nanos, Over)> = Vec::new();
        for (field, plan) in plans.filter_map(|(field, text)| Some((field, khz_promql::compile(text).ok()?)))
        {
            windows.extend(plan.steps().iter().filter_map(|step| match step {
                Step::Window { length, over, .. } => Some((field, *length, *over)),
                _ => None,
            }));
        }
        if let Some(Ok(Values::Each { over, length })) = self.each.as_deref().map(each::read) {
            windows.push(("each", length, over));
        }
        let is_empty = |(_, length, over): &&(&str, Nanos, Over)| needs_two_rows(*over) && *length <= period;
        let sentence = |(field, length, _): &(&str, Nanos, Over)| {
            format!(
                "{field}: a row comes every {period}, so a window of {length} never has the two rows that a value needs; take a longer window or a higher rate"
            )
        };
        let mut sentences: Vec<String> = windows.iter().filter(is_empty).map(sentence).collect();
        sentences.dedup();
        sentences
    }
}

/// Whether a window with one row gives no value.
fn needs_two_rows(over: Over) -> bool {
    matches!(over, Over::Rate | Over::Increase | Over::Delta | Over::Irate | Over::Idelta | Over::Deriv)
}

/// Whether an expression leaves out values: its last step is a condition.
fn leaves_out(plan: &Plan) -> bool {
    match plan.steps().last() {
        Some(Step::Combine(Combine { operator: Operator::And | Operator::Unless, .. })) => true,
        Some(Step::Combine(Combine { operator, is_bool, .. })) => operator.compares() && !is_bool,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unless_is_remarked_on_where_rows_would_stop_before_it() {
        for (fields, remarks) in [
            (r#""expr":"x == 105","unless":"x == 108""#, 1),
            (r#""expr":"a and b","unless":"c","for":"5s""#, 1),
            (r#""expr":"x","when":"x == 105","unless":"x == 108""#, 0),
            (r#""expr":"x == 105","unless":"x == 108","once":true"#, 0),
            (r#""expr":"x == 105","unless":"x == 108","slower":10"#, 0),
            (r#""expr":"x == bool 105","unless":"x == 108""#, 0),
            (r#""expr":"x == 105""#, 0),
            (r#""series":["a"],"when":"x == 105","unless":"x == 108""#, 0),
        ] {
            let text = format!("{{\"name\":\"a\",{fields}}}");
            let definition = Definition::from_json(text.as_bytes()).unwrap();
            definition.interest().unwrap();
            assert_eq!(definition.remarks().len(), remarks, "{fields}");
        }
    }

    #[test]
    fn a_window_that_never_has_two_rows_is_remarked_on() {
        for (fields, remarks) in [
            (r#""expr":"rate(x[500ms])""#, 1),
            (r#""expr":"rate(x[1s]) > deriv(y[1s])""#, 1),
            (r#""expr":"rate(x[2s])""#, 0),
            (r#""expr":"rate(x[500ms])","rate":"10Hz""#, 0),
            (r#""expr":"avg_over_time(x[500ms])""#, 0),
            (r#""expr":"x","when":"increase(x[4s]) > 1","rate":"5s""#, 1),
            (r#""series":["a"],"each":"rate 1s""#, 1),
            (r#""series":["a"],"each":"mean 1s""#, 0),
            (r#""series":["a"],"each":"rate 1s","rate":"2Hz""#, 0),
        ] {
            let text = format!("{{\"name\":\"a\",{fields}}}");
            let definition = Definition::from_json(text.as_bytes()).unwrap();
            definition.interest().unwrap();
            assert_eq!(definition.remarks().len(), remarks, "{fields}: {:?}", definition.remarks());
        }
    }
}
