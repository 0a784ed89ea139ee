//! Checks a definition, and compiles it to what a reader subscribes with: patterns, a rate, and a handler for the nodes.

use std::str::FromStr;
use std::sync::Arc;

use khz_model::{ChannelName, ChannelTerms, Interest, Nanos, Pattern, Rate};
use khz_plan::limits::{DURATION_MAX, SLOWER_MAX, TRUTH_ROWS_MAX, WINDOW_MAX};
use khz_plan::{Effect, Handler, METRIC_NAME, Plan, Step, Test, Values, When};
use khz_promql::{FindChannel, compile_channel};

use crate::deadband;
use crate::definition::Definition;
use crate::each;
use crate::error::ChannelError;
use crate::limits::{KEPT_RATE_MAX_HZ, SERIES_MAX, SINKS_MAX};
use crate::program;
use crate::slips;

impl Definition {
    /// What a reader of this channel subscribes with.
    ///
    /// # Errors
    /// Returns which field is wrong, and where.
    pub fn interest(&self) -> Result<Interest, ChannelError> {
        self.interest_as(&Compiler { name: &self.name, find: None })
    }

    /// The same with other channels: an expression that names one has what the expression of that one gives.
    ///
    /// # Errors
    /// As for [`Definition::interest`].
    pub fn interest_among(&self, find: &FindChannel<'_>) -> Result<Interest, ChannelError> {
        self.interest_as(&Compiler { name: &self.name, find: Some(find) })
    }

    fn interest_as(&self, compiler: &Compiler<'_>) -> Result<Interest, ChannelError> {
        let name = ChannelName::new(&self.name).map_err(|error| ChannelError::name("name", &error))?;
        self.check_together()?;
        let (field, handler) = match &self.program {
            Some(text) => ("program", self.of_program(text)?),
            None => ("expr", self.handler(compiler)?),
        };
        let bytes = handler.to_bytes().map_err(|error| ChannelError::field(field, error))?;
        let channel = Some(Arc::new(ChannelTerms { name, handler: bytes.into() }));
        Ok(Interest { channel, ..Interest::new(self.patterns()?, self.rate()?, self.exact) })
    }

    /// How often nodes gather for it.
    ///
    /// # Errors
    /// Returns what is wrong with the rate.
    pub fn rate(&self) -> Result<Rate, ChannelError> {
        let text = self.rate.as_deref().unwrap_or("1Hz");
        text.parse().map_err(|error| ChannelError::field("rate", error))
    }

    /// The series on the nodes. An expression says itself which series it needs.
    ///
    /// # Errors
    /// Returns what is wrong with nodes or series.
    pub fn patterns(&self) -> Result<Vec<Pattern>, ChannelError> {
        let wrong = |field| move |error| ChannelError::name(field, &error);
        let nodes = self.nodes.as_deref().filter(|nodes| *nodes != "*");
        if let Some(nodes) = nodes {
            let of_nodes = Pattern::of_nodes(nodes).map_err(wrong("nodes"))?;
            if self.expr.is_some() {
                return Ok(vec![of_nodes]);
            }
        }
        if self.expr.is_some() {
            return Ok(vec![Pattern::everything()]);
        }
        if self.series.len() > SERIES_MAX {
            let problem = format!("a channel has at most {SERIES_MAX} patterns; use globs, as cpu.*");
            return Err(ChannelError::field("series", problem));
        }
        let pattern = |text: &String| {
            let alone = Pattern::new(text).map_err(wrong("series"))?;
            match (nodes, alone.nodes()) {
                (None, _) => Ok(alone),
                (Some(nodes), None) => Pattern::new(&format!("{nodes}:{text}")).map_err(wrong("series")),
                (Some(_), Some(_)) => {
                    Err(ChannelError::field("series", format!("'{text}' names nodes, and so does 'nodes'")))
                }
            }
        };
        self.series.iter().map(pattern).collect()
    }

    /// How long the store is to keep its rows; `None`: not at all.
    ///
    /// # Errors
    /// Returns that it is no time.
    pub fn keep_time(&self) -> Result<Option<Nanos>, ChannelError> {
        let time = self.keep.as_deref().map(Nanos::from_str).transpose();
        match time.map_err(|error| ChannelError::field("keep", error))? {
            Some(Nanos(0)) => Err(ChannelError::field("keep", "0 keeps nothing; leave it out")),
            time => Ok(time),
        }
    }

