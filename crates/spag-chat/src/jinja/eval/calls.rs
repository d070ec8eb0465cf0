//! Calls of values: macros, loops, methods and functions.

use super::{FUNCTIONS, body, eval, statements};
use crate::jinja::call::{Args, Entry};
use crate::jinja::error::{Result, fail};
use crate::jinja::methods::methods;
use crate::jinja::run::Run;
use crate::jinja::value::{Macro, Scope, Value, quoted};

/// `callee(…)`.
pub(crate) fn call(run: &Run, callee: &Value, args: Args) -> Result<Value> {
    let _level = run.budget.enter()?;
    match callee.defined()? {
        Value::Method(method) => named(methods(&method.value), method.name, run, &method.value, args),
        Value::Macro(made) => call_macro(run, made, args),
        Value::Function(name) => named(FUNCTIONS, name, run, &Value::None, args),
        Value::Loop(state) => {
            let Some((tag, scope)) = &state.again else {
                return fail!("The loop must have the 'recursive' marker to be called recursively.");
            };
            let mut out = String::new();
            let [iterable] = &args.positional[..] else { return fail!("loop takes one iterable") };
            statements::for_loop(run, scope, tag, iterable, state.depth + 1, &mut out)?;
            Value::text(&run.budget, out)
        }
        Value::Joiner(joiner) => {
            Ok(if joiner.1.replace(true) { Value::Text(joiner.0.clone()) } else { Value::plain("") })
        }
        other => fail!("'{}' object is not callable", other.type_name()),
    }
}

/// Calls an entry of a table with a value.
fn named(table: &'static [Entry<Value>], name: &str, run: &Run, value: &Value, args: Args) -> Result<Value> {
    match Entry::find(table, name) {
        Some(entry) => entry.call(run, value, args),
        None => fail!("'{}' object has no method '{name}'", value.type_name()),
    }
}

fn call_macro(run: &Run, made: &Macro, args: Args) -> Result<Value> {
    let definition = &made.definition;
    let (budget, parameters) = (&run.budget, &definition.parameters);
    let name = &definition.name;
    let scope = Scope::new(Some(&made.scope));
    let mut positional = args.positional.into_iter();
    let mut bound: Vec<Option<Value>> =
        positional.by_ref().take(parameters.len()).collect::<Vec<_>>().into_iter().map(Some).collect();
    bound.resize_with(parameters.len(), || None);
    let (mut rest, mut caller) = (Vec::new(), None);
    budget.work(args.named.len().saturating_mul(parameters.len()))?;
    for (key, value) in args.named {
        match parameters.iter().position(|(parameter, _)| *parameter == key) {
            Some(index) if bound[index].is_none() => bound[index] = Some(value),
            Some(_) => return fail!("macro {} got multiple values for argument {}", quoted(name), quoted(&key)),
            None if *key == *"caller" && definition.uses.caller => caller = Some(value),
            None => rest.push((key, value)),
        }
    }
    if definition.uses.kwargs {
        let pairs = rest.into_iter().map(|(key, value)| (Value::plain(key), value));
        scope.set(&"kwargs".into(), Value::dict(budget, pairs)?);
    } else if let Some((key, _)) = rest.first() {
        return fail!("macro {} takes no keyword argument {}", quoted(name), quoted(key));
    }
    let more: Vec<Value> = positional.collect();
    if definition.uses.varargs {
        scope.set(&"varargs".into(), Value::tuple(budget, more)?);
    } else if !more.is_empty() {
        return fail!("macro {} takes not more than {} argument(s)", quoted(name), parameters.len());
    }
    if definition.uses.caller {
        scope.set(&"caller".into(), caller.unwrap_or_else(|| run.undefined("No caller defined")));
    }
    for ((parameter, default), value) in parameters.iter().zip(bound) {
        let value = match (value, default) {
            (Some(value), _) => value,
            (None, Some(default)) => eval(run, &scope, default)?,
            (None, None) => run.undefined(format!("parameter {} was not provided", quoted(parameter))),
        };
        scope.set(parameter, value);
    }
    let mut out = String::new();
    body(run, &scope, &definition.body, &mut out)?;
    Value::text(budget, out)
}
