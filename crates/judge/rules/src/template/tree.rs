//! A template as it was parsed.

use std::collections::HashMap;
use std::sync::Arc;

use super::functions::Function;

/// All that a text defines.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub main: Vec<Node>,
    /// `define`
    pub named: HashMap<String, Vec<Node>>,
}

/// A piece of a template.
#[derive(Debug)]
pub(super) enum Node {
    Text(Arc<str>),
    /// Its value is printed, unless it only sets a variable.
    Action(Pipe),
    If(Pipe, Vec<Node>, Vec<Node>),
    With(Pipe, Vec<Node>, Vec<Node>),
    Range(Pipe, Vec<Node>, Vec<Node>),
    Template {
        at: usize,
        name: String,
        argument: Option<Pipe>,
    },
    Break,
    Continue,
}

/// Commands, each of which gets the value of the one before, and what becomes of the result.
#[derive(Debug)]
pub(super) struct Pipe {
    pub at: usize,
    pub declares: Vec<String>,
    /// The variables are there already.
    pub is_assignment: bool,
    pub commands: Vec<Command>,
}

/// A function or a value, with arguments.
#[derive(Debug)]
pub(super) struct Command {
    pub at: usize,
    /// Never empty.
    pub arguments: Vec<Operand>,
}

#[derive(Debug)]
pub(super) struct Operand {
    pub at: usize,
    pub kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Dot,
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    /// `.Labels.instance`
    Fields(Vec<String>),
    /// `$labels.instance`
    Variable(String, Vec<String>),
    Function(Function),
    Pipe(Box<Pipe>),
    /// `(...).Value`
    Chain(Box<Operand>, Vec<String>),
}
