//! Global functions of templates.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crate::jinja::call::{Call, Entry};
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::run::Run;
use crate::jinja::value::{self, Cycler, Dict, Key, Namespace, Range, Shared, Text, Value, items, quoted};

/// All functions.
pub(crate) const FUNCTIONS: &[Entry<Value>] = &[
    Entry("cycler", "*", cycler),
    Entry("dict", "*", |call, _| Ok(Value::Dict(Rc::new(pairs(call)?)))),
    Entry("joiner", "sep?", joiner),
    Entry("namespace", "*", namespace),
    Entry("raise_exception", "message", |call, _| Err(Error::raised(value::text(call.budget, call.arg(0))?))),
    Entry("range", "start stop? step?", range),
    Entry("strftime_now", "format", strftime_now),
];

fn range(call: &mut Call<'_>, _: &Value) -> Result<Value> {
    let first = call.arg(0).int()?;
    let range = match call.passed(1) {
        None => Range { begin: 0, end: first, step: 1 },
        Some(end) => Range { begin: first, end: end.int()?, step: call.int(2, 1)? },
    };
    range.checked().map(Value::Range)
}

fn namespace(call: &mut Call<'_>, _: &Value) -> Result<Value> {
    let namespace = Rc::new(Namespace::default());
    call.run.registry.add(call.budget, Shared::Namespace(Rc::clone(&namespace)))?;
    for (key, value) in pairs(call)?.iter() {
        set_in(call.run, &namespace, key.value().str()?.into(), value.clone())?;
    }
    Ok(Value::Namespace(namespace))
}

fn cycler(call: &mut Call<'_>, _: &Value) -> Result<Value> {
    let items = std::mem::take(&mut call.rest.positional);
    if items.is_empty() {
        return fail!("at least one item has to be provided");
    }
    Ok(Value::Cycler(Rc::new(Cycler { items: value::seq(call.budget, items)?, at: Cell::new(0) })))
}

fn joiner(call: &mut Call<'_>, _: &Value) -> Result<Value> {
    let separator = match call.passed(0) {
        Some(separator) => call.own(separator)?,
        None => Text { text: ", ".into(), markup: false },
    };
    Ok(Value::Joiner(Rc::new((separator, Cell::new(false)))))
}

fn strftime_now(call: &mut Call<'_>, _: &Value) -> Result<Value> {
    let text = jiff::fmt::strtime::format(call.arg(0).str()?, &jiff::Zoned::now());
    Value::text(call.budget, text.map_err(|error| Error::new(format!("strftime_now: {error}")))?)
}

/// The pairs of a dict or a list, and of keyword arguments.
fn pairs(call: &mut Call<'_>) -> Result<Dict> {
    let budget = call.budget;
    let mut dict = Dict::default();
    match &call.rest.positional[..] {
        [] => {}
        [Value::Dict(pairs)] => dict = (**pairs).clone(),
        [pairs] => {
            for pair in items(budget, pairs)? {
                let [key, value] = &items(budget, &pair)?[..] else { return fail!("dict takes pairs") };
                dict.insert(budget, Key::new(budget, key.clone())?, value.clone())?;
            }
        }
        _ => return fail!("{} takes at most 1 argument without a name", call.name),
    }
    for (name, value) in std::mem::take(&mut call.rest.named) {
        dict.insert(budget, Key::new(budget, Value::plain(name))?, value)?;
    }
    Ok(dict)
}

/// Sets an attribute of a namespace.
pub(super) fn set_in(run: &Run, namespace: &Namespace, name: Arc<str>, value: Value) -> Result<()> {
    if name.starts_with('_') {
        return fail!(
            "Chat templates cannot store underscore-prefixed attributes on a namespace, but got {}. Please rename the attribute.",
            quoted(&name)
        );
    }
    run.budget.values(2)?;
    let old = namespace.values.borrow_mut().insert(name, value);
    drop(old);
    Ok(())
}
