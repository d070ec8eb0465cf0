//! Methods of values other than texts.

use std::rc::Rc;

use super::arguments::Args;
use super::error::{Result, fail};
use super::run::Run;
use super::text;
use super::value::{Dict, Key, Method, Shared, Value, View, equal, items};

/// Calls a method.
pub(crate) fn call(run: &Run, method: &Method, args: Args) -> Result<Value> {
    let budget = &run.budget;
    let name = &*method.name;
    match (&method.value, name) {
        (Value::Text(own), _) => text::method(run, own, name, args),
        (Value::List(_) | Value::Dict(_), "copy") => args.none(name).map(|()| method.value.clone()),
        (value @ (Value::List(_) | Value::Tuple(_) | Value::Range(_)), "index" | "count") => {
            let [wanted, start, end] = args.bind(name, ["value", "start", "stop"], 1)?;
            let wanted = wanted.unwrap_or(Value::None);
            let all = items(budget, value)?;
            let place = |place: Option<Value>, default: usize| -> Result<usize> {
                let Some(place) = place else { return Ok(default) };
                let at = place.int()?;
                let at = if at < 0 { at.saturating_add(all.len() as i128).max(0) } else { at };
                Ok(usize::try_from(at).unwrap_or(usize::MAX))
            };
            let (start, end) = (place(start, 0)?, place(end, all.len())?);
            let mut count = 0;
            for (index, item) in all.iter().enumerate().take(end).skip(start) {
                if equal(budget, item, &wanted)? {
                    if name == "index" {
                        return Ok(Value::Int(index as i128));
                    }
                    count += 1;
                }
            }
            if name == "index" { fail!("the value is not in the {}", value.type_name()) } else { Ok(Value::Int(count)) }
        }
        (Value::Dict(dict), _) => dict_method(run, dict, name, args),
        (Value::Function(_), "fromkeys") => from_keys(run, args),
        (value, "conjugate") => args.none(name).map(|()| value.clone()),
        (value, "bit_length" | "bit_count") => {
            args.none(name)?;
            let size = value.int()?.unsigned_abs();
            let bits = if name == "bit_count" { size.count_ones() } else { u128::BITS - size.leading_zeros() };
            Ok(Value::Int(bits.into()))
        }
        (Value::Float(float), _) => args.none(name).map(|()| Value::Bool(float.fract() == 0.0)),
        (Value::Loop(state), "cycle") => match args.positional.len() {
            0 => fail!("no items for cycling given"),
            len => Ok(args.positional[state.at.get() % len].clone()),
        },
        (Value::Loop(state), _) => {
            let value = Value::tuple(budget, args.positional)?;
            let is_same = match &*state.changed.borrow() {
                Some(last) => equal(budget, last, &value)?,
                None => false,
            };
            if state.changed.borrow().is_none() {
                run.registry.add(budget, Shared::Loop(Rc::clone(state)))?;
            }
            let old = state.changed.replace(Some(value));
            drop(old);
            Ok(Value::Bool(!is_same))
        }
        (Value::Cycler(cycler), "next") => {
            args.none(name)?;
            let at = cycler.at.get();
            cycler.at.set((at + 1) % cycler.items.items.len());
            Ok(cycler.items.items[at].clone())
        }
        (Value::Cycler(cycler), _) => {
            cycler.at.set(0);
            Ok(Value::None)
        }
        (value, name) => fail!("'{}' object has no method '{name}'", value.type_name()),
    }
}

fn dict_method(run: &Run, dict: &Rc<Dict>, name: &str, args: Args) -> Result<Value> {
    let view = |view: View, args: Args| args.none(name).map(|()| Value::View(view, Rc::clone(dict)));
    match name {
        "keys" => view(View::Keys, args),
        "values" => view(View::Values, args),
        "items" => view(View::Items, args),
        "fromkeys" => from_keys(run, args),
        _ => {
            let [key, default] = args.bind(name, ["key", "default"], 1)?;
            let key = Key::new(&run.budget, key.unwrap_or(Value::None))?;
            Ok(dict.get(&key).cloned().or(default).unwrap_or(Value::None))
        }
    }
}

fn from_keys(run: &Run, args: Args) -> Result<Value> {
    let [keys, value] = args.bind("fromkeys", ["iterable", "value"], 1)?;
    let value = value.unwrap_or(Value::None);
    let keys = items(&run.budget, &keys.unwrap_or(Value::None))?;
    Value::dict(&run.budget, keys.into_iter().map(|key| (key, value.clone())))
}
