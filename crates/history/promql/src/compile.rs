//! Compiles an expression for a node, which has only its own recent rows: the part of the language that needs no more data. Other
//! parts are refused, with their place.

use khz_model::{ChannelName, Nanos};
use khz_plan::limits::{ALTERNATIVES_MAX, STEPS_MAX, TEXT_BYTES};
use khz_plan::{
    Aggregate, Aggregator, Combine, Condition, Form, Grouping, Matching, Math, Over, Plan, Selector, Step,
    StepId, Test,
};

use crate::error::QueryError;
use crate::fold;
use crate::functions::Function;
use crate::labels::METRIC_NAME;
use crate::limits::Limits;
use crate::matcher::{self, Matcher};
use crate::plan::{self as tree, Build, Kind, Node};
use crate::steps::Steps;
use crate::text::{self, Position};

/// What an expression for a node may contain.
pub(crate) const MAY_CONTAIN: &str = "an expression for a node may have selectors, numbers, + - * / % ^, comparisons, and, or, unless; rate, \
irate, increase, delta, idelta, deriv, changes, resets and ..._over_time of ranges up to 5 minutes; abs, ceil, floor, \
round, clamp, sqrt, ln, exp, log2, log10, sgn, time; sum, avg, min, max, count, group, stddev, stdvar, quantile, topk and \
bottomk with by or without";

/// The longest chain of channels that use one another: nobody understands a longer one.
pub const CHAIN_MAX: usize = 8;

/// The expression of the channel of this name, or why it cannot be used.
pub type FindChannel<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Compiles an expression for a node.
///
/// # Errors
/// Returns [`QueryError::Bad`] with the error, its line and column, and what such an expression may contain.
pub fn compile(text: &str) -> Result<Plan, QueryError> {
    compiled(text, Vec::new(), None)
}

/// The same for the channel `name`, whose expression may use other channels: `{"channel.other"}` stands for the result of that
/// channel's expression.
///
/// # Errors
/// Returns the errors of [`compile`], and one if a channel leads back to itself, even through others.
pub fn compile_channel(name: &str, text: &str, find: &FindChannel<'_>) -> Result<Plan, QueryError> {
    compiled(text, vec![name.to_owned()], Some(find))
}

fn compiled(text: &str, chain: Vec<String>, find: Option<&FindChannel<'_>>) -> Result<Plan, QueryError> {
    let (steps, places) = (Vec::new(), Vec::new());
    let mut steps = Steplist { text, steps, places, chain, find, is_chain_wrong: false };
    steps.add_all()?;
    let Steplist { steps, places, .. } = steps;
    Plan::new(steps.clone()).map_err(|error| {
        // The first number of steps that is no valid plan.
        let counts: Vec<usize> = (1..steps.len()).collect();
        let fitting = counts.partition_point(|&count| Plan::new(steps[..count].to_vec()).is_ok());
        let place = places.get(fitting).map(|place| format!(" {place}")).unwrap_or_default();
        QueryError::Bad(format!("{error}{place}; {MAY_CONTAIN}"))
    })
}

struct Steplist<'a> {
    text: &'a str,
    steps: Vec<Step>,
    /// The place of each step.
    places: Vec<String>,
    /// The channels that led here, the compiled one first.
    chain: Vec<String>,
    /// Finds other channels; `None`: there are none.
    find: Option<&'a FindChannel<'a>>,
    /// The chain of channels was refused. The error then names the whole chain.
    is_chain_wrong: bool,
}

