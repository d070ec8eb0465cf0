//! Values specific to templates: namespaces, loops, macros and functions.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::make::levels;
use super::{Seq, Value};
use crate::jinja::ast;
use crate::jinja::budget::Budget;
use crate::jinja::error::Result;

/// The variables of a block, with its parent scope.
#[derive(Clone)]
pub(crate) struct Scope(Rc<Frame>);

struct Frame {
    variables: RefCell<HashMap<Arc<str>, Value>>,
    parent: Option<Scope>,
    is_shared: Cell<bool>,
}

impl Scope {
    pub(crate) fn new(parent: Option<&Self>) -> Self {
        let frame = Frame { variables: RefCell::default(), parent: parent.cloned(), is_shared: Cell::new(false) };
        Self(Rc::new(frame))
    }

    pub(crate) fn set(&self, name: &Arc<str>, value: Value) {
        let old = self.0.variables.borrow_mut().insert(Arc::clone(name), value);
        drop(old);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let mut scope = self;
        loop {
            if let Some(value) = scope.0.variables.borrow().get(name) {
                return Some(value.clone());
            }
            scope = scope.0.parent.as_ref()?;
        }
    }
}

/// The attributes of a namespace.
#[derive(Default)]
pub(crate) struct Namespace {
    pub(crate) values: RefCell<indexmap::IndexMap<Arc<str>, Value>>,
}

/// Scopes and namespaces, which values can refer to in cycles. They are emptied one by one at the end of a rendering, so that
/// nothing leaks and no chain is dropped recursively.
#[derive(Default)]
pub(crate) struct Registry(RefCell<Vec<Shared>>);

pub(crate) enum Shared {
    Scope(Scope),
    Namespace(Rc<Namespace>),
    Loop(Rc<Loop>),
}

impl Registry {
    pub(crate) fn add(&self, budget: &Budget, shared: Shared) -> Result<()> {
        budget.values(4)?;
        self.0.borrow_mut().push(shared);
        Ok(())
    }

    /// Adds a scope that a value refers to, and its parents.
    pub(crate) fn add_scope(&self, budget: &Budget, scope: &Scope) -> Result<()> {
        let mut next = Some(scope);
        while let Some(scope) = next.filter(|scope| !scope.0.is_shared.replace(true)) {
            self.add(budget, Shared::Scope(scope.clone()))?;
            next = scope.0.parent.as_ref();
        }
        Ok(())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        for shared in self.0.borrow().iter() {
            match shared {
                Shared::Scope(scope) => drop(std::mem::take(&mut *scope.0.variables.borrow_mut())),
                Shared::Namespace(namespace) => drop(std::mem::take(&mut *namespace.values.borrow_mut())),
                Shared::Loop(state) => drop(state.changed.take()),
            }
        }
    }
}

/// Items that can be taken once.
pub(crate) struct Iter {
    pub(crate) type_name: &'static str,
    pub(super) items: Seq,
    at: Cell<usize>,
}

impl Iter {
    pub(super) fn new(type_name: &'static str, items: Seq) -> Self {
        Self { type_name, items, at: Cell::new(0) }
    }

    /// All remaining items.
    pub(super) fn take_rest(&self) -> &[Value] {
        let from = self.at.replace(self.items.items.len());
        &self.items.items[from..]
    }

    /// The next item.
    pub(crate) fn take_next(&self) -> Option<Value> {
        let next = self.items.items.get(self.at.get()).cloned();
        self.at.set(self.items.items.len().min(self.at.get() + 1));
        next
    }
}

/// The variable `loop`.
pub(crate) struct Loop {
    pub(crate) items: Seq,
    pub(crate) at: Cell<usize>,
    /// Number of enclosing recursive loops.
    pub(crate) depth: usize,
    /// The last arguments of `loop.changed`.
    pub(crate) changed: RefCell<Option<Value>>,
    /// The recursive loop that a call runs.
    pub(crate) again: Option<(Arc<ast::For>, Scope)>,
}

/// A macro with the scope of its definition.
pub(crate) struct Macro {
    pub(crate) definition: Arc<ast::Macro>,
    pub(crate) scope: Scope,
}

/// A method of a value.
pub(crate) struct Method {
    pub(crate) value: Value,
    pub(crate) name: &'static str,
    pub(super) levels: usize,
}

impl Method {
    pub(crate) fn of(budget: &Budget, value: &Value, name: &'static str) -> Result<Value> {
        budget.values(2)?;
        let levels = levels(std::iter::once(value))?;
        Ok(Value::Method(Rc::new(Self { value: value.clone(), name, levels })))
    }
}

/// `cycler(…)`.
pub(crate) struct Cycler {
    pub(crate) items: Seq,
    pub(crate) at: Cell<usize>,
}
