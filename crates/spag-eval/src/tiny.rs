//! Built-in tasks: questions about the small world, made from its lexicon.
//!
//! Those of `tiny` are multiple choices of four answers of one category, so that guessing has a quarter right and the category alone
//! tells nothing. The right answer is equally often in each place. Sentences are those of the base model's texts where there are
//! such. Those of `tiny-think` are questions whose answers are generated, asked to be answered at once and after reasoning.

use std::path::Path;

use rand::SeedableRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use spag_world::{Entry, Lexicon, THINK_FIRST, article, listed};

use crate::answer_config::{FilterConfig, Filters};
use crate::config::{Listed, TaskConfig};
use crate::error::Result;
use crate::metric::Metric;
use crate::rows::Row;
use crate::template::Fields;

/// The names of these tasks on the command line.
const CHOSEN: &str = "tiny";
const GENERATED: &str = "tiny-think";
/// The begin of an answer with a word.
const THAT: &str = "That is the";
/// Tokens of a generated answer.
const ANSWER_TOKENS: usize = 24;
/// Rows of each task, at most.
const ROWS: usize = 480;
/// Choices of a question.
const CHOICES: usize = 4;

/// A question, its right answer, and wrong ones to draw from.
struct Draft {
    /// The question; `{choices}` stands for a list of the answers.
    question: String,
    /// The begin of the answer.
    stem: String,
    right: String,
    wrong: Vec<String>,
}

/// Makes the questions of a task.
type Maker = fn(&Lexicon, &mut ChaCha8Rng) -> Vec<Draft>;

/// Whether built-in tasks have this name.
pub fn is_built_in(tasks: &Path) -> bool {
    [CHOSEN, GENERATED].iter().any(|name| tasks == Path::new(name))
}

/// The tasks of a name with their rows. They are the same in every run.
pub(crate) fn tasks(name: &Path) -> Result<Vec<(TaskConfig, Vec<Row>)>> {
    let lexicon = Lexicon::embedded()?;
    let drawn = |seed: u64, make: Maker| {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        rows(make(&lexicon, rng), rng)
    };
    if name == Path::new(GENERATED) {
        let makers: [(&str, &str, Maker); 3] = [
            ("which_has", "which has", which_has),
            ("negation", "negation", negation),
            ("two_step", "two steps", what_else),
        ];
        let of = |(seed, (name, alias, make)): (u64, (&str, &str, Maker))| {
            let rows = drawn(seed, make);
            Asked::ALL.map(|asked| (generated(name, alias, asked), rows.clone()))
        };
        return Ok((1..).zip(makers).flat_map(of).collect());
    }
    let makers: [(&str, &str, Maker); 5] = [
        ("tiny_facts", "facts", facts),
        ("tiny_which_has", "which has", which_has),
        ("tiny_odd_one_out", "odd one out", odd_one_out),
        ("tiny_negation", "negation", negation),
        ("tiny_two_step", "two steps", two_step),
    ];
    Ok((1..).zip(makers).map(|(seed, (name, alias, make))| (config(name, alias), drawn(seed, make))).collect())
}

/// How a question is to be answered.
#[derive(Clone, Copy)]
enum Asked {
    AtOnce,
    Thinking,
}

impl Asked {
    const ALL: [Self; 2] = [Self::AtOnce, Self::Thinking];
}

/// A task whose answers are generated: a sentence that ends with the right word or clue.
fn generated(name: &str, alias: &str, asked: Asked) -> TaskConfig {
    let (kind, alias, prompt) = match asked {
        Asked::AtOnce => ("direct", format!("{alias}, at once"), "{{question}}".to_owned()),
        Asked::Thinking => ("think", format!("{alias}, thinking"), format!("{THINK_FIRST} {{{{question}}}}")),
    };
    TaskConfig {
        name: format!("tiny_{name}_{kind}"),
        alias: Some(alias),
        file: "built-in".to_owned(),
        prompt: Some(prompt),
        target: Some("{{choices[answer]}}".to_owned()),
        max_new_tokens: Some(ANSWER_TOKENS),
        filter: Some(Filters(vec![FilterConfig {
            name: "answer".to_owned(),
            regex: Some(r"^\s*(?:That is the|It) ([^.]*)\.".to_owned()),
            ..FilterConfig::default()
        }])),
        metrics: vec![Metric::ExactMatch],
        ..TaskConfig::default()
    }
}

fn config(name: &str, alias: &str) -> TaskConfig {
    TaskConfig {
        name: name.to_owned(),
        alias: Some(alias.to_owned()),
        file: "built-in".to_owned(),
        prompt: Some("prompt".to_owned()),
        choices: Some(Listed::One("choices".to_owned())),
        answer: Some("answer".to_owned()),
        metrics: vec![Metric::Acc, Metric::AccNorm],
        ..TaskConfig::default()
    }
}

