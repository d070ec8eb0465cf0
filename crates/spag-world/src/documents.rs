//! Training texts for the base model, and general question-answer pairs.

use std::ops::RangeInclusive;

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use spag_game::taboo::Taboo;
use spag_game::{Episode, FinishedGame, GameSpec, PlayConfig, PromptSet, Seats, play_games};
use spag_io::{ReasoningRule, ReasoningTags};

use crate::english::article;
use crate::lexicon::{Entry, Lexicon};
use crate::players::{Guesses, ScriptedAttacker, ScriptedDefender};
use crate::texts;
use crate::thoughts::{self, Thoughts};

/// Range of the weight of a kind of base texts.
const WEIGHT: RangeInclusive<f64> = 0.0..=1e6;

spag_io::settings! {
    /// Relative frequencies of the kinds of base texts.
    #[derive(Copy)]
    pub table BaseMix {
        /// Prompt and utterance of a turn of a scripted game.
        pub games: f64 [WEIGHT] = 0.3;
        /// Clues, each followed by a word that fits all so far.
        pub running: f64 [WEIGHT] = 0.28;
        /// A word with its clues.
        pub facts: f64 [WEIGHT] = 0.1;
        /// Questions and answers.
        pub questions: f64 [WEIGHT] = 0.16;
        /// Clues followed by the word.
        pub riddles: f64 [WEIGHT] = 0.16;
        /// Half of them a turn of a scripted game with what its player thinks, between the tags of reasoning; a third a question that
        /// clues decide, answered at once or, if it begins with `Think first.`, after reasoning; and a sixth a clue with the words
        /// that it is true of.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub thoughts: f64 [WEIGHT] = 0.0;
    }
}

/// A random word with its clues in random order.
pub(crate) fn draw<'a>(lexicon: &'a Lexicon, rng: &mut impl Rng) -> (&'a Entry, Vec<&'a str>) {
    // A lexicon is never empty.
    let entry = &lexicon.entries()[rng.random_range(0..lexicon.entries().len())];
    let mut clues: Vec<&str> = entry.clues.iter().map(String::as_str).collect();
    clues.shuffle(rng);
    (entry, clues)
}

/// One text for the base model.
pub fn base_document(
    lexicon: &Lexicon,
    prompts: &PromptSet,
    (mix, tags): (&BaseMix, &ReasoningTags),
    rng: &mut impl Rng,
) -> String {
    let total = mix.games + mix.running + mix.facts + mix.questions + mix.riddles + mix.thoughts;
    let mut drawn = rng.random::<f64>() * total;
    let mut is = |share: f64| {
        drawn -= share;
        drawn < 0.0
    };
    if is(mix.games) {
        game_turn(lexicon, prompts, (Thoughts::Silent, tags), rng)
    } else if is(mix.running) {
        running(lexicon, rng)
    } else if is(mix.facts) {
        facts(lexicon, rng)
    } else if is(mix.questions) {
        let (question, answer) = general_qa(lexicon, rng);
        format!("{question} {answer}")
    } else if is(mix.thoughts) {
        match rng.random_range(0..6) {
            0..3 => game_turn(lexicon, prompts, (Thoughts::Told, tags), rng),
            3 => {
                let (_, clues) = draw(lexicon, rng);
                clues.first().map_or_else(String::new, |clue| thoughts::of_clue(lexicon, clue))
            }
            _ => thoughts::question(lexicon, tags, rng),
        }
    } else {
        riddle(lexicon, rng)
    }
}

/// A scripted game of a random word.
fn scripted_game(lexicon: &Lexicon, thoughts: Thoughts, rng: &mut impl Rng) -> Option<Episode> {
    let (entry, _) = draw(lexicon, rng);
    let spec = GameSpec { number: 0, item: entry.word.clone(), max_turns: 5, seed: rng.random(), sampling_seed: None };
    let mut attacker = ScriptedAttacker::new(lexicon).with_thoughts(thoughts);
    // Those who think predict when one word is left.
    let guesses = if thoughts == Thoughts::Told { Guesses::Sure } else { Guesses::Early };
    let mut defender = ScriptedDefender::new(lexicon).with_thoughts(thoughts).with_guesses(guesses);
    let config = PlayConfig { games_in_flight: 1, ..PlayConfig::default() };
    let mut played = None;
    let seats = Seats::Versus([&mut attacker, &mut defender]);
    play_games(&Taboo::new(&PromptSet::default()), [spec], seats, &config, &mut |game: FinishedGame| {
        played = Some(game.episode);
        Ok(())
    })
    .ok()?;
    played
}

