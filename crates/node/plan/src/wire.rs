//! A plan as bytes, and back (docs/plan.md). A reader keeps the limits, whatever the bytes are.

use khz_block::varint;
use khz_model::Nanos;

use crate::error::PlanError;
use crate::limits::{
    ALTERNATIVES_MAX, CONDITIONS_MAX, GROUPING_LABELS_MAX, PLAN_BYTES, STEPS_MAX, TEXT_BYTES,
};
use crate::plan::{
    Aggregate, Aggregator, Combine, Condition, Form, Grouping, Many, Matching, Math, Operator, Over, Plan,
    Selector, Step, StepId, Test,
};

/// The version of these bytes.
const VERSION: u8 = 1;

impl Plan {
    /// Appends the plan.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        varint::put(out, self.steps().len() as u64);
        self.steps().iter().for_each(|step| put_step(step, out));
    }

    /// The plan that is these bytes, all of them.
    ///
    /// # Errors
    /// Returns where the bytes are damaged, or which limit the plan exceeds.
    pub fn take(bytes: &[u8]) -> Result<Self, PlanError> {
        if bytes.len() > PLAN_BYTES {
            return Err(PlanError::TooMuch { what: "bytes", limit: PLAN_BYTES });
        }
        let mut reader = Reader::new(bytes);
        match reader.byte()? {
            VERSION => {}
            version => return Err(PlanError::Version { version }),
        }
        let steps = reader.list("steps", STEPS_MAX, Reader::step)?;
        if !reader.is_empty() {
            return Err(reader.damaged());
        }
        Plan::new(steps)
    }
}

fn put_step(step: &Step, out: &mut Vec<u8>) {
    match step {
        Step::Number(number) => {
            out.push(0);
            put_f64(*number, out);
        }
        Step::Time => out.push(1),
        Step::Series(selector) => {
            out.push(2);
            put_selector(selector, out);
        }
        Step::Window { selector, length, over } => {
            out.push(3);
            put_selector(selector, out);
            varint::put(out, length.0);
            put_over(*over, out);
        }
        Step::Math(math, of) => {
            out.push(4);
            put_id(*of, out);
            put_math(*math, out);
        }
        Step::Combine(combine) => {
            out.extend([5, number_of(&OPERATORS, &combine.operator), u8::from(combine.is_bool)]);
            put_id(combine.left, out);
            put_id(combine.right, out);
            out.push(number_of(&MANY, &combine.matching.many));
            put_grouping(&combine.matching.grouping, out);
            put_texts(&combine.matching.include, out);
        }
        Step::Aggregate(aggregate) => {
            out.push(6);
            put_id(aggregate.of, out);
            put_grouping(&aggregate.grouping, out);
            put_aggregator(aggregate.aggregator, out);
        }
    }
}

// Each entry has its number beside it. A number is never given to another entry: nodes of other versions know it.

const OPERATORS: [(u8, Operator); 16] = [
    (0, Operator::Add),
    (1, Operator::Subtract),
    (2, Operator::Multiply),
    (3, Operator::Divide),
    (4, Operator::Modulo),
    (5, Operator::Power),
    (6, Operator::Atan2),
    (7, Operator::Equal),
    (8, Operator::NotEqual),
    (9, Operator::Less),
    (10, Operator::LessEqual),
    (11, Operator::Greater),
    (12, Operator::GreaterEqual),
    (13, Operator::And),
    (14, Operator::Or),
    (15, Operator::Unless),
];

const MANY: [(u8, Many); 3] = [(0, Many::Neither), (1, Many::Left), (2, Many::Right)];

/// Those without a parameter.
const OVER: [(u8, Over); 18] = [
    (0, Over::Rate),
    (1, Over::Increase),
    (2, Over::Delta),
    (3, Over::Irate),
    (4, Over::Idelta),
    (5, Over::Deriv),
    (6, Over::Changes),
    (7, Over::Resets),
    (8, Over::Sum),
    (9, Over::Avg),
    (10, Over::Min),
    (11, Over::Max),
    (12, Over::Count),
    (13, Over::First),
    (14, Over::Last),
    (15, Over::Present),
    (16, Over::Stddev),
    (17, Over::Stdvar),
];
const OVER_QUANTILE: u8 = 18;

/// Those without a parameter.
const MATH: [(u8, Math); 10] = [
    (0, Math::Negate),
    (1, Math::Abs),
    (2, Math::Ceil),
    (3, Math::Floor),
    (4, Math::Sqrt),
    (5, Math::Ln),
    (6, Math::Exp),
    (7, Math::Log2),
    (8, Math::Log10),
    (9, Math::Sgn),
];
const ROUND: u8 = 10;
const CLAMP: u8 = 11;
const CLAMP_MIN: u8 = 12;
const CLAMP_MAX: u8 = 13;

