//! Converters of other data: Alpaca rows to demonstrations, and games of a strong player to samples to imitate.

use std::path::Path;

use serde::{Deserialize, Serialize};
use spag_game::{EpisodeReader, Game};
use spag_io::RowReader;

use crate::credit::{Crediting, ImitatedWinner};
use crate::sample_file::{Layout, RowWriter};
use crate::{CreditSummary, Error, Result, Sample, SampleReasoning};

/// A row of an Alpaca file. Other keys are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(expecting = "an Alpaca row: an object with `instruction`, `input` and `output`")]
pub struct AlpacaRow {
    /// The task.
    pub instruction: String,
    /// The material of the task; often empty.
    #[serde(default, deserialize_with = "spag_io::null_is_default")]
    pub input: String,
    /// The answer.
    pub output: String,
}

/// A prompt and its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Demonstration {
    /// The prompt.
    pub prompt: String,
    /// The text to learn.
    pub target: String,
}

/// The prompts for Alpaca rows with and without an `input`.
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

/// The most bytes of a file of templates.
const MAX_BYTES: u64 = 1 << 24;

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
    /// The file cannot be read or is not such an object, or a placeholder `{instruction}` or `{input}` is missing.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |problem: String| Error::Template { what: path.display().to_string(), problem };
        let bytes = spag_io::read_whole(path, MAX_BYTES)?;
        let text = str::from_utf8(&bytes).map_err(|error| wrong(error.to_string()))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let template: Self = serde_json::from_str(text)
            .map_err(|error| wrong(spag_io::cause::<Self>(text.as_bytes(), "file", &error)))?;
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

    /// The prompt and the unchanged output of a row. A blank input counts as none.
    pub fn apply(&self, row: &AlpacaRow) -> Demonstration {
        let template = if row.input.trim().is_empty() { &self.without_input } else { &self.with_input };
        // Split before anything is filled in, so that placeholders in the row's texts are plain text.
        let fill_input = |part: &str| part.split(INPUT).collect::<Vec<_>>().join(&row.input);
        let prompt = template.split(INSTRUCTION).map(fill_input).collect::<Vec<_>>().join(&row.instruction);
        Demonstration { prompt, target: row.output.clone() }
    }
}

/// Converts a file of Alpaca rows (a JSON list or JSONL) row by row. Returns the number of rows.
///
/// # Errors
/// A file cannot be read or written, or a row lacks `instruction` or `output`.
pub fn convert_alpaca(input: impl AsRef<Path>, output: impl AsRef<Path>, template: &AlpacaTemplate) -> Result<usize> {
    let mut output = RowWriter::create(output.as_ref(), Layout::of(output.as_ref()))?;
    let mut rows = 0;
    for row in RowReader::<AlpacaRow>::open_with_rows(input.as_ref())? {
        output.push(&template.apply(&row?.1))?;
        rows += 1;
    }
    output.finish()?;
    Ok(rows)
}

/// A row of general text.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a row with `prompt` and `target`, or an Alpaca row with `instruction`, `input` and `output`"
)]
enum SftRow {
    Sample(Sample),
    Alpaca(AlpacaRow),
}

/// Reads demonstrations: rows with a prompt and a target, or Alpaca rows, which `template` makes prompts of. Rows of both kinds
/// may be mixed.
///
/// # Errors
/// The file cannot be read, or a row is of neither kind.
pub fn read_sft_samples(path: impl AsRef<Path>, template: &AlpacaTemplate) -> Result<Vec<Sample>> {
    let rows = RowReader::<SftRow>::open_with_rows(path.as_ref())?;
    let sample = |row| match row {
        SftRow::Sample(sample) => Sample::into_sft(sample),
        SftRow::Alpaca(row) => {
            let Demonstration { prompt, target } = template.apply(&row);
            Sample::sft(prompt, target)
        }
    };
    rows.map(|row| Ok(sample(row?.1))).collect()
}

/// Turns the utterances of winners, up to the deciding one, into samples to imitate, with reward and weight 1.
///
/// Queries are worded as by [`assign_rewards`](crate::assign_rewards). Reads one episode at a time.
///
/// # Errors
/// A file cannot be read or written, or a row is not an episode of `game`.
pub fn convert_imitation(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    game: &dyn Game,
    (seed, reasoning): (u64, &SampleReasoning),
) -> Result<CreditSummary> {
    let crediting = Crediting { rule: &ImitatedWinner, game, seed, reasoning };
    let mut summary = CreditSummary::new(game.labels());
    let mut output = RowWriter::create(output.as_ref(), Layout::of(output.as_ref()))?;
    let episodes = EpisodeReader::open_with_rows(input)?;
    let path = episodes.path().to_owned();
    for (index, row) in episodes.judged(game).enumerate() {
        let (row, episode, verdict) = row?;
        summary.games.add(&verdict);
        if crediting.rule.has_samples(&verdict) {
            let named = |error: Error| spag_io::Error::Row { path: path.clone(), row, reason: error.to_string() };
            let samples = crediting.samples(index, &episode.view(), &verdict, &mut summary).map_err(named)?;
            samples.iter().try_for_each(|sample| output.push(sample))?;
        }
    }
    output.finish()?;
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn template_is_filled_in_once() {
        let template =
            load(r#"{"with_input": "{x} {instruction}|{input}|{", "without_input": "<{instruction}>"}"#).unwrap();
        assert_eq!(template.apply(&row("{input}", "{instruction}")).prompt, "{x} {input}|{instruction}|{");
        let made = template.apply(&row("é", " \n"));
        assert_eq!((made.prompt.as_str(), made.target.as_str()), ("<é>", " out\n"));
    }

    #[test]
    fn default_template_names_the_input_if_there_is_one() {
        let template = AlpacaTemplate::default();
        let (with, without) = (template.apply(&row("do", "this")).prompt, template.apply(&row("do", "")).prompt);
        assert!(with.contains("do") && with.contains("this") && without.contains("do"));
        assert!(![with, without].iter().any(|prompt| prompt.contains(['{', '}'])));
    }

    #[test]
    fn general_texts_are_alpaca_rows_or_demonstrations() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("texts.json");
        let rows = r#"[{"instruction": "Add", "input": "1 1", "output": "2"}, {"prompt": "2+2=", "target": "4", "weight": 3}]"#;
        fs::write(&path, rows).unwrap();
        let read = read_sft_samples(&path, &AlpacaTemplate::default()).unwrap();
        assert!(read[0].query.text().contains("Add") && read[0].query.text().contains("1 1"), "{read:?}");
        assert_eq!(read[0].target, "2");
        assert_eq!(read[1], Sample::sft("2+2=", "4"));
        fs::write(&path, r#"[{"instruction": "Add"}]"#).unwrap();
        let said = read_sft_samples(&path, &AlpacaTemplate::default()).unwrap_err().to_string();
        assert!(said.contains("row 1") && said.contains("`prompt` and `target`"), "{said}");
    }

    #[test]
    fn invalid_template_is_refused() {
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
