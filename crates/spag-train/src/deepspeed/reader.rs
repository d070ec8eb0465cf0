//! Typed values out of the JSON by their path, with every fault noted and reading going on.

use serde_json::Value;

use super::{Device, Problem, WarmupType, ZeroStage};

/// How a value is read and what to call it in a message.
#[derive(Clone, Copy)]
pub(super) struct Kind<T> {
    expected: &'static str,
    read: fn(&Value) -> Option<T>,
}

/// A whole number. Written as `5e8` it counts too, as DeepSpeed takes it.
pub(super) const COUNT: Kind<u64> = Kind {
    expected: "a whole number of at least 0 (or \"auto\")",
    read: |value| value.as_u64().or_else(|| whole(value)),
};

/// Learning rates and the like.
pub(super) const NUMBER: Kind<f64> = Kind {
    expected: "a number of at least 0 (or \"auto\")",
    read: |value| value.as_f64().filter(|number| number.is_finite() && *number >= 0.0),
};

/// On or off.
pub(super) const SWITCH: Kind<bool> = Kind { expected: "true or false (or \"auto\")", read: Value::as_bool };

/// Adam's two decays.
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

/// A stage of ZeRO.
pub(super) const STAGE: Kind<ZeroStage> = Kind {
    expected: "0, 1, 2 or 3",
    read: |value| value.as_u64().or_else(|| whole(value)).and_then(ZeroStage::from_number),
};

/// A memory to offload to.
pub(super) const DEVICE: Kind<Device> = Kind {
    expected: "\"none\" or \"cpu\"",
    read: |value| match value.as_str()? {
        "none" => Some(Device::None),
        "cpu" => Some(Device::Cpu),
        _ => None,
    },
};

/// The shape of a warm-up.
pub(super) const WARMUP: Kind<WarmupType> = Kind {
    expected: "\"log\" or \"linear\"",
    read: |value| match value.as_str()? {
        "log" => Some(WarmupType::Log),
        "linear" => Some(WarmupType::Linear),
        _ => None,
    },
};

/// A setting as the file has it.
pub(super) enum Given<T> {
    /// Left out, `null`, refused, or faulty, which is noted.
    Absent,
    /// `"auto"`.
    Auto,
    /// A value.
    Value(T),
}

/// The file and what was found wrong with it so far.
pub(super) struct Reader<'a> {
    root: &'a Value,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// A reader of a file whose keys have these problems.
    pub(super) fn new(root: &'a Value, problems: Vec<Problem>) -> Self {
        Self { root, problems }
    }

    /// All problems.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Notes a problem.
    pub(super) fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// The value at `key`, if there is one that is not `null`.
    pub(super) fn find(&self, key: &str) -> Option<&'a Value> {
        key.split('.').try_fold(self.root, |value, part| value.get(part)).filter(|value| !value.is_null())
    }

    /// The value at `key` if it is given and of its kind, without noting anything.
    pub(super) fn peek<T>(&self, key: &str, kind: Kind<T>) -> Option<T> {
        self.find(key).and_then(kind.read)
    }

    /// The value at `key`; one of another kind is noted. What is refused already needs no second complaint.
    pub(super) fn given<T>(&mut self, key: &'static str, kind: Kind<T>) -> Given<T> {
        let refused =
            |problem: &Problem| matches!(problem, Problem::Unsupported { key: refused, .. } if refused == key);
        let Some(value) = self.find(key).filter(|_| !self.problems.iter().any(refused)) else { return Given::Absent };
        match (kind.read)(value) {
            Some(value) => Given::Value(value),
            None if value == "auto" => Given::Auto,
            None => {
                self.report(Problem::Invalid { key: key.to_owned(), expected: kind.expected, value: shown(value) });
                Given::Absent
            }
        }
    }

    /// The value at `key` or DeepSpeed's default. As in DeepSpeed, `"auto"` that nobody fills in is the default.
    pub(super) fn or<T>(&mut self, key: &'static str, kind: Kind<T>, default: T) -> T {
        match self.given(key, kind) {
            Given::Value(value) => value,
            Given::Absent | Given::Auto => default,
        }
    }

    /// The flag's value; a given one that differs is noted.
    pub(super) fn agree<T>(&mut self, key: &'static str, kind: Kind<T>, flag: &'static str, flag_value: T) -> T
    where
        T: Clone + PartialEq + Into<Value>,
    {
        if let Given::Value(value) = self.given(key, kind)
            && value != flag_value
        {
            let (value, flag_value) = (shown(&value.into()), shown(&flag_value.clone().into()));
            self.report(Problem::Mismatch { key, value, flag, flag_value });
        }
        flag_value
    }
}

/// A value for a message: JSON, cut where it would fill the screen.
pub(super) fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// `5e8` is a float to JSON.
fn whole(value: &Value) -> Option<u64> {
    /// 2⁶⁴: every whole float below fits.
    const END: f64 = 18_446_744_073_709_551_616.0;
    value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..END).contains(number)).map(|number| number as u64)
}
