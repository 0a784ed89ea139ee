//! Expands a template, within the limits of steps, bytes, depth and queries.

use std::cell::Cell;
use std::rc::Rc;

use khz_promql::{Moment, VectorSample};

use super::functions::{self, Function};
use super::tree::{Command, Kind, Node, Operand, Pipe, Tree};
use super::value::{Data, Value, map};
use super::{TemplateData, TemplateFault};
use crate::limits::{EXPANSION_BYTES_MAX, EXPANSION_QUERIES_MAX, EXPANSION_STEPS_MAX, TEMPLATE_DEPTH_MAX};

/// Steps that a regular expression costs: compiling one takes as long as that many actions.
const REGEX_STEPS: usize = 2_000;

/// One expansion.
pub(super) struct Run<'a> {
    tree: &'a Tree,
    pub data: &'a TemplateData<'a>,
    steps: Cell<usize>,
    queries: Cell<usize>,
    out: String,
    variables: Vec<(String, Value)>,
    depth: usize,
}

/// How a list of nodes ended.
#[derive(PartialEq)]
enum Flow {
    On,
    Break,
    Continue,
}

type Result<T> = std::result::Result<T, TemplateFault>;

fn fail<T>(at: usize, problem: impl Into<String>) -> Result<T> {
    Err(TemplateFault { at, problem: problem.into() })
}

/// Expands a tree.
pub(super) fn expand(tree: &Tree, data: &TemplateData<'_>) -> Result<String> {
    let external = data.external_labels.clone();
    let top = Value::Data(Rc::new(Data {
        labels: Value::Labels(map(data.labels)),
        external_labels: Value::Labels(Rc::new(external)),
        external_url: Value::text(data.external_url),
        value: Value::Float(data.value),
    }));
    let mut run = Run {
        tree,
        data,
        steps: Cell::new(0),
        queries: Cell::new(0),
        out: String::new(),
        variables: vec![(String::new(), top.clone())],
        depth: 0,
    };
    for (name, field) in [
        ("labels", "Labels"),
        ("externalLabels", "ExternalLabels"),
        ("externalURL", "ExternalURL"),
        ("value", "Value"),
    ] {
        let value = run.field(0, &top, field)?;
        run.variables.push((name.to_owned(), value));
    }
    run.list(&tree.main, &top)?;
    Ok(run.out)
}

