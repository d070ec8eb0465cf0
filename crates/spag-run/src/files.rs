//! The names of files and folders in a run folder.

/// The resolved settings of the run.
pub const SETTINGS: &str = "config.resolved.toml";
/// The digests of its inputs.
pub const INPUTS: &str = "inputs.json";
/// Held by the process that runs.
pub const LOCK: &str = "lock";
/// The list of its stages.
pub const STAGES: &str = "stages.json";
/// The words of its training, if some are held out.
pub const WORDS: &str = "words.txt";
/// The words that no training game is played on.
pub const HELD_OUT_WORDS: &str = "held-out-words.txt";
/// The report as data.
pub const REPORT_DATA: &str = "report.json";
/// The report as text.
pub const REPORT_TEXT: &str = "report.txt";
/// The report as a page.
pub const REPORT_PAGE: &str = "report.html";

/// In the folder of a stage: that it is finished, and what it did.
pub const DONE: &str = "done.json";
/// In the folder of a stage: its games.
pub const EPISODES: &str = "episodes.jsonl";
/// In the folder of a stage: the samples of its games.
pub const SAMPLES: &str = "samples.jsonl";
/// In the folder of a stage, or in that of an on-policy run: a line of measures for each logged step.
pub const METRICS: &str = "metrics.jsonl";
/// In the folder of the imitation stage: what each of its sources gave.
pub const SOURCES: &str = "sources.json";
/// The folder of a stage's model in that of the stage.
pub const MODEL: &str = "model";
/// In the folder of an on-policy stage with a policy for each seat: what that of the second seat has, as its model and checkpoints.
pub const SECOND_SEAT: &str = "second-seat";

/// The stage that plays the evaluation, and its folder.
pub const EVALUATION: &str = "eval";
/// The folder of the games on words that were held out, in that of the evaluation.
pub const HELD_OUT: &str = "held-out";
/// In the folder of the evaluation: exact measures of the models.
pub const EXACT: &str = "exact.json";
/// The stage of benchmarks, and its folder.
pub const BENCHMARKS: &str = "benchmarks";
/// In the folder of the benchmarks: the scores of all models.
pub const SCORES: &str = "scores.json";
/// In the folder of the benchmarks: the scores of the last model, the base model and the control arms, row by row.
pub const COMPARED: &str = "compared.json";
/// The folder of the control arms, each a run in a folder of its name.
pub const CONTROLS: &str = "controls";
/// In the folder of the control arms: the rows of each round of general text.
pub const CONTROL_ROWS: &str = "rows.json";
