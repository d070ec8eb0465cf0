//! Built-in tasks: questions about the small world, made from its lexicon.
//!
//! All are multiple choices of four answers of one category, so that guessing has a quarter right and the category alone tells
//! nothing. The right answer is equally often in each place. Sentences are those of the base model's texts where there are such.

use rand::SeedableRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use spag_world::{Entry, Lexicon, article};

use crate::config::{Listed, TaskConfig};
use crate::error::Result;
use crate::metric::Metric;
use crate::rows::Row;
use crate::template::Fields;

/// The name of these tasks on the command line.
pub(crate) const NAME: &str = "tiny";
/// Rows of each task, at most.
const ROWS: usize = 480;
/// Choices of a question.
const CHOICES: usize = 4;

/// A question, its right answer, and wrong ones to draw from.
struct Draft {
    prompt: String,
    right: String,
    wrong: Vec<String>,
}

/// Makes the questions of a task.
type Maker = fn(&Lexicon, &mut ChaCha8Rng) -> Vec<Draft>;

/// The tasks with their rows. They are the same in every run.
pub(crate) fn tasks() -> Result<Vec<(TaskConfig, Vec<Row>)>> {
    let lexicon = Lexicon::embedded()?;
    let makers: [(&str, &str, Maker); 5] = [
        ("tiny_facts", "facts", facts),
        ("tiny_which_has", "which has", which_has),
        ("tiny_odd_one_out", "odd one out", odd_one_out),
        ("tiny_negation", "negation", negation),
        ("tiny_two_step", "two steps", two_step),
    ];
    let make = |(seed, (name, alias, make)): (u64, (&str, &str, Maker))| {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        (config(name, alias), rows(make(&lexicon, rng), rng))
    };
    Ok((1..).zip(makers).map(make).collect())
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

/// Draws wrong answers and places the right one. A list of the choices replaces `{choices}` in the prompt.
fn rows(mut drafts: Vec<Draft>, rng: &mut ChaCha8Rng) -> Vec<Row> {
    drafts.retain(|draft| draft.wrong.len() >= CHOICES - 1);
    drafts.shuffle(rng);
    drafts.truncate(ROWS);
    // As many rows for each place of the right answer.
    drafts.truncate(drafts.len() / CHOICES * CHOICES);
    let row = |(i, Draft { prompt, right, mut wrong }): (usize, Draft)| {
        wrong.shuffle(rng);
        wrong.truncate(CHOICES - 1);
        let answer = i % CHOICES;
        wrong.insert(answer, right);
        let list = match wrong.split_last() {
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        };
        let fields: Fields = [
            ("prompt".to_owned(), Value::String(prompt.replace("{choices}", &list))),
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
            prompt: format!("Question: What is the {word}? Response: The {word} is {a} {category} that"),
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
                prompt: format!("Question: Which {} {clue}: {{choices}}? Response: That is the", entry.category),
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
                prompt: "Question: Which one is not like the others: {choices}? Response: That is the".to_owned(),
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
                prompt: format!(
                    "Question: Which {} is not one that {clue}: {{choices}}? Response: That is the",
                    entry.category
                ),
                right: entry.word.clone(),
                wrong: others(lexicon, entry).filter(|o| has(o, clue)).map(|o| o.word.clone()).collect(),
            });
        }
    }
    drafts
}

/// Three clues identify a word that is not named; the fourth clue is asked.
fn two_step(lexicon: &Lexicon, rng: &mut ChaCha8Rng) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for entry in lexicon.entries() {
        let a = article(&entry.category);
        for clue in &entry.clues {
            let mut given: Vec<&String> = entry.clues.iter().filter(|other| *other != clue).collect();
            given.shuffle(rng);
            let said: Vec<&str> = given.iter().take(3).map(|clue| clue.as_str()).collect();
            drafts.push(Draft {
                prompt: format!("I have {a} {} in mind. It {}, it", entry.category, said.join(", it ")),
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

    fn texts(row: &Row) -> (String, Vec<String>, usize) {
        let choices = row.fields["choices"].as_array().unwrap();
        let choices: Vec<String> = choices.iter().map(|choice| choice.as_str().unwrap().to_owned()).collect();
        let answer = usize::try_from(row.fields["answer"].as_u64().unwrap()).unwrap();
        (row.fields["prompt"].as_str().unwrap().to_owned(), choices, answer)
    }

    #[test]
    fn tasks_are_the_same_in_every_run_and_their_answers_balanced() {
        let (first, second) = (tasks().unwrap(), tasks().unwrap());
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
        let all = tasks().unwrap();
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
}