    /// Whether the store can keep its rows.
    fn check_keep(&self) -> Result<(), ChannelError> {
        if self.keep_time()?.is_none() {
            return Ok(());
        }
        if self.expr.is_none() && self.each.is_none() && self.program.is_none() {
            let problem = "the store has these series already, out of the base lane; with 'expr' or 'each' rows have series of \
                their own, as with each = \"last 1s\"";
            return Err(ChannelError::field("keep", problem));
        }
        if self.rate()?.period() < Nanos(Nanos::SECOND.0 / KEPT_RATE_MAX_HZ) {
            let problem = format!("a channel that is kept has at most {KEPT_RATE_MAX_HZ}Hz");
            return Err(ChannelError::field("rate", problem));
        }
        Ok(())
    }

    /// The names of metrics in its expressions, each once. A name that is a regular expression is none, nor is that of another channel.
    pub fn metrics(&self) -> Vec<String> {
        let texts = [&self.expr, &self.when, &self.unless].into_iter().flatten();
        let plans: Vec<Plan> = texts.filter_map(|text| khz_promql::compile(text).ok()).collect();
        let mut names = Vec::new();
        for step in plans.iter().flat_map(Plan::steps) {
            let (Step::Series(selector) | Step::Window { selector, .. }) = step else { continue };
            let named = selector.conditions.iter().find_map(|condition| match &condition.test {
                Test::Is(name) if condition.label == METRIC_NAME => Some(name),
                _ => None,
            });
            let is_metric = |name: &&String| !name.starts_with(ChannelName::PREFIX) && !names.contains(*name);
            if let Some(name) = named.filter(is_metric) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Which fields need each other, and which exclude each other.
    fn check_together(&self) -> Result<(), ChannelError> {
        let refuse = |field, problem: &str| Err(ChannelError::field(field, problem));
        match (&self.expr, self.series.is_empty()) {
            (None, true) => return refuse("expr", "a channel needs an expression, or 'series'"),
            (Some(_), false) => {
                return refuse("series", "rows have either these series or what 'expr' gives; leave one out");
            }
            _ => {}
        }
        if self.each.is_some() && self.expr.is_some() {
            return refuse(
                "each",
                "it is for 'series'; in an expression write avg_over_time and its siblings",
            );
        }
        self.check_keep()?;
        if self.to.len() > SINKS_MAX {
            return refuse("to", &format!("a channel has at most {SINKS_MAX} sinks"));
        }
        let conditions = [
            ("for", self.holds.is_some()),
            ("unless", self.unless.is_some()),
            ("at_least", self.at_least.is_some()),
            ("once", self.once),
            ("slower", self.slower.is_some()),
            ("before", self.before.is_some()),
            ("after", self.after.is_some()),
        ];
        for (field, is_there) in conditions {
            if is_there && self.when.is_none() && self.expr.is_none() {
                return refuse(field, "there is no condition: give one with 'when'");
            }
        }
        if self.at_least.is_some() != self.of.is_some() {
            return refuse("at_least", "'at_least' and 'of' belong together: at_least 3 of 5 rows");
        }
        if let (Some(least), Some(of)) = (self.at_least, self.of)
            && (least == 0 || least > of || of > TRUTH_ROWS_MAX)
        {
            return refuse("at_least", "it is 1 up to 'of', and 'of' is at most 64");
        }
        if self.quiet.is_some() && !self.once {
            return refuse("quiet", "it needs 'once': without it rows are sent while the condition holds");
        }
        let surrounds = self.before.is_some() || self.after.is_some();
        let is_histogram = matches!(self.each.as_deref().map(each::read), Some(Ok(Values::Histogram { .. })));
        if is_histogram && self.deadband.is_some() {
            return refuse("deadband", "counts of a histogram have none; leave it out");
        }
        if surrounds && (self.expr.is_some() || self.each.is_some() || self.deadband.is_some()) {
            return refuse("before", "it is for 'series' as they are, without 'each' and 'deadband'");
        }
        if surrounds && self.every.is_some() {
            return refuse("every", "with 'before' and 'after' all rows of that time are sent; leave it out");
        }
        if self.once && (surrounds || self.slower.is_some()) {
            return refuse("once", "with 'slower', 'before' and 'after' all rows are sent; leave it out");
        }
        if self.once && self.every.is_some() {
            return refuse(
                "every",
                "with 'once' a row is sent when the condition begins to hold; leave it out",
            );
        }
        Ok(())
    }

    /// A program decides itself which rows come out, so there is nothing else to decide.
    fn of_program(&self, text: &str) -> Result<Handler, ChannelError> {
        let alone = Definition {
            name: self.name.clone(),
            nodes: self.nodes.clone(),
            series: self.series.clone(),
            program: self.program.clone(),
            rate: self.rate.clone(),
            exact: self.exact,
            keep: self.keep.clone(),
            to: self.to.clone(),
            ..Definition::default()
        };
        if *self != alone || self.series.is_empty() {
            let problem = "a channel with a program has series, nodes, rate, exact, keep and to, and nothing else: the program decides \
                itself which rows come out";
            return Err(ChannelError::field("program", problem));
        }
        let program = program::read(text).map_err(|problem| ChannelError::field("program", problem))?;
        Ok(Handler { values: Values::Program(program), ..Handler::default() })
    }

    fn handler(&self, compiler: &Compiler<'_>) -> Result<Handler, ChannelError> {
        let each = self.each.as_deref().map(each::read).transpose();
        let values = match (compiler.plan("expr", self.expr.as_deref())?, each) {
            (Some(plan), _) => Values::Plan(plan),
            (None, Ok(each)) => each.unwrap_or_default(),
            (None, Err(problem)) => return Err(ChannelError::field("each", problem)),
        };
        let deadband = self.deadband.as_deref().map(deadband::read).transpose();
        let deadband = deadband.map_err(|problem| ChannelError::field("deadband", problem))?;
        let every = span("every", self.every.as_deref())?;
        if self.every.is_some() && every == Nanos(0) {
            return Err(ChannelError::field("every", "0 leaves nothing out; leave the field out"));
        }
        Ok(Handler { values, when: self.condition(compiler)?, deadband, every, effect: self.effect()? })
    }

    /// What becomes of rows while the condition does not hold.
    fn effect(&self) -> Result<Effect, ChannelError> {
        let (before, after) =
            (span("before", self.before.as_deref())?, span("after", self.after.as_deref())?);
        if before > WINDOW_MAX {
            return Err(ChannelError::field("before", "a node keeps 5 minutes at most"));
        }
        match (self.slower, before, after) {
            (None, Nanos(0), Nanos(0)) => Ok(Effect::LeavesOut),
            (None, before, after) => Ok(Effect::Surrounds { before, after }),
            (Some(times), Nanos(0), Nanos(0)) if (2..=SLOWER_MAX).contains(&times) => {
                Ok(Effect::SlowsDown(times))
            }
            (Some(_), Nanos(0), Nanos(0)) => {
                Err(ChannelError::field("slower", format!("it is a number from 2 to {SLOWER_MAX}")))
            }
            (Some(_), ..) => {
                Err(ChannelError::field("slower", "all rows are sent then; leave out 'before' and 'after'"))
            }
        }
    }

    fn condition(&self, compiler: &Compiler<'_>) -> Result<Option<When>, ChannelError> {
        let when = When {
            plan: compiler.plan("when", self.when.as_deref())?,
            holds: span("for", self.holds.as_deref())?,
            unless: compiler.plan("unless", self.unless.as_deref())?,
            at_least: self.at_least.unwrap_or(1),
            of: self.of.unwrap_or(1),
            once: self.once,
            quiet: span("quiet", self.quiet.as_deref())?,
        };
        Ok((when != When::default()).then_some(when))
    }
}

/// Compiles the expressions of one channel.
struct Compiler<'a> {
    /// The channel's name.
    name: &'a str,
    /// Finds other channels; `None`: none can be used.
    find: Option<&'a FindChannel<'a>>,
}

impl Compiler<'_> {
    fn plan(&self, field: &'static str, text: Option<&str>) -> Result<Option<Plan>, ChannelError> {
        let Some(text) = text else { return Ok(None) };
        let compiled = match self.find {
            Some(find) => compile_channel(self.name, text, find),
            None => khz_promql::compile(text),
        };
        compiled.map(Some).map_err(|error| match slips::of_expression(text) {
            Some(slip) => ChannelError::field(field, format!("{slip}; {error}")),
            None => ChannelError::field(field, error),
        })
    }
}