impl Steplist<'_> {
    fn refuse<T>(&self, at: Position, problem: &str) -> Result<T, QueryError> {
        Err(QueryError::Bad(format!("{problem} {}; {MAY_CONTAIN}", self.place(at))))
    }

    /// A place in this text. For the text of another channel, it names that channel.
    fn place(&self, at: Position) -> String {
        match self.chain.last().filter(|_| !self.is_outermost()) {
            Some(name) => {
                format!("({} in the expression of channel '{name}')", at.line_and_column(self.text))
            }
            None => at.place(self.text),
        }
    }

    /// Refuses a channel, without listing what an expression may contain.
    fn refuse_channel<T>(&self, at: Position, problem: &str) -> Result<T, QueryError> {
        Err(QueryError::Bad(format!("{problem} {}", self.place(at))))
    }

    /// Refuses the chain of channels, which the problem names. The outermost text gets the place where the chain begins.
    fn refuse_chain<T>(&mut self, at: Position, problem: &str) -> Result<T, QueryError> {
        self.is_chain_wrong = true;
        match self.is_outermost() {
            true => self.refuse_channel(at, problem),
            false => Err(QueryError::Bad(problem.to_owned())),
        }
    }

    fn is_outermost(&self) -> bool {
        self.chain.len() <= 1
    }

    /// The steps of the whole text.
    fn add_all(&mut self) -> Result<StepId, QueryError> {
        let parsed = text::parse(self.text)?;
        let build = Build { whole: Steps::instant(0), limits: Limits::default() };
        let node = tree::plan(&parsed, self.text, &build)?;
        self.add(&node)
    }

    /// The place where a selector is moved in time; the selector's own place if that is unknown.
    fn moved(selector: &tree::Selector, at: Position) -> Position {
        selector.places.moved().unwrap_or(at)
    }

    /// The steps of the channel that a selector names; `None`: it names none.
    fn channel(&mut self, selector: &tree::Selector, at: Position) -> Result<Option<StepId>, QueryError> {
        let Some((find, name)) = self.find.zip(channel_in(selector)) else { return Ok(None) };
        if selector.matchers.len() > 1 {
            let is_label = |(_, matcher): &(usize, &Matcher)| matcher.name != METRIC_NAME;
            let label = selector.matchers.iter().enumerate().find(is_label);
            let at = label.and_then(|(number, _)| selector.places.condition(number)).unwrap_or(at);
            return self.refuse(at, "what a channel gives has no labels to choose from here: name it alone");
        }
        if selector.moved.fixed.is_some() || selector.moved.offset != 0 {
            return self.refuse(
                Self::moved(selector, at),
                "a node has only its newest rows: offset and @ are for the store",
            );
        }
        let chain = || self.chain.iter().map(String::as_str).chain([&*name]).collect::<Vec<_>>().join(" -> ");
        if self.chain.contains(&name) {
            let problem = format!("a channel cannot use itself: {}", chain());
            return self.refuse_chain(at, &problem);
        }
        if self.chain.len() >= CHAIN_MAX {
            let problem = format!("more than {CHAIN_MAX} channels use one another: {}", chain());
            return self.refuse_chain(at, &problem);
        }
        let text = match find(&name) {
            Ok(text) => text,
            Err(problem) => return self.refuse_channel(at, &problem),
        };
        let chain = self.chain.iter().cloned().chain([name.clone()]).collect();
        let (steps, places) = (std::mem::take(&mut self.steps), std::mem::take(&mut self.places));
        let find = self.find;
        let mut other = Steplist { text: &text, steps, places, chain, find, is_chain_wrong: false };
        let added = other.add_all();
        (self.steps, self.places) = (other.steps, other.places);
        self.is_chain_wrong = other.is_chain_wrong;
        added.map(Some).map_err(|error| match error {
            QueryError::Bad(problem) if self.is_chain_wrong && !self.is_outermost() => {
                QueryError::Bad(problem)
            }
            QueryError::Bad(problem) if self.is_chain_wrong => {
                QueryError::Bad(format!("{problem} {}", at.place(self.text)))
            }
            QueryError::Bad(problem) if self.is_outermost() => {
                QueryError::Bad(format!("channel '{name}' {}: {problem}", at.place(self.text)))
            }
            // Only the outermost channel has a place in this text. The innermost one has already described the error.
            error @ QueryError::Bad(_) => error,
            error => error,
        })
    }

    /// Adds a step. A leaf step is added once, even if the text uses it several times, since a window takes memory.
    fn push(&mut self, step: Step, at: Position) -> StepId {
        let is_leaf = matches!(step, Step::Number(_) | Step::Time | Step::Series(_) | Step::Window { .. });
        let known = self.steps.iter().position(|known| is_leaf && *known == step);
        if let Some(known) = known.and_then(|known| u16::try_from(known).ok()) {
            return StepId(known);
        }
        self.steps.push(step);
        self.places.push(self.place(at));
        StepId(u16::try_from(self.steps.len() - 1).unwrap_or(u16::MAX))
    }

    fn add(&mut self, node: &Node) -> Result<StepId, QueryError> {
        if self.steps.len() > STEPS_MAX {
            // Channels that use others twice would grow without limit.
            return self.refuse(
                node.at,
                &format!("with the channels that it uses it has more than {STEPS_MAX} steps"),
            );
        }
        if let Kind::Selector(selector) = &node.kind
            && let Some(step) = self.channel(selector, node.at)?
        {
            return Ok(step);
        }
        let step = match &node.kind {
            Kind::Number(number) => Step::Number(*number),
            Kind::Text(_) => return self.refuse(node.at, "a node computes no texts"),
            Kind::Selector(selector) => Step::Series(self.selector(selector, node.at)?),
            Kind::Range(..) => return self.refuse(node.at, "a range needs a function"),
            Kind::Subquery(_) => return self.refuse(node.at, "a node computes no subqueries"),
            Kind::Negate(operand) => Step::Math(Math::Negate, self.add(operand)?),
            Kind::Call(function, arguments) => self.call(*function, arguments, node)?,
            Kind::Aggregate(aggregate) => self.aggregate(aggregate, node)?,
            Kind::Binary(binary) => self.binary(binary)?,
        };
        Ok(self.push(step, node.at))
    }

    fn selector(&self, selector: &tree::Selector, at: Position) -> Result<Selector, QueryError> {
        if selector.moved.fixed.is_some() || selector.moved.offset != 0 {
            return self.refuse(
                Self::moved(selector, at),
                "a node has only its newest rows: offset and @ are for the store",
            );
        }
        let own = |matcher: &Matcher| {
            matcher.name == METRIC_NAME
                && matches!(matcher.operator, matcher::Operator::Equal)
                && matcher.value.contains('.')
        };
        let form = if selector.matchers.iter().any(own) { Form::Own } else { Form::Exposed };
        let conditions = selector.matchers.iter().enumerate().map(|(number, matcher)| {
            self.condition(matcher, selector.places.condition(number).unwrap_or(at))
        });
        Ok(Selector { form, conditions: conditions.collect::<Result<_, _>>()? })
    }

    fn condition(&self, matcher: &Matcher, at: Position) -> Result<Condition, QueryError> {
        let text = |text: &str| match text.len() {
            bytes if bytes > TEXT_BYTES => self.refuse(
                at,
                &format!("a text for a node has at most {TEXT_BYTES} bytes, and this one {bytes}"),
            ),
            _ => Ok(()),
        };
        let globs = || {
            match globs(&matcher.value) {
            Some(globs) if globs.len() > ALTERNATIVES_MAX => self.refuse(
                at,
                &format!(
                    "a regular expression for a node has at most {ALTERNATIVES_MAX} alternatives, and this one {}",
                    globs.len()
                ),
            ),
            Some(globs) => globs.iter().try_for_each(|glob| text(glob)).map(|()| globs),
            None => self
                .refuse(at, "a regular expression for a node may have alternatives, `.`, `.*` and `.+` only"),
        }
        };
        let test = match matcher.operator {
            matcher::Operator::Equal => text(&matcher.value).map(|()| Test::Is(matcher.value.clone()))?,
            matcher::Operator::NotEqual => {
                text(&matcher.value).map(|()| Test::IsNot(matcher.value.clone()))?
            }
            matcher::Operator::Fits(_) => Test::Fits(globs()?),
            matcher::Operator::FitsNot(_) => Test::FitsNot(globs()?),
        };
        Ok(Condition { label: matcher.name.clone(), test })
    }

    /// A number that does not change.
    fn constant(&self, node: &Node) -> Result<f64, QueryError> {
        match &node.kind {
            Kind::Number(number) => Ok(*number),
            Kind::Negate(operand) => Ok(-self.constant(operand)?),
            _ => self.refuse(node.at, "a parameter must be a number for a node"),
        }
    }

    fn call(&mut self, function: Function, arguments: &[Node], node: &Node) -> Result<Step, QueryError> {
        let math = match (function, arguments) {
            (Function::Time, []) => return Ok(Step::Time),
            (Function::Over(fold::Over::PredictLinear), _) => {
                return self.refuse(node.at, "a node does not compute this function");
            }
            (Function::Over(over), [parameters @ .., range]) => {
                return self.over(over, parameters, range, node);
            }
            (Function::Math(of), [_]) => match math(of.name) {
                Some(math) => math,
                None => return self.refuse(node.at, "a node does not compute this function"),
            },
            (Function::Round, [_]) => Math::Round(1.0),
            (Function::Round, [_, to]) => Math::Round(self.constant(to)?),
            (Function::Clamp, [_, low, high]) => Math::Clamp(self.constant(low)?, self.constant(high)?),
            (Function::ClampMin, [_, low]) => Math::AtLeast(self.constant(low)?),
            (Function::ClampMax, [_, high]) => Math::AtMost(self.constant(high)?),
            _ => return self.refuse(node.at, "a node does not compute this function"),
        };
        Ok(Step::Math(math, self.add(&arguments[0])?))
    }

    fn over(
        &mut self,
        over: fold::Over,
        parameters: &[Node],
        range: &Node,
        node: &Node,
    ) -> Result<Step, QueryError> {
        let Kind::Range(selector, length) = &range.kind else {
            return self.refuse(range.at, "a node computes functions of ranges of selectors only");
        };
        let over = match (over, parameters) {
            (fold::Over::Quantile, [phi]) => Over::Quantile(self.constant(phi)?),
            (over, []) => match self::over(over) {
                Some(over) => over,
                None => return self.refuse(node.at, "a node does not compute this function"),
            },
            _ => return self.refuse(node.at, "a node does not compute this function"),
        };
        if self.find.is_some() && channel_in(selector).is_some() {
            let problem = "what a channel gives has no range: a node keeps windows of readings only";
            return self.refuse(range.at, problem);
        }
        let length = Nanos(u64::try_from(*length).unwrap_or(0).saturating_mul(1_000_000));
        if length > khz_plan::limits::WINDOW_MAX {
            return self.refuse(range.at, "a node keeps 5 minutes at most");
        }
        Ok(Step::Window { selector: self.selector(selector, range.at)?, length, over })
    }

    fn aggregate(&mut self, aggregate: &tree::Aggregate, node: &Node) -> Result<Step, QueryError> {
        if aggregate.aggregator == tree::Aggregator::CountValues {
            return self.refuse(node.at, "a node does not compute this aggregation");
        }
        let parameter = aggregate.parameter.as_ref().map(|parameter| self.constant(parameter)).transpose()?;
        // As many as there can be, if it is more.
        let count = parameter.map(|count| count.clamp(0.0, f64::from(u32::MAX)) as u32);
        let aggregator = match (aggregate.aggregator, parameter, count) {
            (tree::Aggregator::Sum, ..) => Aggregator::Sum,
            (tree::Aggregator::Avg, ..) => Aggregator::Avg,
            (tree::Aggregator::Min, ..) => Aggregator::Min,
            (tree::Aggregator::Max, ..) => Aggregator::Max,
            (tree::Aggregator::Count, ..) => Aggregator::Count,
            (tree::Aggregator::Group, ..) => Aggregator::Group,
            (tree::Aggregator::Stddev, ..) => Aggregator::Stddev,
            (tree::Aggregator::Stdvar, ..) => Aggregator::Stdvar,
            (tree::Aggregator::Quantile, Some(phi), _) => Aggregator::Quantile(phi),
            (tree::Aggregator::Topk, Some(number), Some(count)) if !number.is_nan() => {
                Aggregator::Topk(count)
            }
            (tree::Aggregator::Bottomk, Some(number), Some(count)) if !number.is_nan() => {
                Aggregator::Bottomk(count)
            }
            (_, Some(number), _) if number.is_nan() => {
                let at = aggregate.parameter.as_ref().map_or(node.at, |parameter| parameter.at);
                return self.refuse(at, "the parameter is no number");
            }
            _ => return self.refuse(node.at, "a node does not compute this aggregation"),
        };
        let grouping = grouping(aggregate.grouping.without, &aggregate.grouping.labels);
        Ok(Step::Aggregate(Aggregate { aggregator, grouping, of: self.add(&aggregate.operand)? }))
    }

    fn binary(&mut self, binary: &tree::Binary) -> Result<Step, QueryError> {
        let matching = Matching {
            grouping: grouping(!binary.matching.on, &binary.matching.labels),
            many: binary.matching.many,
            include: binary.matching.include.clone(),
        };
        let (left, right) = (self.add(&binary.left)?, self.add(&binary.right)?);
        Ok(Step::Combine(Combine { operator: binary.operator, is_bool: binary.bool, matching, left, right }))
    }
}