impl Run<'_> {
    /// Counts steps.
    fn spend(&self, at: usize, steps: usize) -> Result<()> {
        self.steps.set(self.steps.get().saturating_add(steps));
        match self.steps.get() > EXPANSION_STEPS_MAX {
            true => fail(at, format!("the template takes more than {EXPANSION_STEPS_MAX} steps")),
            false => Ok(()),
        }
    }

    /// A text that a function has made.
    pub fn made(&self, text: String) -> functions::Result {
        if text.len() > EXPANSION_BYTES_MAX {
            return Err(format!("the text is longer than {EXPANSION_BYTES_MAX} bytes"));
        }
        self.steps.set(self.steps.get().saturating_add(text.len() / 64));
        Ok(Value::text(text))
    }

    /// Counts a regular expression.
    pub fn regex(&self) -> std::result::Result<(), String> {
        self.spend(0, REGEX_STEPS).map_err(|fault| fault.problem)
    }

    /// Asks for series.
    pub fn query(&self, text: &str) -> std::result::Result<Vec<VectorSample>, String> {
        self.queries.set(self.queries.get() + 1);
        if self.queries.get() > EXPANSION_QUERIES_MAX {
            return Err(format!("the template asks more than {EXPANSION_QUERIES_MAX} queries"));
        }
        let vector = (self.data.query)(text)?;
        self.steps.set(self.steps.get().saturating_add(vector.len()));
        Ok(vector)
    }

    fn write(&mut self, at: usize, text: &str) -> Result<()> {
        if self.out.len().saturating_add(text.len()) > EXPANSION_BYTES_MAX {
            return fail(at, format!("the template gives more than {EXPANSION_BYTES_MAX} bytes"));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn list(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow> {
        for node in nodes {
            let flow = self.node(node, dot)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<Flow> {
        self.spend(0, 1)?;
        match node {
            Node::Text(text) => self.write(0, text)?,
            Node::Action(pipe) => {
                let value = self.pipe(pipe, dot)?;
                if pipe.declares.is_empty() {
                    let text = value.print();
                    self.spend(pipe.at, text.len() / 64)?;
                    self.write(pipe.at, &text)?;
                }
            }
            Node::If(pipe, then, other) | Node::With(pipe, then, other) => {
                let outer = self.variables.len();
                let value = self.pipe(pipe, dot)?;
                let is_with = matches!(node, Node::With(..));
                let flow = match value.is_true() {
                    true => self.list(then, if is_with { &value } else { dot })?,
                    false => self.list(other, dot)?,
                };
                self.variables.truncate(outer);
                return Ok(flow);
            }
            Node::Range(pipe, body, other) => self.range(pipe, body, other, dot)?,
            Node::Template { at, name, argument } => {
                let argument = argument.as_ref().map_or(Ok(Value::Nil), |pipe| self.pipe(pipe, dot))?;
                let tree = self.tree;
                let Some(nodes) = tree.named.get(name) else {
                    return fail(*at, format!("template {name:?} not defined"));
                };
                self.depth += 1;
                if self.depth > TEMPLATE_DEPTH_MAX {
                    return fail(*at, format!("templates call each other deeper than {TEMPLATE_DEPTH_MAX}"));
                }
                let outer = std::mem::replace(&mut self.variables, vec![(String::new(), argument.clone())]);
                self.list(nodes, &argument)?;
                self.variables = outer;
                self.depth -= 1;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn range(&mut self, pipe: &Pipe, body: &[Node], other: &[Node], dot: &Value) -> Result<()> {
        let outer = self.variables.len();
        let over = self.value_of(pipe, dot)?;
        let entries: Box<dyn Iterator<Item = (Value, Value)>> = match over {
            Value::Nil => Box::new(std::iter::empty()),
            Value::Int(count) if pipe.declares.len() > 1 => {
                return fail(pipe.at, format!("can't use {count} to iterate over more than one variable"));
            }
            Value::Int(count) => Box::new((0..count).map(|number| (Value::Int(number), Value::Int(number)))),
            Value::Samples(all) => {
                let samples: Vec<_> = all.iter().cloned().map(Value::Sample).collect();
                Box::new(samples.into_iter().enumerate().map(|(at, sample)| (Value::Int(at as i64), sample)))
            }
            Value::Labels(all) => {
                let all: Vec<_> =
                    all.iter().map(|(name, value)| (Value::text(&**name), Value::text(&**value))).collect();
                Box::new(all.into_iter())
            }
            Value::Map(all) => {
                let all: Vec<_> =
                    all.iter().map(|(name, value)| (Value::text(&**name), value.clone())).collect();
                Box::new(all.into_iter())
            }
            other => return fail(pipe.at, format!("range can't iterate over {}", other.print())),
        };
        let mut is_empty = true;
        for (key, value) in entries {
            is_empty = false;
            self.spend(pipe.at, 1)?;
            match (&*pipe.declares, pipe.is_assignment) {
                ([], _) => {}
                ([one], false) => self.variables.push((one.clone(), value.clone())),
                ([one], true) => self.set(pipe.at, one, value.clone())?,
                ([one, two, ..], false) => {
                    self.variables.push((one.clone(), key));
                    self.variables.push((two.clone(), value.clone()));
                }
                ([one, two, ..], true) => {
                    self.set(pipe.at, one, key)?;
                    self.set(pipe.at, two, value.clone())?;
                }
            }
            let flow = self.list(body, &value)?;
            self.variables.truncate(outer);
            if flow == Flow::Break {
                break;
            }
        }
        if is_empty {
            self.list(other, dot)?;
            self.variables.truncate(outer);
        }
        Ok(())
    }

    fn set(&mut self, at: usize, name: &str, value: Value) -> Result<()> {
        match self.variables.iter_mut().rev().find(|(known, _)| known == name) {
            Some(variable) => variable.1 = value,
            None => return fail(at, format!("there is no variable ${name}: declare it with :=")),
        }
        Ok(())
    }

    /// The value of a pipeline; its variables are set.
    fn pipe(&mut self, pipe: &Pipe, dot: &Value) -> Result<Value> {
        let value = self.value_of(pipe, dot)?;
        for name in &pipe.declares {
            match pipe.is_assignment {
                true => self.set(pipe.at, name, value.clone())?,
                false => self.variables.push((name.clone(), value.clone())),
            }
        }
        Ok(value)
    }

    fn value_of(&mut self, pipe: &Pipe, dot: &Value) -> Result<Value> {
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.command(command, dot, value)?);
        }
        Ok(value.unwrap_or(Value::Nil))
    }

    fn command(&mut self, command: &Command, dot: &Value, last: Option<Value>) -> Result<Value> {
        self.spend(command.at, 1 + command.arguments.len())?;
        let (first, others) = (&command.arguments[0], &command.arguments[1..]);
        if let Kind::Function(function) = first.kind {
            return self.call(function, first.at, others, dot, last);
        }
        if matches!(first.kind, Kind::Nil) {
            return fail(first.at, "nil is not a command");
        }
        if !others.is_empty() || last.is_some() {
            return fail(first.at, "can't give argument to non-function");
        }
        self.operand(first, dot)
    }

    fn call(
        &mut self,
        function: Function,
        at: usize,
        arguments: &[Operand],
        dot: &Value,
        last: Option<Value>,
    ) -> Result<Value> {
        if matches!(function, Function::And | Function::Or) {
            return self.decide(function, at, arguments, dot, last);
        }
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments {
            values.push(self.operand(argument, dot)?);
        }
        values.extend(last);
        functions::call(function, &values, self).map_err(|problem| TemplateFault {
            at,
            problem: format!("error calling {}: {problem}", function.name()),
        })
    }

    /// `and` and `or`: the first value that decides.
    fn decide(
        &mut self,
        function: Function,
        at: usize,
        arguments: &[Operand],
        dot: &Value,
        last: Option<Value>,
    ) -> Result<Value> {
        let mut value = None;
        for argument in arguments {
            let next = self.operand(argument, dot)?;
            if next.is_true() == (function == Function::Or) {
                return Ok(next);
            }
            value = Some(next);
        }
        match last.or(value) {
            Some(value) => Ok(value),
            None => fail(at, format!("wrong number of args for {}: want at least 1 got 0", function.name())),
        }
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value> {
        let at = operand.at;
        self.spend(at, 1)?;
        Ok(match &operand.kind {
            Kind::Dot => dot.clone(),
            Kind::Nil => Value::Nil,
            Kind::Bool(is_true) => Value::Bool(*is_true),
            Kind::Int(number) => Value::Int(*number),
            Kind::Float(number) => Value::Float(*number),
            Kind::Text(text) => Value::text(&**text),
            Kind::Fields(fields) => self.fields(at, dot.clone(), fields)?,
            Kind::Variable(name, fields) => {
                let found = self
                    .variables
                    .iter()
                    .rev()
                    .find(|(known, _)| known == name)
                    .map(|(_, value)| value.clone());
                let Some(value) = found else { return fail(at, format!("there is no variable ${name}")) };
                self.fields(at, value, fields)?
            }
            Kind::Function(function) => self.call(*function, at, &[], dot, None)?,
            Kind::Pipe(pipe) => self.pipe(pipe, dot)?,
            Kind::Chain(inner, fields) => {
                let value = self.operand(inner, dot)?;
                self.fields(at, value, fields)?
            }
        })
    }

    fn fields(&self, at: usize, value: Value, fields: &[String]) -> Result<Value> {
        fields.iter().try_fold(value, |value, field| self.field(at, &value, field))
    }

    fn field(&self, at: usize, value: &Value, name: &str) -> Result<Value> {
        match (value, name) {
            (Value::Labels(map), name) => Ok(Value::text(map.get(name).map_or("", String::as_str))),
            (Value::Map(map), name) => Ok(map.get(name).cloned().unwrap_or(Value::Nil)),
            (Value::Sample(sample), "Labels") => Ok(Value::Labels(sample.labels.clone())),
            (Value::Sample(sample), "Value") => Ok(Value::Float(sample.value)),
            (Value::Data(data), "Labels") => Ok(data.labels.clone()),
            (Value::Data(data), "ExternalLabels") => Ok(data.external_labels.clone()),
            (Value::Data(data), "ExternalURL") => Ok(data.external_url.clone()),
            (Value::Data(data), "Value") => Ok(data.value.clone()),
            (Value::Time(ms), name) => {
                let moment = Moment::of(ms.div_euclid(1_000));
                match name {
                    "Year" => Ok(Value::Int(moment.year)),
                    "Day" => Ok(Value::Int(moment.day)),
                    "Hour" => Ok(Value::Int(moment.hour)),
                    "Minute" => Ok(Value::Int(moment.minute)),
                    "Second" => Ok(Value::Int(moment.second)),
                    "Unix" => Ok(Value::Int(ms.div_euclid(1_000))),
                    name => fail(at, format!("can't evaluate field {name} in type *time.Time")),
                }
            }
            (Value::Duration(ns), "Seconds") => Ok(Value::Float(*ns as f64 / 1e9)),
            (Value::Nil, name) => fail(at, format!("nil data; no entry for key {name:?}")),
            (value, name) => fail(at, format!("can't evaluate field {name} in type {}", value.kind())),
        }
    }
}
