//! The syntax tree of a template.
//!
//! Chains of operators, filters and branches are lists, so the depth of the tree equals the nesting of the source.

use std::sync::Arc;

/// A list of statements.
pub(crate) type Body = Vec<Node>;

/// A statement with its line.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) statement: Statement,
}

#[derive(Debug)]
pub(crate) enum Statement {
    /// Text outside of tags.
    Text(Arc<str>),
    Print(Expr),
    For(Arc<For>),
    If(Vec<(Expr, Body)>, Body),
    Set(Target, Expr),
    /// `{% set x | filter %}…{% endset %}`.
    SetBlock(Target, Vec<Postfix>, Body),
    With(Vec<(Target, Expr)>, Body),
    Macro(Arc<Macro>),
    /// `{% call %}` with the caller and the call.
    Call(Arc<Macro>, Expr),
    Filter(Vec<Postfix>, Body),
    /// `{% generation %}`: a scope of its own.
    Scope(Body),
    /// `{% block %}`, available as a macro of `self`.
    Block(Arc<Macro>),
    Break,
    Continue,
    /// A tag that loads another template, which always fails.
    Load(Arc<str>),
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) target: Target,
    pub(crate) iterable: Expr,
    pub(crate) condition: Option<Expr>,
    pub(crate) recursive: Recursive,
    pub(crate) body: Body,
    pub(crate) otherwise: Body,
}

/// Whether `loop(…)` can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recursive {
    Yes,
    No,
}

/// A macro, or the body of a call block.
#[derive(Debug)]
pub(crate) struct Macro {
    pub(crate) name: Arc<str>,
    pub(crate) parameters: Vec<(Arc<str>, Option<Expr>)>,
    pub(crate) body: Body,
    pub(crate) uses: Uses,
}

/// The special variables that a macro's body uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses {
    pub(crate) varargs: bool,
    pub(crate) kwargs: bool,
    pub(crate) caller: bool,
}

impl Uses {
    pub(crate) fn add(&mut self, more: Self) {
        self.varargs |= more.varargs;
        self.kwargs |= more.kwargs;
        self.caller |= more.caller;
    }
}

/// The target of an assignment.
#[derive(Debug)]
pub(crate) enum Target {
    Name(Arc<str>),
    /// An attribute of a namespace.
    Attribute(Arc<str>, Arc<str>),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(crate) enum Expr {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
    Name(Arc<str>),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    /// Operators of one precedence, from left to right.
    Chain(Box<Expr>, Vec<(Binary, Expr)>),
    Concat(Vec<Expr>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    /// Value, condition and the value otherwise.
    If(Box<(Expr, Expr, Option<Expr>)>),
    Postfix(Box<Expr>, Vec<Postfix>),
}

/// An operator after a value.
#[derive(Debug)]
pub(crate) enum Postfix {
    Attribute(Arc<str>),
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    Call(Arguments),
    Filter(Arc<str>, Arguments),
    Test(Arc<str>, Arguments),
    /// `is not`.
    Untest(Arc<str>, Arguments),
}

#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) positional: Vec<Expr>,
    pub(crate) named: Vec<(Arc<str>, Expr)>,
    /// `*list`.
    pub(crate) list: Option<Box<Expr>>,
    /// `**dict`.
    pub(crate) dict: Option<Box<Expr>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}