fn span(field: &'static str, text: Option<&str>) -> Result<Nanos, ChannelError> {
    let span = text.map(Nanos::from_str).transpose().map_err(|error| ChannelError::field(field, error))?;
    match span.unwrap_or_default() {
        span if span > DURATION_MAX => Err(ChannelError::field(field, format!("{span} is more than a day"))),
        span => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn define(fields: &str) -> Result<Interest, ChannelError> {
        Definition::from_json(format!("{{\"name\":\"hot\",{fields}}}").as_bytes())?.interest()
    }

    fn handler(interest: &Interest) -> Handler {
        Handler::take(&interest.channel.as_ref().unwrap().handler).unwrap()
    }

    #[test]
    fn series_stay_as_they_are_and_a_condition_decides() {
        let interest = define(
            r#""nodes":"n[1-2]","series":["mem.*","load.1m"],"when":"{\"load.1m\"} > 2","for":"5s","rate":"10Hz","every":"1s""#,
        )
        .unwrap();
        let patterns: Vec<String> = interest.patterns.iter().map(ToString::to_string).collect();
        assert_eq!(patterns, ["n[1-2]:mem.*", "n[1-2]:load.1m"]);
        assert_eq!(interest.rate.to_string(), "10Hz");
        let handler = handler(&interest);
        assert!(handler.values == Values::Readings);
        assert_eq!(handler.every, Nanos::SECOND);
        let when = handler.when.unwrap();
        assert!(when.plan.is_some() && when.holds == Nanos::from_secs(5));
    }

    #[test]
    fn an_expression_gives_the_rows_and_is_the_condition() {
        let interest =
            define(r#""expr":"node_load1 > 2","unless":"node_load1 < 1","once":true,"quiet":"1m""#).unwrap();
        assert_eq!(interest.patterns[0].to_string(), "*");
        let handler = handler(&interest);
        let when = handler.when.unwrap();
        assert!(
            matches!(handler.values, Values::Plan(_))
                && when.plan.is_none()
                && when.unless.is_some()
                && when.once
        );
        assert_eq!(when.quiet, Nanos::from_secs(60));
        assert_eq!(interest.rate.to_string(), "1Hz", "once a second where nothing is said");
        let plain = define(r#""expr":"node_load1","deadband":"5% 1""#).unwrap();
        let handler = super::tests::handler(&plain);
        assert!(handler.when.is_none() && handler.deadband.is_some());
        assert_eq!(define(r#""nodes":"a,b","expr":"node_load1""#).unwrap().patterns[0].to_string(), "a,b:*");
    }

    #[test]
    fn what_is_wrong_names_the_field_and_the_place() {
        for (fields, problem) in [
            (r#""rate":"1Hz""#, "expr: a channel needs an expression"),
            (r#""expr":"b","each":"mean 1s""#, "each: it is for 'series'"),
            (r#""series":["a"],"each":"mean""#, "each: 'mean' is no function with a window"),
            (r#""series":["a"],"expr":"b""#, "series: rows have either"),
            (r#""series":["Mem"]"#, "series: a metric pattern is lower-case words"),
            (r#""series":["Mem"]"#, "(column 1 of 'Mem')"),
            (r#""series":["n1:mem.free"],"nodes":"n2""#, "series: 'n1:mem.free' names nodes"),
            (r#""nodes":"n[1-","expr":"a""#, "nodes: "),
            (r#""expr":"rate(a[10m])""#, "expr: a node keeps 5 minutes at most (1:6)"),
            (r#""expr":"sum("#, "cannot be read"),
            (r#""expr":"a > 1 && b > 2""#, "expr: write 'and' instead of '&&' (column 7); "),
            (r#""expr":"sum(""#, "expr: "),
            (r#""series":["a"],"when":"a >""#, "when: "),
            (r#""series":["a"],"for":"5s""#, "for: there is no condition"),
            (r#""series":["a"],"unless":"b""#, "unless: there is no condition"),
            (r#""series":["a"],"once":true"#, "once: there is no condition"),
            (r#""series":["a"],"at_least":1,"of":2"#, "at_least: there is no condition"),
            (r#""expr":"a","at_least":3"#, "belong together"),
            (r#""expr":"a","at_least":3,"of":2"#, "at_least: it is 1 up to 'of'"),
            (r#""expr":"a","at_least":3,"of":65"#, "at most 64"),
            (r#""expr":"a","quiet":"5s""#, "quiet: it needs 'once'"),
            (r#""expr":"a","once":true,"every":"5s""#, "every: with 'once'"),
            (r#""expr":"a","every":"5""#, "every: '5' is not a duration"),
            (r#""expr":"a","every":"0s""#, "every: 0 leaves nothing out"),
            (r#""expr":"a","for":"2d""#, "for: 172800s is more than a day"),
            (r#""expr":"a","rate":"fast""#, "rate: 'fast' is not a rate"),
            (r#""expr":"a","deadband":"5 bananas""#, "deadband: "),
            (r#""series":["a"],"each":"histogram 1s","deadband":"5%""#, "deadband: counts of a histogram"),
            (r#""series":["a"],"each":"histogram 1s","for":"1s""#, "for: there is no condition"),
            (r#""series":["a"],"slower":10"#, "slower: there is no condition"),
            (r#""series":["a"],"before":"5s""#, "before: there is no condition"),
            (r#""expr":"a","slower":1"#, "slower: it is a number from 2 to 100000"),
            (r#""expr":"a","before":"5s""#, "before: it is for 'series' as they are"),
            (r#""series":["a"],"when":"a","before":"6m""#, "before: a node keeps 5 minutes"),
            (r#""series":["a"],"when":"a","before":"6s","slower":3"#, "slower: all rows are sent then"),
            (r#""series":["a"],"when":"a","after":"6s","every":"1s""#, "every: with 'before' and 'after'"),
            (r#""expr":"a","once":true,"slower":3"#, "once: with 'slower'"),
            (r#""expr":"a","keep":"long""#, "keep: 'long' is not a duration"),
            (r#""expr":"a","keep":"0s""#, "keep: 0 keeps nothing"),
            (r#""series":["a"],"keep":"7d""#, "keep: the store has these series already"),
            (r#""expr":"a","keep":"7d","rate":"101Hz""#, "rate: a channel that is kept has at most 100Hz"),
        ] {
            let error = define(fields).unwrap_err().to_string();
            assert!(error.contains(problem), "{fields}: {error}");
        }
        let error = Definition { name: "Hot".into(), ..Definition::default() }.interest().unwrap_err();
        assert!(error.to_string().starts_with("name: the name of a channel starts with a small letter"));
        let many = format!("\"series\":[{}]", vec!["\"a\""; SERIES_MAX + 1].join(","));
        assert!(define(&many).unwrap_err().to_string().contains("at most 64 patterns"));
    }

    #[test]
    fn a_function_of_each_series_takes_the_place_of_the_readings() {
        let interest = define(r#""series":["cpu.*"],"each":"max 1s","every":"1s","rate":"100Hz""#).unwrap();
        assert!(matches!(handler(&interest).values, Values::Each { length: Nanos::SECOND, .. }));
        assert_eq!(interest.patterns[0].to_string(), "cpu.*");
    }

    #[test]
    fn rows_around_an_event_and_slower_rows_without_one() {
        let around = define(r#""series":["mem.*"],"when":"a > 2","before":"10s","after":"5s""#).unwrap();
        let (before, after) = (Nanos::from_secs(10), Nanos::from_secs(5));
        assert_eq!(handler(&around).effect, Effect::Surrounds { before, after });
        let adaptive = define(r#""series":["mem.*"],"when":"a > 2","slower":100,"rate":"100Hz""#).unwrap();
        assert_eq!(handler(&adaptive).effect, Effect::SlowsDown(100));
        assert_eq!(handler(&define(r#""expr":"a""#).unwrap()).effect, Effect::LeavesOut);
    }

    #[test]
    fn equal_definitions_ask_the_same_of_nodes() {
        let one = define(r#""expr":"node_load1 > 2","rate":"100Hz""#).unwrap();
        let other = define(r#""rate":"10ms","expr":"node_load1 > 2""#).unwrap();
        assert_eq!((one.channel, one.rate), (other.channel, other.rate));
    }
}