/// The channel that a selector names.
fn channel_in(selector: &tree::Selector) -> Option<String> {
    let is_name = |matcher: &&Matcher| {
        matcher.name == METRIC_NAME && matches!(matcher.operator, matcher::Operator::Equal)
    };
    let named = selector.matchers.iter().find(is_name)?;
    named.value.strip_prefix(ChannelName::PREFIX).map(str::to_owned)
}

fn grouping(is_without: bool, labels: &[String]) -> Grouping {
    Grouping { is_without, labels: labels.to_vec() }
}

fn math(name: &str) -> Option<Math> {
    Some(match name {
        "abs" => Math::Abs,
        "ceil" => Math::Ceil,
        "floor" => Math::Floor,
        "sqrt" => Math::Sqrt,
        "ln" => Math::Ln,
        "exp" => Math::Exp,
        "log2" => Math::Log2,
        "log10" => Math::Log10,
        "sgn" => Math::Sgn,
        _ => return None,
    })
}

fn over(over: fold::Over) -> Option<Over> {
    Some(match over {
        fold::Over::Rate => Over::Rate,
        fold::Over::Increase => Over::Increase,
        fold::Over::Delta => Over::Delta,
        fold::Over::Irate => Over::Irate,
        fold::Over::Idelta => Over::Idelta,
        fold::Over::Deriv => Over::Deriv,
        fold::Over::Changes => Over::Changes,
        fold::Over::Resets => Over::Resets,
        fold::Over::Sum => Over::Sum,
        fold::Over::Avg => Over::Avg,
        fold::Over::Min => Over::Min,
        fold::Over::Max => Over::Max,
        fold::Over::Count => Over::Count,
        fold::Over::First => Over::First,
        fold::Over::Last => Over::Last,
        fold::Over::Present => Over::Present,
        fold::Over::Stddev => Over::Stddev,
        fold::Over::Stdvar => Over::Stdvar,
        fold::Over::Quantile | fold::Over::PredictLinear => return None,
    })
}