/// Draws wrong answers and places the right one.
fn rows(mut drafts: Vec<Draft>, rng: &mut ChaCha8Rng) -> Vec<Row> {
    drafts.retain(|draft| draft.wrong.len() >= CHOICES - 1);
    drafts.shuffle(rng);
    drafts.truncate(ROWS);
    // As many rows for each place of the right answer.
    drafts.truncate(drafts.len() / CHOICES * CHOICES);
    let row = |(i, Draft { question, stem, right, mut wrong }): (usize, Draft)| {
        wrong.shuffle(rng);
        wrong.truncate(CHOICES - 1);
        let answer = i % CHOICES;
        wrong.insert(answer, right);
        let list = listed(&wrong.iter().map(String::as_str).collect::<Vec<_>>());
        let question = question.replace("{choices}", &list);
        let prompt = if stem.is_empty() { question.clone() } else { format!("{question} {stem}") };
        let fields: Fields = [
            ("question".to_owned(), Value::String(question)),
            ("prompt".to_owned(), Value::String(prompt)),
            ("choices".to_owned(), json!(wrong)),
            ("answer".to_owned(), json!(answer)),
        ]
        .into_iter()
        .collect();
        Row { number: i + 1, fields }
    };
    drafts.into_iter().enumerate().map(row).collect()
}

/// The other words of a category.
fn others<'a>(lexicon: &'a Lexicon, entry: &'a Entry) -> impl Iterator<Item = &'a Entry> {
    lexicon.entries().iter().filter(|other| other.category == entry.category && other.word != entry.word)
}

/// The clues of a category that do not hold for a word.
fn false_clues(lexicon: &Lexicon, entry: &Entry) -> Vec<String> {
    let mut clues: Vec<String> = others(lexicon, entry).flat_map(|other| other.clues.clone()).collect();
    clues.sort();
    clues.dedup();
    clues.retain(|clue| !entry.clues.contains(clue));
    clues
}

fn has(entry: &Entry, clue: &str) -> bool {
    entry.clues.iter().any(|own| own == clue)
}

/// What is true of a word.
fn facts(lexicon: &Lexicon, _: &mut ChaCha8Rng) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for entry in lexicon.entries() {
        let Entry { word, category, clues, .. } = entry;
        let a = article(category);
        drafts.extend(clues.iter().map(|clue| Draft {
            question: format!("Question: What is the {word}? Response:"),
            stem: format!("The {word} is {a} {category} that"),
            right: clue.clone(),
            wrong: false_clues(lexicon, entry),
        }));
    }
    drafts
}

/// Which of four words has a property.
fn which_has(lexicon: &Lexicon, _: &mut ChaCha8Rng) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for entry in lexicon.entries() {
        for clue in &entry.clues {
            drafts.push(Draft {
                question: spag_world::which_has(&entry.category, clue, "{choices}"),
                stem: THAT.to_owned(),
                right: entry.word.clone(),
                wrong: others(lexicon, entry).filter(|o| !has(o, clue)).map(|o| o.word.clone()).collect(),
            });
        }
    }
    drafts
}

/// Three words of a category and one of another.
fn odd_one_out(lexicon: &Lexicon, rng: &mut ChaCha8Rng) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for entry in lexicon.entries() {
        let categories: Vec<&String> = lexicon.categories().iter().filter(|name| **name != entry.category).collect();
        for category in categories.choose_multiple(rng, 4) {
            let same = lexicon.entries().iter().filter(|other| other.category == **category);
            drafts.push(Draft {
                question: "Question: Which one is not like the others: {choices}? Response:".to_owned(),
                stem: THAT.to_owned(),
                right: entry.word.clone(),
                wrong: same.map(|other| other.word.clone()).collect(),
            });
        }
    }
    drafts
}

/// Three words have a property and one does not.
fn negation(lexicon: &Lexicon, rng: &mut ChaCha8Rng) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for entry in lexicon.entries() {
        let mut clues = false_clues(lexicon, entry);
        clues.retain(|clue| others(lexicon, entry).filter(|other| has(other, clue)).count() >= CHOICES - 1);
        for clue in clues.choose_multiple(rng, 4) {
            drafts.push(Draft {
                question: spag_world::which_has_not(&entry.category, clue, "{choices}"),
                stem: THAT.to_owned(),
                right: entry.word.clone(),
                wrong: others(lexicon, entry).filter(|o| has(o, clue)).map(|o| o.word.clone()).collect(),
            });
        }
    }
    drafts
}

/// Three clues identify a word that is not named; the fourth clue continues the text.
fn two_step(lexicon: &Lexicon, rng: &mut ChaCha8Rng) -> Vec<Draft> {
    fourth_clue(lexicon, rng, |category, said| {
        format!("I have {} {category} in mind. It {}, it", article(category), said.join(", it "))
    })
}

/// As [`two_step`], in a question.
fn what_else(lexicon: &Lexicon, rng: &mut ChaCha8Rng) -> Vec<Draft> {
    fourth_clue(lexicon, rng, spag_world::what_else_holds)
}