/// Prompt and utterance of one turn of a scripted game: the last one with probability 1/2, else any.
fn game_turn(
    lexicon: &Lexicon,
    prompts: &PromptSet,
    (thoughts, tags): (Thoughts, &ReasoningTags),
    rng: &mut impl Rng,
) -> String {
    let Some(episode) = scripted_game(lexicon, thoughts, rng) else { return texts::small_talk(rng) };
    let turns = episode.history.len();
    let at = if rng.random::<bool>() { turns - 1 } else { rng.random_range(0..turns) };
    let prompt = prompts.playing_query(&episode.history[..at], &episode.item, episode.max_turns);
    let (said, rule) = (&episode.history[at], ReasoningRule::Think(tags.clone()));
    format!("{prompt} {}", rule.join(said.reasoning.as_deref(), &said.content))
}

/// Clues, each followed by a word that fits all so far.
fn running(lexicon: &Lexicon, rng: &mut impl Rng) -> String {
    let (entry, clues) = draw(lexicon, rng);
    let mut said: Vec<String> = Vec::new();
    let mut known = String::new();
    if rng.random::<f64>() < 0.3 {
        let talk = texts::about_category(&entry.category, rng);
        known.push_str(&talk);
        said.push(talk);
    }
    for clue in clues.iter().take(rng.random_range(2..=4)) {
        let talk = if rng.random::<f64>() < 0.7 {
            texts::one_clue(clue, rng)
        } else {
            texts::ask_one(&entry.category, clue, rng)
        };
        known.push(' ');
        known.push_str(&talk);
        said.push(talk);
        let candidates = lexicon.candidates(&known);
        let word = candidates.choose(rng).copied().unwrap_or(&entry.word);
        said.push(match rng.random::<f64>() {
            f if f < 0.75 => texts::name(word, rng),
            f if f < 0.9 => texts::guess(word),
            _ => texts::hedge(rng),
        });
    }
    said.join(" ")
}

/// A word with its category and clues.
fn facts(lexicon: &Lexicon, rng: &mut impl Rng) -> String {
    let (entry, clues) = draw(lexicon, rng);
    let Entry { word, category, .. } = entry;
    format!("The {word} is {} {category}. It {}.", article(category), clues.join(", it "))
}

/// Clues, then the word.
fn riddle(lexicon: &Lexicon, rng: &mut impl Rng) -> String {
    let (entry, clues) = draw(lexicon, rng);
    let mut said: Vec<String> =
        clues.iter().take(rng.random_range(1..=4)).map(|clue| texts::one_clue(clue, rng)).collect();
    if rng.random::<f64>() < 0.7 {
        said.insert(rng.random_range(0..=said.len()), texts::about_category(&entry.category, rng));
    }
    if rng.random::<f64>() < 0.4 {
        said.insert(rng.random_range(1..=said.len()), texts::hedge(rng));
    }
    format!("{} It is the {}.", said.join(" "), entry.word)
}

/// A question about the world and its answer.
pub fn general_qa(lexicon: &Lexicon, rng: &mut impl Rng) -> (String, String) {
    let (entry, clues) = draw(lexicon, rng);
    let Entry { word, category, .. } = entry;
    let a = article(category);
    let clue = |i: usize| clues.get(i).copied().unwrap_or("");
    let any = |fits: &dyn Fn(&Entry) -> bool, rng: &mut _| {
        let all: Vec<&Entry> = lexicon.entries().iter().filter(|e| e.category == *category && fits(e)).collect();
        all.choose(rng).map_or(word.clone(), |e| e.word.clone())
    };
    let (question, answer) = match rng.random::<f64>() {
        f if f < 0.25 => {
            (format!("What is the {word}?"), format!("The {word} is {a} {category} that {} and {}.", clue(0), clue(1)))
        }
        f if f < 0.45 => {
            (format!("Which {category} {} and {} and {}?", clue(0), clue(1), clue(2)), format!("That is the {word}."))
        }
        f if f < 0.6 => (
            format!("What do you call {a} {category} that {} and {} and {}?", clue(0), clue(1), clue(2)),
            format!("That is the {word}."),
        ),
        f if f < 0.7 => {
            let other = any(&|e| e.clues.iter().any(|c| c == clue(0)), rng);
            (format!("Can you name {a} {category} that {}?", clue(0)), format!("Maybe you mean the {other}."))
        }
        f if f < 0.8 => {
            let other = any(&|_| true, rng);
            (format!("Can you name {a} {category}?"), format!("I would say the {other}."))
        }
        f if f < 0.9 => (format!("What kind of thing is the {word}?"), format!("The {word} is {a} {category}.")),
        _ => (texts::small_talk(rng), texts::hedge(rng)),
    };
    (format!("Question: {question} Response:"), answer)
}
