//! Rows with their answers: the score of each metric, and the lines of a file of samples.

use serde_json::{Value as Json, json};

use crate::metric::{Metric, choice_score, sampled_score, words};
use crate::record::Answered;
use crate::task::{Item, Question, Task};

/// A score with its weight in a weighted mean.
pub(crate) type RowScore = (f64, f64);

/// The score of a row in each metric of the task, filter by filter, from its answer or its samples.
pub(crate) fn scores(task: &Task, item: &Item, answers: &[Answered]) -> Vec<RowScore> {
    if let Question::Generated { target, .. } = &item.question {
        let metrics = task.config.metrics();
        let of_filter = |filter: usize| {
            let read: Vec<String> = answers.iter().map(|answer| read(task, item, filter, answer)).collect();
            let right: Vec<bool> = read.iter().map(|answer| task.reader.is_right(answer, target)).collect();
            // Every pair of answers is compared, for the metrics that need it alone.
            let votes = metrics.iter().any(|metric| matches!(metric, Metric::MajAt(_)));
            let groups = if votes { task.reader.groups(&read) } else { Vec::new() };
            metrics.iter().map(|metric| (sampled_score(*metric, &right, &groups), 1.0)).collect::<Vec<_>>()
        };
        return (0..task.reader.filters().len()).flat_map(of_filter).collect();
    }
    let Some(answer) = answers.first() else { return Vec::new() };
    let sums: Vec<f64> = answer.scores.iter().map(|(sum, _)| *sum).collect();
    let total = || sums.iter().sum::<f64>();
    let one = |score: bool| (f64::from(u8::from(score)), 1.0);
    let score = |metric: &Metric| match (&item.question, metric) {
        (Question::Choice { choices, answer, .. }, metric) => {
            let lengths: Vec<(usize, usize)> =
                choices.iter().map(|choice| (choice.chars().count(), choice.len())).collect();
            (choice_score(*metric, &sums, &lengths, *answer), 1.0)
        }
        (Question::Continuation { .. }, Metric::Perplexity) => (total(), 1.0),
        (Question::Continuation { .. }, _) => one(answer.scores.iter().all(|(_, greedy)| *greedy)),
        (Question::Rolling { text }, Metric::WordPerplexity) => (total(), words(text) as f64),
        (Question::Rolling { text }, _) => (total(), text.len() as f64),
        (Question::Generated { .. }, _) => (0.0, 1.0),
    };
    task.config.metrics().iter().map(score).collect()
}

/// What a filter takes from a generated answer.
fn read(task: &Task, item: &Item, filter: usize, answer: &Answered) -> String {
    task.reader.read(filter, answer.text.as_deref().unwrap_or(""), &item.texts)
}

/// The lines of a row in `samples_TASK.jsonl`: one of each filter, with its scores.
pub(crate) fn samples(task: &Task, item: &Item, answers: &[Answered], scores: &[RowScore]) -> Vec<Json> {
    let of_filter = scores.chunks(task.config.metrics().len().max(1));
    let named = task.reader.filters().into_iter().zip(of_filter).enumerate();
    named.map(|(filter, (name, scores))| sample(task, item, answers, (filter, name), scores)).collect()
}

/// The line of a row and a filter, which has a place and a name.
fn sample(task: &Task, item: &Item, answers: &[Answered], (filter, name): (usize, &str), scores: &[RowScore]) -> Json {
    let Some(answer) = answers.first() else { return Json::Null };
    // As lm-evaluation-harness writes them: numbers and truth values of answers are texts.
    let truth = |greedy: bool| if greedy { "True" } else { "False" };
    let pair = |(sum, greedy): &(f64, bool)| json!([sum.to_string(), truth(*greedy)]);
    let (target, arguments): (Json, Vec<Json>) = match &item.question {
        Question::Choice { pairs, answer, .. } => {
            ((*answer).into(), pairs.iter().map(|(a, b)| json!({ "arg_0": a, "arg_1": b })).collect())
        }
        Question::Continuation { context, continuation } => {
            (continuation.as_str().into(), vec![json!({ "arg_0": context, "arg_1": continuation })])
        }
        Question::Rolling { text } => (text.as_str().into(), vec![json!({ "arg_0": text })]),
        Question::Generated { context, target } => {
            let until = task.config.generation_kwargs();
            (target.as_str().into(), vec![json!({ "arg_0": context, "arg_1": until })])
        }
    };
    let (responses, filtered): (Json, Json) = match (&item.question, &answer.text) {
        (_, Some(_)) => {
            let texts: Vec<&Option<String>> = answers.iter().map(|answer| &answer.text).collect();
            (json!([texts]), answers.iter().map(|answer| read(task, item, filter, answer)).collect())
        }
        (Question::Rolling { .. }, _) => {
            let total: f64 = answer.scores.iter().map(|(sum, _)| sum).sum();
            (json!([[total.to_string()]]), json!([total.to_string()]))
        }
        _ => {
            let pairs: Vec<Json> = answer.scores.iter().map(pair).collect();
            (pairs.iter().map(|pair| json!([pair])).collect(), pairs.into())
        }
    };
    let arguments = arguments.into_iter().enumerate().map(|(i, arguments)| (format!("gen_args_{i}"), arguments));
    let mut line = json!({
        "doc_id": answer.row,
        "doc": item.fields,
        "target": target,
        "arguments": Json::Object(arguments.collect()),
        "resps": responses,
        "filtered_resps": filtered,
        "filter": name,
        "metrics": task.config.metrics(),
    });
    // One value of one answer, a list of several.
    let of_all = |values: Vec<Json>| match <[Json; 1]>::try_from(values) {
        Ok([one]) => one,
        Err(values) => values.into(),
    };
    if answers.iter().any(|answer| answer.reasoning.is_some()) {
        line["reasoning"] = of_all(answers.iter().map(|answer| json!(answer.reasoning)).collect());
    }
    if answers.iter().any(|answer| answer.reasoning_end.is_some()) {
        line["reasoning_end"] = of_all(answers.iter().map(|answer| json!(answer.reasoning_end)).collect());
    }
    if task.reader.is_math() {
        let unparsed = |answer: &&Answered| !spag_math::is_parsed(&read(task, item, filter, answer));
        let unparsed = answers.iter().filter(unparsed).map(|answer| json!(answer.sample)).collect::<Vec<_>>();
        if !unparsed.is_empty() {
            line["unparsed"] = unparsed.into();
        }
    }
    if answer.cut {
        line["truncated"] = true.into();
    }
    for (metric, (score, weight)) in task.config.metrics().iter().zip(scores.iter().copied()) {
        let weighted = matches!(metric, Metric::WordPerplexity | Metric::BytePerplexity | Metric::BitsPerByte);
        line[metric.to_string()] = if weighted { json!([score, weight]) } else { score.into() };
    }
    line
}
