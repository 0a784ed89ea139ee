//! What is right in a definition and probably not meant, in sentences.

use khz_plan::{Combine, Operator, Plan, Step};

use crate::definition::Definition;

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
        remarks
    }
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
}