/// Globs that match exactly what a regular expression matches; `None`: there are none.
fn globs(regex: &str) -> Option<Vec<String>> {
    let whole = regex.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let inner = whole.filter(|inner| !inner.contains(['(', ')'])).unwrap_or(regex);
    let (mut globs, mut glob) = (Vec::new(), String::new());
    let mut rest = inner.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '|' => globs.push(std::mem::take(&mut glob)),
            '.' => match rest.peek() {
                Some('*') => {
                    rest.next();
                    glob.push('*');
                }
                Some('+') => {
                    rest.next();
                    glob.push_str("?*");
                }
                _ => glob.push('?'),
            },
            // These characters have another meaning in a glob.
            '\\' => match rest.next() {
                Some(c) if !c.is_alphanumeric() && !matches!(c, '*' | '?') => glob.push(c),
                _ => return None,
            },
            '*' | '+' | '?' | '{' | '}' | '[' | ']' | '(' | ')' | '^' | '$' => return None,
            c => glob.push(c),
        }
        // A repeated literal has no glob.
        if !matches!(c, '|') && matches!(rest.peek(), Some('*' | '+' | '?' | '{')) {
            return None;
        }
    }
    globs.push(glob);
    Some(globs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_expressions_become_globs_where_these_say_the_same() {
        for (regex, expected) in [
            ("a|b", Some("a b")),
            ("(a|b)", Some("a b")),
            ("eth.*", Some("eth*")),
            (".+", Some("?*")),
            ("a.c", Some("a?c")),
            (r"n1\.x", Some("n1.x")),
            ("", Some("")),
            ("a*", None),
            ("a.?", None),
            ("[ab]", None),
            ("(a)|(b)", None),
            (r"\d", None),
            (r"a\*", None),
            ("a.*?", None),
            ("^a", None),
        ] {
            let globs = globs(regex).map(|globs| globs.join(" "));
            assert_eq!(globs.as_deref(), expected, "{regex}");
        }
    }

    #[test]
    fn what_stands_twice_in_a_text_is_one_step() {
        let count = |text| compile(text).unwrap().steps().len();
        assert_eq!(count("rate(a[5s]) > 1 and rate(a[5s]) < 2 and a > 1"), 9);
        assert_eq!(count("rate(a[5s]) and rate(a[6s]) and increase(a[5s]) and rate(b[5s])"), 7);
        assert_eq!(count("time() - time() + a * a"), 5);
    }

    #[test]
    fn what_a_node_cannot_compute_is_refused_with_its_place() {
        for (text, problem) in [
            ("rate(a[5m] offset 1m)", "offset and @ are for the store (1:12)"),
            ("a + b{c=\"offset\"} @ 5 offset 1m", "offset and @ are for the store (1:19)"),
            ("1 + max_over_time(a[1h])", "5 minutes at most (1:19)"),
            ("max_over_time(rate(a[1m])[5m:1m])", "of selectors only (1:15)"),
            ("sum(a)\n  / predict_linear(b[1m], 60)", "does not compute this function (2:5)"),
            ("label_replace(a, \"b\", \"c\", \"d\", \"e\")", "does not compute this function (1:1)"),
            ("a{b=~\"x[yz]\"}", "and `.+` only (1:3)"),
            ("sum({\"mem.free\", x=\"1\",\n b =~ \"x[yz]\"})", "and `.+` only (2:2)"),
            ("topk(scalar(b), a)", "a parameter must be a number for a node (1:6)"),
            ("topk(NaN, a)", "the parameter is no number (1:6)"),
            ("quantile_over_time(time(), a[1m])", "a parameter must be a number"),
            ("\"text\"", "computes no texts"),
            ("a[5m]", "needs a function"),
            ("count_values(\"x\", a)", "this aggregation"),
        ] {
            let error = compile(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("may have selectors"), "{text}: {error}");
        }
        assert!(compile("rate(").is_err());
    }

    #[test]
    fn what_is_too_much_is_refused_with_its_place() {
        let list = |count: usize| vec!["x"; count].join("|");
        let labels: Vec<String> = (0..40).map(|n| format!("l{n}=\"\"")).collect();
        for (text, problem) in [
            (
                format!("1 + a{{b=\"c\",d=~\"{}\"}}", list(65)),
                "at most 64 alternatives, and this one 65 (1:13)",
            ),
            (format!("1 + a{{b=\"{}\"}}", "x".repeat(1_025)), "at most 1024 bytes, and this one 1025 (1:7)"),
            (
                format!("1 + a{{b=~\"c|{}\"}}", "x".repeat(1_025)),
                "at most 1024 bytes, and this one 1025 (1:7)",
            ),
            (
                format!("1 + a{{{}}}", labels.join(",")),
                "32 conditions of a selector, and this one has more (1:5)",
            ),
            (
                format!("1 +\n sum by ({}) (a)", "x".repeat(1_025)),
                "1024 bytes in a text, and this one has more (2:2)",
            ),
        ] {
            let error = compile(&text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let deep = format!("1 + {}a{}", "(".repeat(101), ")".repeat(101));
        assert!(
            compile(&deep).unwrap_err().to_string().starts_with("1:104: parse error: expressions are nested")
        );
        let long = format!("a{}", " + a".repeat(101));
        assert!(
            compile(&long).unwrap_err().to_string().starts_with("1:403: parse error: expressions are nested")
        );
        let labels: Vec<String> = (0..65).map(|n| format!("l{n}=~\"x\"")).collect();
        let error = compile(&format!("1 + a{{{}}}", labels.join(","))).unwrap_err().to_string();
        assert!(error.starts_with("1:573: parse error: it has 65 regular expressions"), "{error}");
    }

    /// Channels of these names and expressions.
    fn among<'a>(channels: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Result<String, String> + 'a {
        move |name| {
            let known = channels.iter().find(|(known, _)| *known == name);
            known.map(|(_, text)| (*text).to_owned()).ok_or_else(|| format!("there is no channel '{name}'"))
        }
    }

    #[test]
    fn a_channel_in_an_expression_is_what_its_own_expression_gives() {
        let channels = [("sum", "a + {\"channel.half\"}"), ("half", "b / 2")];
        let find = among(&channels);
        let composed = compile_channel("x", "max({\"channel.sum\"}) > {\"channel.half\"}", &find).unwrap();
        assert!(composed == compile("max(a + (b / 2)) > (b / 2)").unwrap());
        // Without channels it is a series like any other.
        assert!(compile("{\"channel.half\"}").is_ok());
    }

    #[test]
    fn a_channel_that_leads_to_itself_or_grows_without_end_is_refused_with_the_way_there() {
        let loops = [("a", "1 + {\"channel.b\"}"), ("b", "{\"channel.c\"} * 2"), ("c", "-{\"channel.a\"}")];
        let refused = |name: &str, text: &str, channels: &[(&str, &str)]| {
            compile_channel(name, text, &among(channels)).unwrap_err().to_string()
        };
        let error = refused("a", loops[0].1, &loops);
        assert_eq!(error, "a channel cannot use itself: a -> b -> c -> a (1:5)");
        assert_eq!(refused("a", "{\"channel.a\"}", &loops), "a channel cannot use itself: a -> a (1:1)");
        let error = refused("x", "{\"channel.y\"}", &[("y", "1 + {\"channel.no\"}")]);
        assert_eq!(
            error,
            "channel 'y' (1:1): there is no channel 'no' (1:5 in the expression of channel 'y')"
        );
        let chain = [("y", "1 + {\"channel.z\"}"), ("z", "2 + \n rate(a[10m])")];
        let error = refused("x", "sum({\"channel.y\"})", &chain);
        let expected = "channel 'y' (1:5): a node keeps 5 minutes at most (2:7 in the expression of channel 'z'); an expression";
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(crate::place(&error).unwrap().0, (1, 5), "the place in this text");
        for (text, problem) in [
            ("1 + {\"channel.no\"}", "there is no channel 'no' (1:5)"),
            ("{\"channel.c\",x=\"y\"}", "name it alone (1:14)"),
            ("rate({\"channel.c\"}[5s])", "no range: a node keeps windows of readings only (1:6)"),
            ("{\"channel.c\"} offset 5s", "are for the store (1:15)"),
        ] {
            let error = refused("x", text, &loops);
            assert!(error.contains(problem), "{text}: {error}");
        }
        let names: Vec<String> = (0..30).map(|n| format!("n{n}")).collect();
        let twice: Vec<String> =
            (1..31).map(|n| format!("{{\"channel.n{n}\"}} + {{\"channel.n{n}\"}}")).collect();
        let long: Vec<(&str, &str)> =
            names.iter().map(|name| &**name).zip(twice.iter().map(|text| &**text)).collect();
        let error = refused("x", "1 + {\"channel.n0\"}", &long);
        assert!(
            error.starts_with("more than 8 channels use one another: x -> n0")
                && error.ends_with("n6 -> n7 (1:5)"),
            "{error}"
        );
        let wide = "a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a";
        let mut grows = long[..6].to_vec();
        grows.push(("n6", wide));
        assert!(refused("x", "{\"channel.n0\"}", &grows).contains("more than 256 steps"));
    }
}
