//! Whether the units that a definition has fit what its rows have, as far as that is known. What nobody knows yet may have any unit.

use std::sync::Arc;

use khz_model::{ChannelName, Metric, Pattern, Unit, ValueType};
use khz_plan::{
    Aggregator, Combine, Form, METRIC_NAME, Math, Operator, Over, Plan, Selector, Step, StepId, Test, Values,
};

use crate::amount::{amount, unit_of};
use crate::definition::Definition;
use crate::error::ChannelError;
use crate::{deadband, each};

impl Definition {
    /// Whether its quantities are in units of the values that rows will have, where these are of metrics that `metrics` knows: in
    /// another unit no change would ever be large enough. Of several metrics, one must have the unit.
    ///
    /// # Errors
    /// Returns the quantity that fits none of them, and what to write.
    pub fn check_units(&self, metrics: impl FnOnce() -> Vec<Arc<Metric>>) -> Result<(), ChannelError> {
        let text = self.deadband.as_deref().unwrap_or_default();
        // A share fits everything.
        let parts = deadband::parts(text).filter_map(|part| Some((part, unit_of(part)?)));
        let Some((part, unit)) = { parts }.find(|(_, unit)| *unit != Unit::Percent) else { return Ok(()) };
        let values = self.values_of(&metrics());
        let misfit = values.iter().find_map(|(name, of)| Some((name, amount(part, Some(*of)).err()?)));
        match misfit {
            Some((name, problem)) if values.iter().all(|(_, of)| *of != unit) => {
                let others = match values.len() {
                    1 => String::new(),
                    count => format!("; nor does it fit the others of these {count} metrics"),
                };
                Err(ChannelError::field("deadband", format!("{name}: {problem}{others}")))
            }
            _ => Ok(()),
        }
    }

    /// The metrics whose values rows have, of those that are known, with the units of these values.
    fn values_of(&self, known: &[Arc<Metric>]) -> Vec<(String, Unit)> {
        let numbers = known.iter().filter(|metric| metric.value_type != ValueType::Labels);
        match &self.expr {
            Some(expr) => {
                // A channel that this one uses may be of anything.
                let plan = khz_promql::compile(expr).ok();
                let selector = plan.as_ref().and_then(selected);
                let is_meant = |metric: &&Arc<Metric>| selector.is_some_and(|of| is_selected(of, metric));
                numbers.filter(is_meant).map(|metric| (metric.name.to_string(), metric.unit)).collect()
            }
            None => {
                let patterns: Vec<Pattern> = self.patterns().unwrap_or_default();
                let counts = self.each.as_deref().is_some_and(counts);
                let is_meant =
                    |metric: &&Arc<Metric>| patterns.iter().any(|one| one.matches_metric(&metric.name));
                let unit = |metric: &Metric| if counts { Unit::Count } else { metric.unit };
                numbers.filter(is_meant).map(|metric| (metric.name.to_string(), unit(metric))).collect()
            }
        }
    }
}

/// Whether a function of each series gives how many there were of something.
fn counts(each: &str) -> bool {
    matches!(each::read(each), Ok(Values::Each { over, .. }) if is_count(over))
}

/// Whether a function of a window gives a number without the unit of its samples.
fn is_count(over: Over) -> bool {
    matches!(over, Over::Count | Over::Changes | Over::Resets | Over::Present | Over::Stdvar)
}

/// The selector whose values, in their unit, the result of a plan has; `None`: it is something else, or of several selectors.
fn selected(plan: &Plan) -> Option<&Selector> {
    let last = plan.steps().len().checked_sub(1)?;
    of_step(plan.steps(), StepId(u16::try_from(last).ok()?))
}

fn of_step(steps: &[Step], id: StepId) -> Option<&Selector> {
    let of = |id| of_step(steps, id);
    match steps.get(usize::from(id.0))? {
        Step::Series(selector) => Some(selector),
        Step::Window { selector, over, .. } => match over {
            over if is_count(*over) => None,
            // A rate of bytes is in bytes a second, and written as bytes.
            _ => Some(selector),
        },
        Step::Math(math, operand) => match math {
            Math::Sqrt | Math::Ln | Math::Exp | Math::Log2 | Math::Log10 | Math::Sgn => None,
            _ => of(*operand),
        },
        Step::Combine(Combine { operator, is_bool: false, left, right, .. }) => match operator {
            Operator::Multiply
            | Operator::Divide
            | Operator::Modulo
            | Operator::Power
            | Operator::Atan2
            | Operator::Or => None,
            // What is compared, what stays, or a difference to it; the vector where the other is a number.
            _ => of(*left).or_else(|| of(*right).filter(|_| !operator.is_of_sets())),
        },
        Step::Aggregate(aggregate) => match aggregate.aggregator {
            Aggregator::Count | Aggregator::Group | Aggregator::Stdvar => None,
            _ => of(aggregate.of),
        },
        _ => None,
    }
}

