//! Parses a template. What is wrong is found here with its place, before anything is expanded: unknown functions and variables,
//! too.

use std::sync::Arc;

use khz_model::suggest;

use super::TemplateFault;
use super::functions::{Function, NAMES};
use super::lex::{Word, words};
use super::tree::{Command, Kind, Node, Operand, Pipe, Tree};
use crate::limits::{TEMPLATE_BYTES_MAX, TEMPLATE_DEPTH_MAX};

/// The variables that every template of a rule has.
pub(super) const GIVEN: [&str; 4] = ["labels", "externalLabels", "externalURL", "value"];

pub(super) fn parse(text: &str) -> Result<Tree, TemplateFault> {
    if text.len() > TEMPLATE_BYTES_MAX {
        let problem = format!("the template has {} bytes, and may have {TEMPLATE_BYTES_MAX}", text.len());
        return Err(TemplateFault { at: TEMPLATE_BYTES_MAX, problem });
    }
    let variables = std::iter::once("").chain(GIVEN).map(str::to_owned).collect();
    let mut parser =
        Parser { words: words(text)?, next: 0, tree: Tree::default(), variables, loops: 0, depth: 0 };
    parser.tree.main = parser.list(true)?.0;
    match parser.peek() {
        (_, Word::End) => Ok(parser.tree),
        (at, _) => fail(*at, "this end or else belongs to nothing"),
    }
}

fn fail<T>(at: usize, problem: impl Into<String>) -> Result<T, TemplateFault> {
    Err(TemplateFault { at, problem: problem.into() })
}

struct Parser {
    words: Vec<(usize, Word)>,
    next: usize,
    tree: Tree,
    variables: Vec<String>,
    loops: usize,
    depth: usize,
}

/// What ended a list of nodes.
#[derive(PartialEq)]
enum Ended {
    End,
    Else,
    Text,
}

impl Parser {
    fn peek(&self) -> &(usize, Word) {
        &self.words[self.next.min(self.words.len() - 1)]
    }

    fn take(&mut self) -> (usize, Word) {
        let word = self.peek().clone();
        self.next += 1;
        word
    }

    fn skip_space(&mut self) {
        while self.peek().1 == Word::Space {
            self.next += 1;
        }
    }

    fn is(&self, word: &Word) -> bool {
        self.peek().1 == *word
    }

    /// Goes one level down; too deep is an error.
    fn down(&mut self) -> Result<(), TemplateFault> {
        self.depth += 1;
        match self.depth > TEMPLATE_DEPTH_MAX {
            true => fail(
                self.peek().0,
                format!("actions and brackets are nested deeper than {TEMPLATE_DEPTH_MAX}"),
            ),
            false => Ok(()),
        }
    }

    /// Nodes up to `end`, `else` or the end of the text. The word that ended them is not taken, but its `{{` is.
    fn list(&mut self, is_top: bool) -> Result<(Vec<Node>, Ended), TemplateFault> {
        self.down()?;
        let mut nodes = Vec::new();
        let ended = loop {
            match self.take() {
                (_, Word::End) => {
                    self.next -= 1;
                    break Ended::Text;
                }
                (_, Word::Text(text)) => nodes.push(Node::Text(Arc::from(text))),
                (at, Word::Open) => {
                    self.skip_space();
                    match self.keyword() {
                        Some("end") => break Ended::End,
                        Some("else") => break Ended::Else,
                        keyword => {
                            if let Some(node) = self.action(at, keyword, is_top)? {
                                nodes.push(node);
                            }
                        }
                    }
                }
                (at, _) => return fail(at, "this cannot stand here"),
            }
        };
        if is_top && ended != Ended::Text {
            return fail(self.peek().0, "this end or else belongs to nothing");
        }
        self.depth -= 1;
        Ok((nodes, ended))
    }