/// Those without a parameter.
const AGGREGATORS: [(u8, Aggregator); 8] = [
    (0, Aggregator::Sum),
    (1, Aggregator::Avg),
    (2, Aggregator::Min),
    (3, Aggregator::Max),
    (4, Aggregator::Count),
    (5, Aggregator::Group),
    (6, Aggregator::Stddev),
    (7, Aggregator::Stdvar),
];
const QUANTILE: u8 = 8;
const TOPK: u8 = 9;
const BOTTOMK: u8 = 10;

/// The number of an entry.
fn number_of<T: PartialEq>(list: &[(u8, T)], wanted: &T) -> u8 {
    list.iter().find(|(_, entry)| entry == wanted).expect("BUG: the list has every variant").0
}

pub(crate) fn put_over(over: Over, out: &mut Vec<u8>) {
    match over {
        Over::Quantile(phi) => {
            out.push(OVER_QUANTILE);
            put_f64(phi, out);
        }
        over => out.push(number_of(&OVER, &over)),
    }
}

fn put_math(math: Math, out: &mut Vec<u8>) {
    let (kind, numbers) = match math {
        Math::Round(to) => (ROUND, vec![to]),
        Math::Clamp(low, high) => (CLAMP, vec![low, high]),
        Math::AtLeast(low) => (CLAMP_MIN, vec![low]),
        Math::AtMost(high) => (CLAMP_MAX, vec![high]),
        math => (number_of(&MATH, &math), Vec::new()),
    };
    out.push(kind);
    numbers.into_iter().for_each(|number| put_f64(number, out));
}

fn put_aggregator(aggregator: Aggregator, out: &mut Vec<u8>) {
    match aggregator {
        Aggregator::Quantile(phi) => {
            out.push(QUANTILE);
            put_f64(phi, out);
        }
        Aggregator::Topk(count) => {
            out.push(TOPK);
            varint::put(out, u64::from(count));
        }
        Aggregator::Bottomk(count) => {
            out.push(BOTTOMK);
            varint::put(out, u64::from(count));
        }
        aggregator => out.push(number_of(&AGGREGATORS, &aggregator)),
    }
}

fn put_selector(selector: &Selector, out: &mut Vec<u8>) {
    out.push(u8::from(selector.form == Form::Own));
    varint::put(out, selector.conditions.len() as u64);
    for Condition { label, test } in &selector.conditions {
        put_text(label, out);
        match test {
            Test::Is(text) => put_alternatives(0, std::slice::from_ref(text), out),
            Test::IsNot(text) => put_alternatives(1, std::slice::from_ref(text), out),
            Test::Fits(globs) => put_alternatives(2, globs, out),
            Test::FitsNot(globs) => put_alternatives(3, globs, out),
        }
    }
}

fn put_alternatives(kind: u8, texts: &[String], out: &mut Vec<u8>) {
    out.push(kind);
    put_texts(texts, out);
}

fn put_grouping(grouping: &Grouping, out: &mut Vec<u8>) {
    out.push(u8::from(grouping.is_without));
    put_texts(&grouping.labels, out);
}

fn put_texts(texts: &[String], out: &mut Vec<u8>) {
    varint::put(out, texts.len() as u64);
    texts.iter().for_each(|text| put_text(text, out));
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    varint::put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_id(id: StepId, out: &mut Vec<u8>) {
    varint::put(out, u64::from(id.0));
}

pub(crate) fn put_f64(number: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_bits().to_le_bytes());
}

