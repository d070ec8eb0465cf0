//! `tojson` as defined by transformers: `json.dumps`.

use crate::jinja::ast::Comparison;
use crate::jinja::budget::{Budget, NODE, Out};
use crate::jinja::call::Call;
use crate::jinja::error::{Result, fail};
use crate::jinja::text::blanks;
use crate::jinja::value::{Dict, Value, compare, float_text, items};

/// A JSON writer with its format.
struct Writer<'a> {
    budget: &'a Budget,
    indent: Option<String>,
    between_items: String,
    after_key: String,
    is_ascii: bool,
    is_sorted: bool,
    out: Out<'a>,
}

/// `value|tojson(…)`.
pub(super) fn to_json(call: &mut Call<'_>, value: &Value) -> Result<Value> {
    let budget = call.budget;
    let indent = call.given(1).map(|indent| blanks(budget, indent)).transpose()?;
    let (between_items, after_key) = match call.given(2) {
        Some(pair) => {
            let [between, after] = &items(budget, pair)?[..] else { return fail!("tojson: separators are two texts") };
            (between.str()?.to_owned(), after.str()?.to_owned())
        }
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let (is_ascii, is_sorted, out) = (call.is_set(0)?, call.is_set(3)?, Out::new(budget));
    let mut writer = Writer { budget, indent, between_items, after_key, is_ascii, is_sorted, out };
    writer.value(value, 0)?;
    Value::text(budget, writer.out.text)
}

impl Writer<'_> {
    fn line(&mut self, level: usize) -> Result<()> {
        let Some(indent) = &self.indent else { return Ok(()) };
        self.budget.text(indent.len().saturating_mul(level))?;
        self.out.push(&format!("\n{}", indent.repeat(level)))
    }

    fn value(&mut self, value: &Value, level: usize) -> Result<()> {
        self.budget.work(NODE)?;
        let _level = self.budget.enter()?;
        match value {
            Value::Text(text) => self.string(&text.text),
            Value::List(seq) | Value::Tuple(seq) => {
                if seq.items.is_empty() {
                    return self.out.push("[]");
                }
                self.out.push("[")?;
                for (index, item) in seq.items.iter().enumerate() {
                    self.begin(index, level + 1)?;
                    self.value(item, level + 1)?;
                }
                self.line(level)?;
                self.out.push("]")
            }
            Value::Dict(dict) => self.object(dict, level),
            other => match scalar(other) {
                Some(text) => self.out.push(&text),
                None => fail!("Object of type {} is not JSON serializable", other.type_name()),
            },
        }
    }

    fn begin(&mut self, index: usize, level: usize) -> Result<()> {
        if index > 0 {
            self.out.push(&self.between_items)?;
        }
        self.line(level)
    }

    fn object(&mut self, dict: &Dict, level: usize) -> Result<()> {
        if dict.len() == 0 {
            return self.out.push("{}");
        }
        self.budget.values(dict.len())?;
        let mut entries: Vec<(&Value, &Value)> = dict.iter().map(|(key, value)| (key.value(), value)).collect();
        if self.is_sorted {
            for pair in entries.windows(2) {
                // Keys that cannot be ordered are an error.
                compare(self.budget, Comparison::Less, pair[0].0, pair[1].0)?;
            }
            let key = |key: &Value| (key.as_float().unwrap_or(0.0), key.as_text().map(str::to_owned));
            entries.sort_by(|a, b| {
                let (a, b) = (key(a.0), key(b.0));
                a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1))
            });
        }
        self.out.push("{")?;
        for (index, (key, value)) in entries.into_iter().enumerate() {
            self.begin(index, level + 1)?;
            match key {
                Value::Text(text) => self.string(&text.text)?,
                other => match scalar(other) {
                    Some(text) => self.string(&text)?,
                    None => return fail!("keys must be str, int, float, bool or None, not {}", other.type_name()),
                },
            }
            self.out.push(&self.after_key)?;
            self.value(value, level + 1)?;
        }
        self.line(level)?;
        self.out.push("}")
    }

    fn string(&mut self, text: &str) -> Result<()> {
        self.budget.text(text.len())?;
        let mut out = String::with_capacity(text.len() + 2);
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x08' => out.push_str("\\b"),
                '\x0c' => out.push_str("\\f"),
                c if c < ' ' || self.is_ascii && !(' '..='~').contains(&c) => {
                    let mut units = [0; 2];
                    c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
                }
                c => out.push(c),
            }
        }
        out.push('"');
        self.out.push(&out)
    }
}

/// A value that is neither a text nor a container.
fn scalar(value: &Value) -> Option<String> {
    Some(match value {
        Value::None => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) if value.is_nan() => "NaN".to_owned(),
        Value::Float(value) if value.is_infinite() => if *value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        Value::Float(value) => float_text(*value),
        _ => return None,
    })
}