    fn keyword(&self) -> Option<&'static str> {
        const KEYWORDS: [&str; 10] =
            ["if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"];
        match &self.peek().1 {
            Word::Identifier(word) => KEYWORDS.into_iter().find(|keyword| keyword == word),
            _ => None,
        }
    }

    /// Takes the closing braces.
    fn close(&mut self) -> Result<(), TemplateFault> {
        self.skip_space();
        match self.take() {
            (_, Word::Close) => Ok(()),
            (at, _) => fail(at, "this cannot stand here: the action should end (}})"),
        }
    }

    fn action(
        &mut self,
        at: usize,
        keyword: Option<&str>,
        is_top: bool,
    ) -> Result<Option<Node>, TemplateFault> {
        let Some(keyword) = keyword else {
            let pipe = self.pipe_of("")?;
            self.close()?;
            return Ok(Some(Node::Action(pipe)));
        };
        self.next += 1;
        Ok(Some(match keyword {
            "if" => {
                let (pipe, then, other) = self.control(keyword)?;
                Node::If(pipe, then, other)
            }
            "with" => {
                let (pipe, then, other) = self.control(keyword)?;
                Node::With(pipe, then, other)
            }
            "range" => {
                let (pipe, then, other) = self.control(keyword)?;
                Node::Range(pipe, then, other)
            }
            "break" | "continue" => {
                self.close()?;
                if self.loops == 0 {
                    return fail(at, format!("{keyword} stands within range only"));
                }
                if keyword == "break" { Node::Break } else { Node::Continue }
            }
            "template" => {
                let name = self.name()?;
                self.skip_space();
                let argument = if self.is(&Word::Close) { None } else { Some(self.pipe(&Word::Close)?) };
                self.close()?;
                Node::Template { at, name, argument }
            }
            "block" => {
                let name = self.name()?;
                let argument = Some(self.pipe(&Word::Close)?);
                self.close()?;
                self.define(name.clone())?;
                Node::Template { at, name, argument }
            }
            _ => {
                if !is_top {
                    return fail(at, "define cannot stand within another action");
                }
                let name = self.name()?;
                self.close()?;
                self.define(name)?;
                return Ok(None);
            }
        }))
    }

    /// The name of a template.
    fn name(&mut self) -> Result<String, TemplateFault> {
        self.skip_space();
        match self.take() {
            (_, Word::Quoted(name)) => Ok(name),
            (at, _) => fail(at, "a template has a name in quotes"),
        }
    }

    /// The body of `define` or `block`, with variables and loops of its own.
    fn define(&mut self, name: String) -> Result<(), TemplateFault> {
        let outer = std::mem::replace(&mut self.variables, vec![String::new()]);
        let loops = std::mem::take(&mut self.loops);
        let (nodes, ended) = self.list(false)?;
        if ended != Ended::End {
            return fail(self.peek().0, "a definition ends with {{end}}");
        }
        self.next += 1;
        self.close()?;
        (self.variables, self.loops) = (outer, loops);
        // As in Go, an empty definition does not replace another one.
        let is_empty = nodes.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()));
        if !is_empty || !self.tree.named.contains_key(&name) {
            self.tree.named.insert(name, nodes);
        }
        Ok(())
    }

    fn control(&mut self, keyword: &str) -> Result<(Pipe, Vec<Node>, Vec<Node>), TemplateFault> {
        let variables = self.variables.len();
        let pipe = self.pipe_of(keyword)?;
        self.close()?;
        self.loops += usize::from(keyword == "range");
        let (then, ended) = self.list(false)?;
        self.loops -= usize::from(keyword == "range");
        let at = self.peek().0;
        let other = match ended {
            Ended::Text => return fail(at, format!("{keyword} has no {{{{end}}}}")),
            Ended::End => Vec::new(),
            Ended::Else => {
                self.next += 1;
                self.skip_space();
                if let Some(inner @ ("if" | "with")) = self.keyword().filter(|inner| *inner == keyword) {
                    // `else if` is an `if` in the other part; one end ends both.
                    self.next += 1;
                    self.down()?;
                    let (inner_pipe, inner_then, inner_other) = self.control(inner)?;
                    self.depth -= 1;
                    self.variables.truncate(variables);
                    let make = if inner == "if" { Node::If } else { Node::With };
                    return Ok((pipe, then, vec![make(inner_pipe, inner_then, inner_other)]));
                }
                self.close()?;
                let (nodes, ended) = self.list(false)?;
                if ended != Ended::End {
                    return fail(
                        self.peek().0,
                        format!("{keyword} ends with {{{{end}}}}, after at most one else"),
                    );
                }
                nodes
            }
        };
        self.next += 1;
        self.close()?;
        self.variables.truncate(variables);
        Ok((pipe, then, other))
    }

    /// The pipeline of a keyword.
    fn pipe_of(&mut self, keyword: &str) -> Result<Pipe, TemplateFault> {
        let (at, mut declares) = (self.peek().0, Vec::new());
        let begin = self.next;
        let mut is_assignment = false;
        loop {
            self.skip_space();
            let Word::Variable(name) = self.peek().1.clone() else { break };
            self.next += 1;
            self.skip_space();
            match self.peek().1 {
                Word::Declare | Word::Sign('=') => {
                    is_assignment = self.peek().1 == Word::Sign('=');
                    self.next += 1;
                    declares.push(name);
                    break;
                }
                Word::Sign(',') if keyword == "range" && declares.is_empty() => {
                    self.next += 1;
                    declares.push(name);
                }
                _ => {
                    // It is no declaration.
                    if !declares.is_empty() {
                        return fail(
                            self.peek().0,
                            "range declares variables: write range $key, $value := ...",
                        );
                    }
                    self.next = begin;
                    break;
                }
            }
        }
        let mut pipe = self.pipe(&Word::Close)?;
        self.variables.extend(declares.iter().cloned());
        (pipe.at, pipe.declares, pipe.is_assignment) = (at, declares, is_assignment);
        Ok(pipe)
    }

    /// A pipeline without declarations, up to this word, which is not taken.
    fn pipe(&mut self, end: &Word) -> Result<Pipe, TemplateFault> {
        self.down()?;
        self.skip_space();
        let at = self.peek().0;
        let mut commands: Vec<Command> = Vec::new();
        loop {
            self.skip_space();
            if self.is(end) {
                if commands.is_empty() {
                    return fail(at, "a value is missing here");
                }
                // As in Go, a bar may be the last.
                self.depth -= 1;
                return Ok(Pipe { at, declares: Vec::new(), is_assignment: false, commands });
            }
            let command = self.command(end)?;
            let first = &command.arguments[0];
            let is_constant = matches!(
                first.kind,
                Kind::Dot | Kind::Nil | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Text(_)
            );
            if is_constant && !commands.is_empty() {
                return fail(first.at, "only a function can take the value of what is before |");
            }
            commands.push(command);
            self.skip_space();
            if self.is(end) {
                self.depth -= 1;
                return Ok(Pipe { at, declares: Vec::new(), is_assignment: false, commands });
            }
            // Else it is a bar: the command has looked.
            self.next += 1;
        }
    }

    fn command(&mut self, end: &Word) -> Result<Command, TemplateFault> {
        let at = self.peek().0;
        let mut arguments = Vec::new();
        loop {
            self.skip_space();
            if !arguments.is_empty() && (self.is(end) || self.is(&Word::Sign('|'))) {
                return Ok(Command { at, arguments });
            }
            arguments.push(self.operand()?);
            let is_over = self.is(&Word::Space) || self.is(end) || self.is(&Word::Sign('|'));
            if !is_over {
                return fail(
                    self.peek().0,
                    "this cannot stand here: a space is missing, or the action should end (}})",
                );
            }
        }
    }

    fn fields(&mut self) -> Vec<String> {
        let mut fields = Vec::new();
        while let Word::Field(name) = self.peek().1.clone() {
            fields.push(name);
            self.next += 1;
        }
        fields
    }

    fn operand(&mut self) -> Result<Operand, TemplateFault> {
        let (at, word) = self.take();
        let kind = match word {
            Word::Dot => Kind::Dot,
            Word::Identifier(name) => match &*name {
                "true" | "false" => Kind::Bool(name == "true"),
                "nil" => Kind::Nil,
                _ => match Function::named(&name) {
                    Some(function) => Kind::Function(function),
                    None => {
                        let hint = suggest::hint(&name, NAMES.iter().copied());
                        return fail(at, format!("there is no function '{name}'{hint}"));
                    }
                },
            },
            Word::Quoted(text) => Kind::Text(Arc::from(text)),
            Word::Int(number) => Kind::Int(number),
            Word::Float(number) => Kind::Float(number),
            Word::Field(name) => {
                let fields = std::iter::once(name).chain(self.fields()).collect();
                return Ok(Operand { at, kind: Kind::Fields(fields) });
            }
            Word::Variable(name) => {
                if !self.variables.contains(&name) {
                    let hint = suggest::hint(
                        &name,
                        self.variables.iter().map(String::as_str).filter(|known| !known.is_empty()),
                    );
                    return fail(at, format!("there is no variable ${name}{hint}"));
                }
                return Ok(Operand { at, kind: Kind::Variable(name, self.fields()) });
            }
            Word::Sign('(') => {
                let pipe = self.pipe(&Word::Sign(')'))?;
                self.next += 1;
                Kind::Pipe(Box::new(pipe))
            }
            Word::End => return fail(at, "this action has no end: write }}"),
            _ => return fail(at, "a value is missing here"),
        };
        let fields = self.fields();
        if fields.is_empty() {
            return Ok(Operand { at, kind });
        }
        match kind {
            Kind::Pipe(_) | Kind::Function(_) => {
                Ok(Operand { at, kind: Kind::Chain(Box::new(Operand { at, kind }), fields) })
            }
            _ => fail(at, "this value has no fields"),
        }
    }
}
