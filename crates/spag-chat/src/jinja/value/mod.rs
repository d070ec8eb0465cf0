//! Python's values. All but namespaces are immutable.

mod arithmetic;
mod compare;
mod convert;
mod dict;
mod make;
mod objects;
mod print;
mod sequence;

use std::rc::Rc;
use std::sync::Arc;

pub(crate) use arithmetic::{binary, negative, positive, power_of_ten};
pub(crate) use compare::{compare, equal};
pub(crate) use dict::{Dict, Key};
pub(crate) use make::seq;
pub(crate) use objects::{Cycler, Iter, Loop, Macro, Method, Namespace, Registry, Scope, Shared};
pub(crate) use print::{float_text, is_printable, quoted, repr, text};
pub(crate) use sequence::{Range, Seq, item, items, length, slice};

/// A value. Clones share their content.
#[derive(Clone)]
pub(crate) enum Value {
    Undefined(Rc<Undefined>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Text),
    List(Rc<Seq>),
    Tuple(Rc<Seq>),
    Dict(Rc<Dict>),
    /// The result of `keys`, `values` or `items` of a dict.
    View(View, Rc<Dict>),
    Range(Range),
    /// The result of filters such as `map`: items that can be taken once.
    Iter(Rc<Iter>),
    Namespace(Rc<Namespace>),
    Loop(Rc<Loop>),
    Macro(Rc<Macro>),
    /// A global function, by name.
    Function(&'static str),
    Method(Rc<Method>),
    Cycler(Rc<Cycler>),
    /// The separator of a `joiner`, and whether it was called before.
    Joiner(Rc<(Text, std::cell::Cell<bool>)>),
}

/// A text, and whether it is HTML (Python's `Markup`).
#[derive(Clone)]
pub(crate) struct Text {
    pub(crate) text: Arc<str>,
    pub(crate) markup: bool,
}

/// An undefined value.
pub(crate) struct Undefined {
    /// The error message of its uses.
    pub(crate) why: String,
    /// Whether every use fails, including printing.
    pub(crate) strict: bool,
}

/// The part of a dict that a view shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Keys,
    Values,
    Items,
}

impl Value {
    /// The name of the type in Python.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(Text { markup: false, .. }) => "str",
            Self::Text(_) => "Markup",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::View(View::Keys, _) => "dict_keys",
            Self::View(View::Values, _) => "dict_values",
            Self::View(View::Items, _) => "dict_items",
            Self::Range(_) => "range",
            Self::Iter(iter) => iter.type_name,
            Self::Namespace(_) => "Namespace",
            Self::Loop(_) => "LoopContext",
            Self::Macro(_) => "Macro",
            Self::Function(_) => "function",
            Self::Method(_) => "builtin_function_or_method",
            Self::Cycler(_) => "Cycler",
            Self::Joiner(_) => "Joiner",
        }
    }

    /// The nesting depth of the value.
    fn levels(&self) -> usize {
        match self {
            Self::List(seq) | Self::Tuple(seq) => seq.levels,
            Self::Dict(dict) | Self::View(_, dict) => dict.levels,
            Self::Iter(iter) => iter.items.levels,
            Self::Loop(state) => state.items.levels + 1,
            Self::Method(method) => method.levels,
            Self::Cycler(cycler) => cycler.items.levels,
            _ => 0,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined(_))
    }
}