/// Whether a selector selects a metric, by one of its names.
fn is_selected(selector: &Selector, metric: &Metric) -> bool {
    let named = selector.conditions.iter().find_map(|condition| match &condition.test {
        Test::Is(name) if condition.label == METRIC_NAME => Some(&**name),
        _ => None,
    });
    let Some(named) = named.filter(|name| !name.starts_with(ChannelName::PREFIX)) else { return false };
    match selector.form {
        Form::Own => named == metric.name,
        Form::Exposed => named == metric.exposition.name && metric.exposition.divisor == 1,
    }
}

#[cfg(test)]
mod tests {
    use khz_model::Kind;

    use super::*;

    fn metrics() -> Vec<Arc<Metric>> {
        let plain = |name: &'static str, exposed, kind, unit| Metric::plain(name, exposed, kind, unit).into();
        vec![
            plain("job.saw", "khz_job_saw", Kind::Gauge, Unit::Count),
            plain("mem.free", "node_memory_MemFree_bytes", Kind::Gauge, Unit::Bytes),
            plain("mem.huge.total", "node_memory_HugePages_Total", Kind::Gauge, Unit::Count),
            plain("net.rx_bytes", "node_network_receive_bytes_total", Kind::Counter, Unit::Bytes),
        ]
    }

    fn checked(fields: &str) -> Result<(), String> {
        let definition = Definition::from_json(format!("{{\"name\":\"a\",{fields}}}").as_bytes()).unwrap();
        definition.interest().unwrap();
        definition.check_units(metrics).map_err(|error| error.to_string())
    }

    #[test]
    fn a_deadband_is_in_the_unit_of_one_of_the_metrics_or_without_one() {
        for fields in [
            r#""series":["job.saw"],"deadband":"5""#,
            r#""series":["job.saw"],"deadband":"5%""#,
            r#""series":["job.other"],"deadband":"5GHz""#,
            r#""series":["mem.*"],"deadband":"5% 1MiB""#,
            r#""series":["job.saw","mem.free"],"deadband":"1MiB""#,
            r#""series":["net.rx_bytes"],"each":"rate 1s","deadband":"1MB""#,
            r#""expr":"node_memory_MemFree_bytes > 1e9","deadband":"1MB""#,
            r#""expr":"1e9 < sum({\"mem.free\"} - 5)","deadband":"1MB""#,
            r#""expr":"{\"mem.free\"} / {\"job.saw\"}","deadband":"1s""#,
            r#""expr":"{\"channel.b\"}","deadband":"1s""#,
            r#""expr":"{\"job.saw\"} > 5""#,
        ] {
            assert_eq!(checked(fields), Ok(()), "{fields}");
        }
        let count = "job.saw: '5GHz' does not fit: the number is a count; write it without a unit";
        let bytes = "the number is in bytes; write 512MiB, 1GiB or 2GB";
        for (fields, problem) in [
            (r#""series":["job.saw"],"deadband":"5GHz""#, count),
            (r#""series":["n1:job.*"],"deadband":"3%,5GHz""#, count),
            (r#""expr":"{\"job.saw\"}","deadband":"5GHz""#, count),
            (r#""expr":"max(khz_job_saw) > 3 and {\"mem.free\"} > 1","deadband":"5GHz""#, count),
            (r#""expr":"5 - avg_over_time({\"job.saw\"}[5s])","deadband":"5GHz""#, count),
            (r#""series":["mem.free"],"deadband":"10ms""#, bytes),
            (r#""series":["mem.*"],"deadband":"10ms""#, "nor does it fit the others of these 2 metrics"),
            (r#""series":["mem.free"],"each":"changes 1s","deadband":"1MB""#, "the number is a count"),
        ] {
            let found = checked(fields).unwrap_err();
            assert!(found.starts_with("deadband: ") && found.contains(problem), "{fields}: {found}");
        }
    }
}