/// Bytes that are read.
pub(crate) struct Reader<'a> {
    whole: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { whole: bytes.len(), rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next bytes, as many as this.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], PlanError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(bytes)
    }

    pub fn damaged(&self) -> PlanError {
        PlanError::Damaged { offset: self.whole - self.rest.len() }
    }

    pub fn byte(&mut self) -> Result<u8, PlanError> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(byte)
    }

    pub fn varint(&mut self) -> Result<u64, PlanError> {
        let (number, rest) = varint::get(self.rest).ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(number)
    }

    pub fn f64(&mut self) -> Result<f64, PlanError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(f64::from_bits(u64::from_le_bytes(*bytes)))
    }

    pub fn flag(&mut self) -> Result<bool, PlanError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged()),
        }
    }

    /// An entry of a list, by its number.
    fn of<T: Copy>(&self, list: &[(u8, T)], number: u8) -> Result<T, PlanError> {
        list.iter().find(|(of, _)| *of == number).map(|(_, entry)| *entry).ok_or_else(|| self.damaged())
    }

    fn list<T>(
        &mut self,
        what: &'static str,
        limit: usize,
        mut take: impl FnMut(&mut Self) -> Result<T, PlanError>,
    ) -> Result<Vec<T>, PlanError> {
        let count = usize::try_from(self.varint()?).ok().filter(|count| *count <= limit);
        let count = count.ok_or(PlanError::TooMuch { what, limit })?;
        (0..count).map(|_| take(self)).collect()
    }

    fn text(&mut self) -> Result<String, PlanError> {
        let length = usize::try_from(self.varint()?).ok().filter(|length| *length <= TEXT_BYTES);
        let length = length.ok_or(PlanError::TooMuch { what: "bytes in a text", limit: TEXT_BYTES })?;
        let text = str::from_utf8(self.bytes(length)?).map_err(|_| self.damaged())?;
        Ok(text.to_owned())
    }

    fn id(&mut self) -> Result<StepId, PlanError> {
        u16::try_from(self.varint()?).map(StepId).map_err(|_| self.damaged())
    }

    fn step(&mut self) -> Result<Step, PlanError> {
        Ok(match self.byte()? {
            0 => Step::Number(self.f64()?),
            1 => Step::Time,
            2 => Step::Series(self.selector()?),
            3 => {
                let (selector, length) = (self.selector()?, Nanos(self.varint()?));
                Step::Window { selector, length, over: self.over()? }
            }
            4 => {
                let of = self.id()?;
                Step::Math(self.math()?, of)
            }
            5 => Step::Combine(self.combine()?),
            6 => {
                let (of, grouping) = (self.id()?, self.grouping()?);
                Step::Aggregate(Aggregate { aggregator: self.aggregator()?, grouping, of })
            }
            _ => return Err(self.damaged()),
        })
    }

    fn combine(&mut self) -> Result<Combine, PlanError> {
        let operator = self.byte()?;
        let (operator, is_bool) = (self.of(&OPERATORS, operator)?, self.flag()?);
        let (left, right) = (self.id()?, self.id()?);
        let many = self.byte()?;
        let (many, grouping) = (self.of(&MANY, many)?, self.grouping()?);
        let include = self.list("labels", GROUPING_LABELS_MAX, Self::text)?;
        Ok(Combine { operator, is_bool, matching: Matching { grouping, many, include }, left, right })
    }

    fn selector(&mut self) -> Result<Selector, PlanError> {
        let form = if self.flag()? { Form::Own } else { Form::Exposed };
        let conditions = self.list("conditions of a selector", CONDITIONS_MAX, Self::condition)?;
        Ok(Selector { form, conditions })
    }

    fn condition(&mut self) -> Result<Condition, PlanError> {
        let (label, kind) = (self.text()?, self.byte()?);
        let mut texts = self.list("alternatives of a condition", ALTERNATIVES_MAX, Self::text)?;
        let test = match (kind, texts.len()) {
            (0, 1) => Test::Is(texts.remove(0)),
            (1, 1) => Test::IsNot(texts.remove(0)),
            (2, _) => Test::Fits(texts),
            (3, _) => Test::FitsNot(texts),
            _ => return Err(self.damaged()),
        };
        Ok(Condition { label, test })
    }

    fn grouping(&mut self) -> Result<Grouping, PlanError> {
        Ok(Grouping {
            is_without: self.flag()?,
            labels: self.list("labels", GROUPING_LABELS_MAX, Self::text)?,
        })
    }

    pub fn over(&mut self) -> Result<Over, PlanError> {
        match self.byte()? {
            OVER_QUANTILE => Ok(Over::Quantile(self.f64()?)),
            kind => self.of(&OVER, kind),
        }
    }

    fn math(&mut self) -> Result<Math, PlanError> {
        Ok(match self.byte()? {
            ROUND => Math::Round(self.f64()?),
            CLAMP => Math::Clamp(self.f64()?, self.f64()?),
            CLAMP_MIN => Math::AtLeast(self.f64()?),
            CLAMP_MAX => Math::AtMost(self.f64()?),
            kind => self.of(&MATH, kind)?,
        })
    }

    fn aggregator(&mut self) -> Result<Aggregator, PlanError> {
        let count = |reader: &mut Self| u32::try_from(reader.varint()?).map_err(|_| reader.damaged());
        Ok(match self.byte()? {
            QUANTILE => Aggregator::Quantile(self.f64()?),
            TOPK => Aggregator::Topk(count(self)?),
            BOTTOMK => Aggregator::Bottomk(count(self)?),
            kind => self.of(&AGGREGATORS, kind)?,
        })
    }
}

#[cfg(test)]
mod tests;
