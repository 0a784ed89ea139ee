//! A handler as bytes, and back (docs/plan.md). A reader keeps the limits, whatever the bytes are.

use khz_block::varint;
use khz_model::Nanos;

use super::{Deadband, Effect, Handler, PackedProgram, RulePlan, Values, When};
use crate::error::{PlanError, most};
use crate::limits::{HANDLER_BYTES, PLAN_BYTES, RULES_MAX};
use crate::plan::Plan;
use crate::wire::{Reader, put_f64, put_over};

/// The version of these bytes.
const VERSION: u8 = 1;

impl Handler {
    /// Appends the handler.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        varint::put(out, self.every.0);
        put_values(&self.values, out);
        out.push(u8::from(self.when.is_some()));
        if let Some(when) = &self.when {
            put_plan(when.plan.as_ref(), out);
            varint::put(out, when.holds.0);
            put_plan(when.unless.as_ref(), out);
            out.extend([when.at_least, when.of, u8::from(when.once)]);
            varint::put(out, when.quiet.0);
        }
        out.push(u8::from(self.deadband.is_some()));
        if let Some(Deadband { absolute, relative }) = self.deadband {
            put_f64(absolute, out);
            put_f64(relative, out);
        }
        match self.effect {
            Effect::LeavesOut => out.push(0),
            Effect::SlowsDown(times) => {
                out.push(1);
                varint::put(out, u64::from(times));
            }
            Effect::Surrounds { before, after } => {
                out.push(2);
                varint::put(out, before.0);
                varint::put(out, after.0);
            }
        }
    }

    /// The bytes of it.
    ///
    /// # Errors
    /// Returns why every node would refuse it.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PlanError> {
        let mut bytes = Vec::new();
        self.put(&mut bytes);
        // It also checks the size.
        Handler::take(&bytes)?;
        Ok(bytes)
    }

    /// The handler that is these bytes, all of them.
    ///
    /// # Errors
    /// Returns where the bytes are damaged, or which limit the handler exceeds.
    pub fn take(bytes: &[u8]) -> Result<Self, PlanError> {
        if bytes.len() > HANDLER_BYTES {
            return Err(PlanError::Handler { problem: "has more than 32 KiB" });
        }
        let mut reader = Reader::new(bytes);
        match reader.byte()? {
            VERSION => {}
            version => return Err(PlanError::Version { version }),
        }
        let every = Nanos(reader.varint()?);
        let values = take_values(&mut reader)?;
        let when = if reader.flag()? { Some(take_when(&mut reader)?) } else { None };
        let deadband = match reader.flag()? {
            true => Some(Deadband { absolute: reader.f64()?, relative: reader.f64()? }),
            false => None,
        };
        let effect = take_effect(&mut reader)?;
        if !reader.is_empty() {
            return Err(reader.damaged());
        }
        let handler = Handler { values, when, deadband, every, effect };
        handler.check()?;
        Ok(handler)
    }
}

fn put_values(values: &Values, out: &mut Vec<u8>) {
    match values {
        Values::Readings => out.push(0),
        Values::Plan(plan) => {
            out.push(1);
            put_plan(Some(plan), out);
        }
        Values::Each { over, length } => {
            out.push(2);
            varint::put(out, length.0);
            put_over(*over, out);
        }
        Values::Histogram { length } => {
            out.push(3);
            varint::put(out, length.0);
        }
        Values::Rules(rules) => {
            out.push(4);
            varint::put(out, rules.len() as u64);
            for RulePlan { plan, holds, keeps } in rules {
                varint::put(out, holds.0);
                varint::put(out, keeps.0);
                put_plan(Some(plan), out);
            }
        }
        Values::Program(PackedProgram { hash, packed }) => {
            out.push(5);
            out.extend_from_slice(hash);
            varint::put(out, packed.len() as u64);
            out.extend_from_slice(packed);
        }
    }
}

fn take_values(reader: &mut Reader<'_>) -> Result<Values, PlanError> {
    Ok(match reader.byte()? {
        0 => Values::Readings,
        1 => Values::Plan(take_plan(reader)?.ok_or_else(|| reader.damaged())?),
        2 => {
            let length = Nanos(reader.varint()?);
            Values::Each { over: reader.over()?, length }
        }
        3 => Values::Histogram { length: Nanos(reader.varint()?) },
        4 => Values::Rules(take_rules(reader)?),
        5 => Values::Program(take_program(reader)?),
        _ => return Err(reader.damaged()),
    })
}

fn take_rules(reader: &mut Reader<'_>) -> Result<Vec<RulePlan>, PlanError> {
    let count = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    most("rules", count, RULES_MAX)?;
    let mut rules = Vec::new();
    for _ in 0..count {
        let (holds, keeps) = (Nanos(reader.varint()?), Nanos(reader.varint()?));
        rules.push(RulePlan { plan: take_plan(reader)?.ok_or_else(|| reader.damaged())?, holds, keeps });
    }
    Ok(rules)
}

fn take_program(reader: &mut Reader<'_>) -> Result<PackedProgram, PlanError> {
    let hash = reader.bytes(32)?.first_chunk().copied().ok_or_else(|| reader.damaged())?;
    let length = usize::try_from(reader.varint()?).map_err(|_| reader.damaged())?;
    Ok(PackedProgram { hash, packed: reader.bytes(length)?.into() })
}