fn fourth_clue(lexicon: &Lexicon, rng: &mut ChaCha8Rng, question: fn(&str, &[&str]) -> String) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for entry in lexicon.entries() {
        for clue in &entry.clues {
            let mut given: Vec<&String> = entry.clues.iter().filter(|other| *other != clue).collect();
            given.shuffle(rng);
            let said: Vec<&str> = given.iter().take(3).map(|clue| clue.as_str()).collect();
            drafts.push(Draft {
                question: question(&entry.category, &said),
                stem: String::new(),
                right: clue.clone(),
                wrong: false_clues(lexicon, entry),
            });
        }
    }
    drafts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::context::ContextFormat;
    use crate::task::{Beside, Question, Task};

    fn texts(row: &Row) -> (String, Vec<String>, usize) {
        let choices = row.fields["choices"].as_array().unwrap();
        let choices: Vec<String> = choices.iter().map(|choice| choice.as_str().unwrap().to_owned()).collect();
        let answer = usize::try_from(row.fields["answer"].as_u64().unwrap()).unwrap();
        (row.fields["prompt"].as_str().unwrap().to_owned(), choices, answer)
    }

    #[test]
    fn tasks_are_the_same_in_every_run_and_their_answers_balanced() {
        let of = || [CHOSEN, GENERATED].map(|name| tasks(Path::new(name)).unwrap()).concat();
        let (first, second) = (of(), of());
        for ((config, rows), (_, again)) in first.iter().zip(&second) {
            assert_eq!(rows, again, "{}", config.name);
            assert!(rows.len() >= 300, "{} has {} rows", config.name, rows.len());
            let mut places = [0; CHOICES];
            for row in rows {
                let (_, choices, answer) = texts(row);
                assert_eq!(choices.iter().collect::<BTreeSet<_>>().len(), CHOICES, "{choices:?}");
                places[answer] += 1;
            }
            assert!(places.iter().all(|count| *count == rows.len() / CHOICES), "{places:?}");
            let prompts: BTreeSet<(String, Vec<String>)> =
                rows.iter().map(|row| (texts(row).0, texts(row).1)).collect();
            assert!(prompts.len() * 10 > rows.len() * 9, "{} repeats itself", config.name);
        }
    }

    #[test]
    fn exactly_one_answer_is_right() {
        let lexicon = Lexicon::embedded().unwrap();
        let all = tasks(Path::new(CHOSEN)).unwrap();
        let rows = |name: &str| &all.iter().find(|(config, _)| config.name == name).unwrap().1;
        for row in rows("tiny_facts") {
            let (prompt, choices, answer) = texts(row);
            let word = prompt.split_once("The ").unwrap().1.split(' ').next().unwrap();
            let right: Vec<bool> = choices.iter().map(|clue| lexicon.clue_is_true(word, clue)).collect();
            assert_eq!((right.iter().filter(|r| **r).count(), right[answer]), (1, true), "{prompt} {choices:?}");
        }
        for (name, holds) in [("tiny_which_has", true), ("tiny_negation", false)] {
            for row in rows(name) {
                let (prompt, choices, answer) = texts(row);
                let clue = lexicon.clues_in(prompt.split(':').nth(1).unwrap())[0].to_owned();
                let right: Vec<bool> = choices.iter().map(|word| lexicon.clue_is_true(word, &clue) == holds).collect();
                assert_eq!((right.iter().filter(|r| **r).count(), right[answer]), (1, true), "{prompt} {choices:?}");
            }
        }
        for row in rows("tiny_odd_one_out") {
            let (_, choices, answer) = texts(row);
            let of: Vec<&str> = choices.iter().map(|word| lexicon.get(word).unwrap().category.as_str()).collect();
            assert_eq!(of.iter().filter(|category| **category == of[answer]).count(), 1);
            assert_eq!(of.iter().collect::<BTreeSet<_>>().len(), 2);
        }
        for row in rows("tiny_two_step") {
            let (prompt, choices, answer) = texts(row);
            let [word] = lexicon.candidates(&prompt)[..] else { panic!("{prompt} has several words") };
            let right: Vec<bool> = choices.iter().map(|clue| lexicon.clue_is_true(word, clue)).collect();
            assert_eq!((right.iter().filter(|r| **r).count(), right[answer]), (1, true), "{prompt} {choices:?}");
            assert!(!prompt.contains(word));
        }
    }

    /// The reader of a generated answer takes the right one from a right sentence, and nothing from another.
    #[test]
    fn generated_answers_are_read_from_their_sentences() {
        for (config, rows) in tasks(Path::new(GENERATED)).unwrap() {
            let task =
                Task::new(config, Path::new("x"), rows, Beside::default(), Some(9), ContextFormat::Plain).unwrap();
            for item in &task.items {
                let Question::Generated { context, target } = &item.question else { panic!("{}", task.name()) };
                assert!(context.ends_with("? Response:"), "{context}");
                let (word, clue) = (format!("That is the {target}."), format!(" It {target}. It is red."));
                let said = if task.name().contains("two_step") { clue } else { word };
                assert!(task.reader.is_right(&task.reader.read(0, &said, &[]), target), "{said}");
                assert!(!task.reader.is_right(&task.reader.read(0, "I would rather not say.", &[]), target));
            }
        }
    }
}
