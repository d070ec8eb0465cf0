//! Calls of macros, loops, methods and functions.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::{body, eval, statements};
use crate::jinja::arguments::Args;
use crate::jinja::collections;
use crate::jinja::error::{Error, Result, fail};
use crate::jinja::run::Run;
use crate::jinja::value::{
    self, Cycler, Dict, Function, Key, Macro, Namespace, Range, Scope, Shared, Text, Value, items, quoted,
};

/// The function that every template has by this name.
pub(crate) fn function_named(name: &str) -> Option<Function> {
    Some(match name {
        "range" => Function::Range,
        "dict" => Function::Dict,
        "namespace" => Function::Namespace,
        "cycler" => Function::Cycler,
        "joiner" => Function::Joiner,
        "lipsum" => Function::Lipsum,
        "raise_exception" => Function::RaiseException,
        "strftime_now" => Function::StrftimeNow,
        _ => return None,
    })
}

/// `callee(…)`.
pub(crate) fn call(run: &Run, callee: &Value, args: Args) -> Result<Value> {
    let _level = run.budget.enter()?;
    match callee {
        Value::Undefined(undefined) => Err(Error::new(undefined.why.clone())),
        Value::Method(method) => collections::call(run, method, args),
        Value::Macro(made) => call_macro(run, made, args),
        Value::Function(function) => call_function(run, *function, args),
        Value::Loop(state) => {
            let Some((tag, scope)) = &state.again else {
                return fail!("The loop must have the 'recursive' marker to be called recursively.");
            };
            let [iterable] = args.bind("loop", ["iterable"], 1)?;
            let mut out = String::new();
            let iterable = iterable.unwrap_or(Value::None);
            statements::for_loop(run, scope, tag, &iterable, state.depth + 1, &mut out)?;
            Value::made(&run.budget, out, run.escapes.get())
        }
        Value::Joiner(joiner) => {
            args.none("joiner")?;
            Ok(if joiner.1.replace(true) { Value::Text(joiner.0.clone()) } else { Value::plain("") })
        }
        other => fail!("'{}' object is not callable", other.type_name()),
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
    Value::made(budget, out, run.escapes.get())
}

fn call_function(run: &Run, function: Function, args: Args) -> Result<Value> {
    let budget = &run.budget;
    match function {
        Function::Range => {
            let [begin, end, step] = args.bind("range", ["start", "stop", "step"], 1)?;
            let first = begin.unwrap_or(Value::None).int()?;
            let range = match end {
                None => Range { begin: 0, end: first, step: 1 },
                Some(end) => Range { begin: first, end: end.int()?, step: step.map_or(Ok(1), |step| step.int())? },
            };
            range.checked().map(Value::Range)
        }
        Function::Dict => dict(run, args).map(|dict| Value::Dict(Rc::new(dict))),
        Function::Namespace => {
            let namespace = Rc::new(Namespace::default());
            run.registry.add(budget, Shared::Namespace(Rc::clone(&namespace)))?;
            for (key, value) in dict(run, args)?.iter() {
                set_in(run, &namespace, key.value().str()?.into(), value.clone())?;
            }
            Ok(Value::Namespace(namespace))
        }
        Function::Cycler => {
            if args.positional.is_empty() {
                return fail!("at least one item has to be provided");
            }
            let items = value::seq(budget, args.positional)?;
            Ok(Value::Cycler(Rc::new(Cycler { items, at: Cell::new(0) })))
        }
        Function::Joiner => {
            let [separator] = args.bind("joiner", ["sep"], 0)?;
            let separator = match separator {
                Some(Value::Text(text)) => text,
                Some(other) => Text { text: value::text(budget, &other)?.into(), markup: false },
                None => Text { text: ", ".into(), markup: false },
            };
            Ok(Value::Joiner(Rc::new((separator, Cell::new(false)))))
        }
        Function::Lipsum => lipsum(run, args),
        Function::RaiseException => {
            let [message] = args.bind("raise_exception", ["message"], 1)?;
            Err(Error::raised(value::text(budget, &message.unwrap_or(Value::None))?))
        }
        Function::StrftimeNow => {
            let [format] = args.bind("strftime_now", ["format"], 1)?;
            let format = format.unwrap_or(Value::None);
            let text = jiff::fmt::strtime::format(format.str()?, &jiff::Zoned::now());
            Value::text(budget, text.map_err(|error| Error::new(format!("strftime_now: {error}")))?)
        }
    }
}

/// `dict(…)`: the pairs of a dict or a list, and those with names.
fn dict(run: &Run, args: Args) -> Result<Dict> {
    let budget = &run.budget;
    let mut dict = Dict::default();
    let [pairs] = Args::of(args.positional).bind("dict", ["pairs"], 0)?;
    match pairs {
        None => {}
        Some(Value::Dict(pairs)) => {
            for (key, value) in pairs.iter() {
                dict.insert(budget, key.clone(), value.clone())?;
            }
        }
        Some(pairs) => {
            for pair in items(budget, &pairs)? {
                let [key, value] = &items(budget, &pair)?[..] else { return fail!("dict takes pairs") };
                dict.insert(budget, Key::new(budget, key.clone())?, value.clone())?;
            }
        }
    }
    for (name, value) in args.named {
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

/// Text without a meaning, always the same.
fn lipsum(run: &Run, args: Args) -> Result<Value> {
    const WORDS: &str = "Lorem ipsum dolor sit amet, consectetuer adipiscing elit. ";
    let [n, html, min, max] = args.bind("lipsum", ["n", "html", "min", "max"], 0)?;
    let is_html = html.is_none_or(|html| html.truth().unwrap_or(true));
    let count = |value: Option<Value>, default: i128| value.map_or(Ok(default), |value| value.int());
    let (n, min, max) = (count(n, 5)?, count(min, 20)?, count(max, 100)?);
    let paragraphs = usize::try_from(n.max(0)).unwrap_or(usize::MAX);
    let sentences = usize::try_from((min.max(1).saturating_add(max.max(1)) / 16).max(1)).unwrap_or(usize::MAX);
    run.budget.text(paragraphs.saturating_mul(sentences).saturating_mul(WORDS.len() + 9))?;
    let one = WORDS.repeat(sentences);
    let one = if is_html { format!("<p>{}</p>", one.trim_end()) } else { one.trim_end().to_owned() };
    Value::made(&run.budget, vec![one; paragraphs].join("\n\n"), is_html)
}
