//! Typed values of the JSON by their path. Problems are collected, so that all are reported at once.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::WarmupType;
use super::error::{invalid, shown, unsupported};
use crate::config::{Placement, ZeroStage, limits};

/// How a value is parsed, and how messages describe it.
#[derive(Clone, Copy)]
pub(super) struct Kind<T> {
    expected: &'static str,
    read: fn(&Value) -> Option<T>,
}

/// A whole number, also as `5e8`, like in DeepSpeed.
pub(super) const COUNT: Kind<u64> = Kind { expected: "a whole number of at least 0 (or \"auto\")", read: whole };

/// A number that is not negative.
pub(super) const NUMBER: Kind<f64> = Kind {
    expected: "a number of at least 0 (or \"auto\")",
    read: |value| value.as_f64().filter(|number| number.is_finite() && *number >= 0.0),
};

/// A learning rate.
pub(super) const RATE: Kind<f64> = Kind {
    expected: "a number of at least 0 and at most 100 (or \"auto\")",
    read: |value| value.as_f64().filter(|rate| limits::LEARNING_RATE.contains(rate)),
};

/// On or off.
pub(super) const SWITCH: Kind<bool> = Kind { expected: "true or false (or \"auto\")", read: Value::as_bool };

/// Adam's betas.
pub(super) const BETAS: Kind<[f64; 2]> = Kind {
    expected: "two numbers from 0 to below 1 (or \"auto\")",
    read: |value| match value.as_array()?.as_slice() {
        [first, second] => {
            Some([first.as_f64()?, second.as_f64()?]).filter(|betas| betas.iter().all(|beta| (0.0..1.0).contains(beta)))
        }
        _ => None,
    },
};

/// A name.
pub(super) const NAME: Kind<String> = Kind { expected: "a string", read: |value| value.as_str().map(str::to_owned) };

/// The number format of sums over ranks, by DeepSpeed's names.
pub(super) const REDUCED: Kind<&'static str> = Kind {
    expected: "\"fp32\" or \"bf16\" (or \"auto\")",
    read: |value| match value.as_str()? {
        "fp32" => Some("fp32"),
        "bf16" | "bfp16" => Some("bf16"),
        _ => None,
    },
};

/// A stage of ZeRO.
pub(super) const STAGE: Kind<ZeroStage> =
    Kind { expected: "0, 1, 2 or 3", read: |value| whole(value).and_then(|number| ZeroStage::try_from(number).ok()) };

/// The memory to offload to.
pub(super) const DEVICE: Kind<Placement> =
    Kind { expected: "\"none\" or \"cpu\"", read: |value| value.as_str()?.parse().ok() };

/// The shape of a warm-up.
pub(super) const WARMUP: Kind<WarmupType> = Kind {
    expected: "\"log\" or \"linear\"",
    read: |value| match value.as_str()? {
        "log" => Some(WarmupType::Log),
        "linear" => Some(WarmupType::Linear),
        _ => None,
    },
};

/// A setting of the file.
pub(super) enum Given<T> {
    /// Absent, `null`, refused or invalid. The last two are already reported.
    Absent,
    /// `"auto"`.
    Auto,
    /// A value.
    Value(T),
}

/// The file, its problems so far, and its settings with `"auto"` filled in.
pub(super) struct Reader<'a> {
    pub(super) root: &'a Value,
    pub(super) problems: Vec<String>,
    pub(super) resolved: Value,
    /// Keys that were looked up. All others of the file have no effect.
    pub(super) asked: RefCell<BTreeSet<String>>,
}

impl<'a> Reader<'a> {
    /// A file without problems so far.
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, problems: Vec::new(), resolved: Value::Null, asked: RefCell::default() }
    }

    /// The value at `key`, unless it is absent or `null`.
    pub(super) fn find(&self, key: &str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(key.to_owned());
        key.split('.').try_fold(self.root, |value, part| value.get(part)).filter(|value| !value.is_null())
    }

    /// Whether the `type` of a section is refused.
    pub(super) fn type_is_refused(&self, section: &str) -> bool {
        let begin = unsupported(&format!("{section}.type"));
        self.problems.iter().any(|problem| problem.starts_with(&begin))
    }

    /// The value at `key` if it is valid; reports nothing.
    pub(super) fn peek<T>(&self, key: &str, kind: Kind<T>) -> Option<T> {
        self.find(key).and_then(kind.read)
    }

    /// The value at `key`. An invalid one is reported, unless it is refused already.
    pub(super) fn given<T>(&mut self, key: &str, kind: Kind<T>) -> Given<T> {
        let refused = |problem: &String| problem.starts_with(&unsupported(key));
        let Some(value) = self.find(key).filter(|_| !self.problems.iter().any(refused)) else { return Given::Absent };
        match (kind.read)(value) {
            Some(value) => Given::Value(value),
            None if value == "auto" => Given::Auto,
            None => {
                self.problems.push(invalid(key, kind.expected, value));
                Given::Absent
            }
        }
    }

    /// Resolves `key` to `value`.
    pub(super) fn set(&mut self, key: &str, value: impl Serialize) {
        let place = key.split('.').fold(&mut self.resolved, |value, part| &mut value[part]);
        // Numbers and names always serialize.
        *place = serde_json::to_value(value).unwrap_or_default();
    }

    /// The value at `key`, or DeepSpeed's default if it is absent or `"auto"`.
    pub(super) fn or<T: Copy + Serialize>(&mut self, key: &str, kind: Kind<T>, default: T) -> T {
        let value = match self.given(key, kind) {
            Given::Value(value) => value,
            Given::Auto | Given::Absent => default,
        };
        self.set(key, value);
        value
    }

    /// The flag's value. A different value at `key` is reported.
    pub(super) fn agree<T>(&mut self, key: &str, kind: Kind<T>, flag: &'static str, flag_value: T) -> T
    where
        T: Copy + PartialEq + Serialize + Into<Value>,
    {
        if let Given::Value(value) = self.given(key, kind)
            && value != flag_value
        {
            let (value, flag_value) = (shown(&value.into()), shown(&flag_value.into()));
            let remedy = "write \"auto\" to take the flag's value";
            self.problems.push(format!("`{key}` is {value}, but {flag} is {flag_value}; {remedy}"));
        }
        self.set(key, flag_value);
        flag_value
    }
}

/// JSON parses `5e8` as a float.
fn whole(value: &Value) -> Option<u64> {
    /// 2⁶⁴.
    const END: f64 = 18_446_744_073_709_551_616.0;
    let float = || {
        value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..END).contains(number)).map(|number| number as u64)
    };
    value.as_u64().or_else(float)
}
