//! Alpaca's `instruction`, `input`, `output` into `prompt` and `target`.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use spag_io::RowReader;

use crate::{Error, Result, sample_file::RowWriter};

/// A row of an Alpaca file; other keys are of no use here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(expecting = "an Alpaca row: an object with `instruction`, `input` and `output`")]
pub struct AlpacaRow {
    /// What is asked.
    pub instruction: String,
    /// What the question is about; often empty.
    #[serde(default)]
    pub input: String,
    /// The answer.
    pub output: String,
}

/// A prompt and the text that should follow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Demonstration {
    /// What the model is shown.
    pub prompt: String,
    /// What it should say.
    pub target: String,
}

/// How an Alpaca row becomes a prompt: one wording for rows with an `input`, one for rows without.
///
/// ```
/// use spag_rewards::{AlpacaRow, AlpacaTemplate};
/// let row = AlpacaRow { instruction: "Name a fruit.".into(), input: "".into(), output: "Apple".into() };
/// let made = AlpacaTemplate::default().apply(&row);
/// assert!(made.prompt.contains("Name a fruit."));
/// assert_eq!(made.target, "Apple");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlpacaTemplate {
    with_input: String,
    without_input: String,
}

const INSTRUCTION: &str = "{instruction}";
const INPUT: &str = "{input}";

impl Default for AlpacaTemplate {
    fn default() -> Self {
        Self {
            with_input:
                "Here is a task, and some material to work on.\n\nTask: {instruction}\n\nMaterial: {input}\n\nAnswer: "
                    .into(),
            without_input: "Here is a task.\n\nTask: {instruction}\n\nAnswer: ".into(),
        }
    }
}

impl AlpacaTemplate {
    /// Reads a JSON object with the strings `with_input` and `without_input`.
    ///
    /// # Errors
    /// A file that is missing, is not such an object, or whose wordings leave out `{instruction}` or `{input}`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |error: &dyn std::error::Error| Error::Template {
            what: path.display().to_string(),
            problem: error.to_string(),
        };
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let template: Self = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        let wants = [
            ("with_input", &template.with_input, INSTRUCTION, true),
            ("with_input", &template.with_input, INPUT, true),
            ("without_input", &template.without_input, INSTRUCTION, true),
            ("without_input", &template.without_input, INPUT, false),
        ];
        for (name, wording, placeholder, wanted) in wants {
            if wording.contains(placeholder) != wanted {
                let verb = if wanted { "must contain" } else { "must not contain" };
                let what = format!("{}: {name}", path.display());
                return Err(Error::Template { what, problem: format!("{verb} {placeholder}") });
            }
        }
        Ok(template)
    }

    /// Makes a row's prompt; an input of nothing but whitespace counts as none. The target is the output as it is.
    pub fn apply(&self, row: &AlpacaRow) -> Demonstration {
        let prompt = match row.input.trim() {
            "" => fill(&self.without_input, row),
            _ => fill(&self.with_input, row),
        };
        Demonstration { prompt, target: row.output.clone() }
    }
}

/// Converts a file of Alpaca rows (a JSON list or JSONL) one row at a time, and returns how many there were.
///
/// # Errors
/// A file that cannot be read or written, or a row without `instruction` or `output`.
pub fn convert_alpaca(input: impl AsRef<Path>, output: impl AsRef<Path>, template: &AlpacaTemplate) -> Result<usize> {
    let mut output = RowWriter::create(output.as_ref())?;
    let mut rows = 0;
    for row in RowReader::<AlpacaRow>::open(input.as_ref())? {
        let (_, row) = row?;
        output.push(&template.apply(&row))?;
        rows += 1;
    }
    output.finish()?;
    Ok(rows)
}

/// Puts the row's texts into the placeholders in one pass, so that a text which looks like a placeholder stays as it is.
fn fill(template: &str, row: &AlpacaRow) -> String {
    let mut filled = String::with_capacity(template.len() + row.instruction.len() + row.input.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, tail) = rest.split_at(at);
        filled.push_str(before);
        rest = if let Some(after) = tail.strip_prefix(INSTRUCTION) {
            filled.push_str(&row.instruction);
            after
        } else if let Some(after) = tail.strip_prefix(INPUT) {
            filled.push_str(&row.input);
            after
        } else {
            filled.push('{');
            tail.strip_prefix('{').unwrap_or_default()
        };
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(instruction: &str, input: &str) -> AlpacaRow {
        AlpacaRow { instruction: instruction.into(), input: input.into(), output: " out\n".into() }
    }

    fn load(text: &str) -> Result<AlpacaTemplate> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("template.json");
        fs::write(&path, text).unwrap();
        AlpacaTemplate::load(path)
    }

    #[test]
    fn an_own_template_is_filled_in_one_pass() {
        let template =
            load(r#"{"with_input": "{x} {instruction}|{input}|{", "without_input": "<{instruction}>"}"#).unwrap();
        assert_eq!(template.apply(&row("{input}", "{instruction}")).prompt, "{x} {input}|{instruction}|{");
        let made = template.apply(&row("é", " \n"));
        assert_eq!((made.prompt.as_str(), made.target.as_str()), ("<é>", " out\n"));
    }

    #[test]
    fn the_default_names_the_input_only_where_there_is_one() {
        let template = AlpacaTemplate::default();
        let (with, without) = (template.apply(&row("do", "this")).prompt, template.apply(&row("do", "")).prompt);
        assert!(with.contains("do") && with.contains("this") && without.contains("do"));
        assert!(![with, without].iter().any(|prompt| prompt.contains(['{', '}'])));
    }

    #[test]
    fn broken_templates_are_refused() {
        for (text, why) in [
            (
                r#"{"with_input": "{instruction}", "without_input": "{instruction}"}"#,
                "with_input: must contain {input}",
            ),
            (
                r#"{"with_input": "{instruction}{input}", "without_input": "{input}{instruction}"}"#,
                "without_input: must not contain {input}",
            ),
            (r#"{"with_input": "{instruction}{input}"}"#, "missing field `without_input`"),
            (r#"{"with": "", "with_input": "", "without_input": ""}"#, "unknown field `with`"),
            ("{", "EOF"),
        ] {
            let message = load(text).unwrap_err().to_string();
            assert!(message.contains(why) && message.contains("template.json"), "{message}");
        }
        assert!(AlpacaTemplate::load("/no/such.json").is_err());
    }
}
