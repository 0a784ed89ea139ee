//! Where each expression begins in the text, for annotations: the parser's tree does not say. The tree is walked beside
//! the tokens; an expression begins at the first token that it or its operands take.

use promql_parser::parser::{BinaryExpr, Expr};

use super::tokens::{Kind, Token, tokens};

/// Where an expression begins, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position(usize);

impl Position {
    /// The beginning of the text.
    pub(crate) const START: Position = Position(0);

    /// This many bytes from the beginning.
    pub(super) fn at(bytes: usize) -> Self {
        Position(bytes)
    }

    /// Line and column in this text, in brackets as annotations have them.
    pub(crate) fn place(self, text: &str) -> String {
        format!("({})", self.line_and_column(text))
    }

    /// Line and column in this text, from 1; columns are bytes.
    pub(crate) fn line_and_column(self, text: &str) -> String {
        let before = &text.as_bytes()[..self.0.min(text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before.len() - before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1) + 1;
        format!("{line}:{column}")
    }
}

/// Where the parts of a selector begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Each condition; the name first, if it stands before the others.
    conditions: Vec<Position>,
    /// The first `offset` or `@`.
    moved: Option<Position>,
}

impl Places {
    /// Where the condition of this number begins.
    pub(crate) fn condition(&self, number: usize) -> Option<Position> {
        self.conditions.get(number).copied()
    }

    /// Where the first `offset` or `@` stands.
    pub(crate) fn moved(&self) -> Option<Position> {
        self.moved
    }
}

/// The walk: ask [`Positions::begin`] on entering an expression, before its operands, then the verb of its kind.
pub(crate) struct Positions<'a> {
    length: usize,
    tokens: Vec<Token<'a>>,
    next: usize,
    /// The innermost expression that was refused.
    refused: Option<Position>,
}

impl<'a> Positions<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Positions { length: text.len(), tokens: tokens(text), next: 0, refused: None }
    }

    /// Notes that the expression at this place was refused. Of nested expressions the innermost one counts, which comes first.
    pub(crate) fn refuse(&mut self, at: Position) {
        self.refused.get_or_insert(at);
    }

    /// The innermost expression that was refused.
    pub(crate) fn refused(&self) -> Option<Position> {
        self.refused
    }

    /// Where the next token begins.
    pub(crate) fn begin(&self) -> Position {
        Position(self.tokens.get(self.next).map_or(self.length, |token| token.at))
    }

    fn is(&self, text: &str) -> bool {
        self.tokens
            .get(self.next)
            .is_some_and(|token| token.kind != Kind::Text && token.text.eq_ignore_ascii_case(text))
    }

    /// Takes this token if it is the next.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let there = self.is(text);
        self.next += usize::from(there);
        there
    }

    /// Takes any token.
    pub(crate) fn take_any(&mut self) {
        self.next += 1;
    }

    /// Takes signs in front of an operand that left no trace in the tree: each plus, and for a number each minus.
    pub(crate) fn take_signs(&mut self, expression: &Expr) {
        let number = matches!(expression, Expr::NumberLiteral(_));
        while self.take("+") || (number && self.take("-")) {}
    }

    /// Takes a group in brackets, if one begins here.
    fn take_group(&mut self, open: &str, close: &str) {
        if self.take(open) {
            while self.next < self.tokens.len() && !self.take(close) {
                self.take_any();
            }
        }
    }

    /// Takes a selector without its range and modifiers; notes where its conditions begin.
    pub(crate) fn take_selector(&mut self, named: bool) -> Places {
        let mut places = Places::default();
        if named {
            places.conditions.push(self.begin());
            self.take_any();
        }
        if self.take("{") {
            let mut begins = true;
            while self.next < self.tokens.len() && !self.is("}") {
                if begins && !self.is(",") {
                    places.conditions.push(self.begin());
                }
                begins = self.is(",");
                self.take_any();
            }
            self.take("}");
        }
        places
    }

    /// Takes `[5m]` or `[5m:1m]`.
    pub(crate) fn take_range(&mut self) {
        self.take_group("[", "]");
    }

    /// Takes `offset 5m` and `@ 10` in any order.
    pub(crate) fn take_modifiers(&mut self) {
        loop {
            if self.take("@") {
                let _ = self.take("-") || self.take("+");
                self.take_any();
                self.take_group("(", ")");
            } else if self.take("offset") {
                let _ = self.take("-") || self.take("+");
                self.take_any();
            } else {
                return;
            }
        }
    }

    /// The same for a selector with these places.
    pub(crate) fn take_modifiers_of(&mut self, places: &mut Places) {
        places.moved = (self.is("@") || self.is("offset")).then(|| self.begin());
        self.take_modifiers();
    }

    /// Takes `by (…)` or `without (…)`, if it stands here.
    pub(crate) fn take_grouping(&mut self) {
        if self.take("by") || self.take("without") {
            self.take_group("(", ")");
        }
    }

    /// Takes the operator of a binary expression, with all that stands up to the right operand.
    pub(crate) fn take_operator(&mut self, binary: &BinaryExpr) {
        self.take_any();
        let Some(modifier) = &binary.modifier else { return };
        if modifier.return_bool {
            self.take("bool");
        }
        if modifier.matching.is_some() && (self.take("on") || self.take("ignoring")) {
            self.take_group("(", ")");
            if self.take("group_left") || self.take("group_right") {
                self.take_group("(", ")");
            }
        }
    }
}