fn take_effect(reader: &mut Reader<'_>) -> Result<Effect, PlanError> {
    Ok(match reader.byte()? {
        0 => Effect::LeavesOut,
        1 => Effect::SlowsDown(u32::try_from(reader.varint()?).map_err(|_| reader.damaged())?),
        2 => Effect::Surrounds { before: Nanos(reader.varint()?), after: Nanos(reader.varint()?) },
        _ => return Err(reader.damaged()),
    })
}

fn take_when(reader: &mut Reader<'_>) -> Result<When, PlanError> {
    let plan = take_plan(reader)?;
    let holds = Nanos(reader.varint()?);
    let unless = take_plan(reader)?;
    let (at_least, of, once) = (reader.byte()?, reader.byte()?, reader.flag()?);
    Ok(When { plan, holds, unless, at_least, of, once, quiet: Nanos(reader.varint()?) })
}

/// A plan with its length before it; 0: none.
fn put_plan(plan: Option<&Plan>, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    if let Some(plan) = plan {
        plan.put(&mut bytes);
    }
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(&bytes);
}

fn take_plan(reader: &mut Reader<'_>) -> Result<Option<Plan>, PlanError> {
    let length = reader.varint()?;
    if length == 0 {
        return Ok(None);
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= PLAN_BYTES);
    let length = length.ok_or(PlanError::TooMuch { what: "bytes", limit: PLAN_BYTES })?;
    Plan::take(reader.bytes(length)?).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Math, Over, Step, StepId};
    use proptest::prelude::*;

    fn plan() -> impl Strategy<Value = Option<Plan>> {
        let steps = prop_oneof![
            Just(vec![Step::Time]),
            Just(vec![Step::Number(4.0), Step::Math(Math::Abs, StepId(0))])
        ];
        prop::option::of(steps.prop_map(|steps| Plan::new(steps).unwrap()))
    }

    fn values() -> impl Strategy<Value = Values> {
        let each = (1u64..400_000, 0.0..1.0).prop_map(|(ms, phi)| {
            let over = if ms % 2 == 0 { Over::Avg } else { Over::Quantile(phi) };
            Values::Each { over, length: Nanos::from_millis(ms) }
        });
        let planned = plan().prop_map(|plan| plan.map_or(Values::Readings, Values::Plan));
        let histogram = (1u64..400_000).prop_map(|ms| Values::Histogram { length: Nanos::from_millis(ms) });
        let rule = (plan(), 0u64..1 << 47, 0u64..1 << 47)
            .prop_filter_map("a plan", |(plan, holds, keeps)| {
                Some(RulePlan { plan: plan?, holds: Nanos(holds), keeps: Nanos(keeps) })
            });
        let rules = prop::collection::vec(rule, 0..4).prop_map(Values::Rules);
        let program = (any::<[u8; 32]>(), prop::collection::vec(any::<u8>(), 0..2_000))
            .prop_map(|(hash, packed)| Values::Program(PackedProgram { hash, packed: packed.into() }));
        prop_oneof![planned, each, histogram, rules, program]
    }

    fn effect() -> impl Strategy<Value = Effect> {
        let around = (0u64..1 << 39, 0u64..1 << 39);
        prop_oneof![
            Just(Effect::LeavesOut),
            (1u32..200_000).prop_map(Effect::SlowsDown),
            around
                .prop_map(|(before, after)| Effect::Surrounds { before: Nanos(before), after: Nanos(after) })
        ]
    }

    fn when() -> impl Strategy<Value = When> {
        let times = (0u64..1 << 47, 0u64..1 << 47);
        (plan(), plan(), times, 1u8..=64, 1u8..=64, any::<bool>()).prop_map(
            |(plan, unless, (holds, quiet), one, other, once)| When {
                plan,
                holds: Nanos(holds),
                unless,
                at_least: one.min(other),
                of: one.max(other),
                once,
                quiet: Nanos(if once { quiet } else { 0 }),
            },
        )
    }

    proptest! {
        #[test]
        fn a_handler_is_read_back(
            values in values(),
            when in prop::option::of(when()),
            band in prop::option::of((0.0..1e9, 0.0..1e9)),
            every in prop_oneof![Just(0u64), 0u64..1 << 46],
            effect in effect(),
        ) {
            let deadband = band.map(|(absolute, relative)| Deadband { absolute, relative });
            let handler = Handler { values, when, deadband, every: Nanos(every), effect };
            let mut bytes = Vec::new();
            handler.put(&mut bytes);
            match handler.check() {
                Ok(()) => prop_assert_eq!(Handler::take(&bytes), Ok(handler)),
                Err(problem) => prop_assert_eq!(Handler::take(&bytes), Err(problem)),
            }
        }

        #[test]
        fn any_bytes_are_a_handler_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Handler::take(&bytes);
            let _ = Handler::take(&[&[VERSION, 0][..], &bytes].concat());
        }
    }

    #[test]
    fn bytes_that_end_early_or_late_are_refused() {
        let values = Values::Plan(Plan::new(vec![Step::Time]).unwrap());
        let whole = Handler { values, when: Some(When::default()), ..Handler::default() }.to_bytes().unwrap();
        for length in 0..whole.len() {
            assert!(Handler::take(&whole[..length]).is_err(), "{length}");
        }
        assert!(Handler::take(&[&whole[..], &[0]].concat()).is_err());
        assert_eq!(Handler::take(&[2]), Err(PlanError::Version { version: 2 }));
    }
}
