//! `spag check`: answers that other programs wrote, compared as mathematics.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use spag_cli::{Error, Result, exit};
use spag_io::{CommandFiles, RowReader, write_jsonl_atomically};
use spag_math::{Verdict, check};

/// Compare answers with references, as mathematics.
///
/// An answer is what a completion has in its last \boxed{}, after its last "answer is", in its last formula, or its last number.
/// Numbers, fractions, roots, powers, per cents, lists, sets, intervals, equations, formulas, units and texts are compared by their
/// values (docs/EVALUATION.md). Nothing is executed.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct CheckArgs {
    /// Pairs (JSONL): one {"gold": …, "answer": …} per line. `answer` is a whole completion.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Output file (JSONL): {"equal", "extracted"} in the order of the pairs, with "unparsed" where an answer is no mathematics and was
    /// compared as a text.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

/// A line of the input. Other keys are ignored.
#[derive(Deserialize)]
#[serde(expecting = "an object with `gold` and `answer`")]
struct PairRow {
    gold: String,
    answer: String,
}

/// A line of the output.
#[derive(Serialize)]
struct VerdictRow {
    equal: bool,
    extracted: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unparsed: bool,
}

pub(crate) fn run(args: CheckArgs) -> Result<()> {
    CommandFiles::default().read("--input", &args.input).write_file("--output", &args.output)?;
    let rows = RowReader::<PairRow>::open(&args.input)?;
    let verdict = |row: spag_io::Result<(usize, PairRow)>| {
        let (_, PairRow { gold, answer }) = row?;
        let Verdict { equal, extracted, parsed } = check(&gold, &answer);
        Ok(VerdictRow { equal, unparsed: extracted.is_some() && !parsed, extracted })
    };
    let verdicts: Vec<VerdictRow> = rows.map(verdict).collect::<spag_io::Result<_>>()?;
    if verdicts.is_empty() {
        let problem = "the file has no pairs, and the output is left as it is".to_owned();
        return Err(Error::BadValue { flag: format!("--input {}", args.input.display()), problem });
    }
    write_jsonl_atomically(&args.output, &verdicts)?;
    let count = |is: fn(&VerdictRow) -> bool| verdicts.iter().filter(|row| is(row)).count();
    exit::say(format_args!(
        "{} pairs: {} equal, {} without an answer, {} compared as texts; in {}",
        verdicts.len(),
        count(|row| row.equal),
        count(|row| row.extracted.is_none()),
        count(|row| row.unparsed),
        args.output.display()
    ))
}
