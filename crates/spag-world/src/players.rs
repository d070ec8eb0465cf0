//! Scripted players of mixed skill. They are stateless: the style is drawn from the game's seed, and everything else
//! is derived from the history.

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use spag_game::{Episode, Policy, PolicyError, PollMode, Reply, Said, Seat, TurnRequest, taboo};

use crate::lexicon::{Entry, Lexicon};
use crate::texts;
use crate::thoughts::{self, Thoughts};
use crate::voice::Voice;

#[derive(Clone, Copy, Debug, PartialEq)]
enum AttackerStyle {
    Blunt,
    Gradual,
    Vague,
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum DefenderStyle {
    Careful,
    Hasty,
    Chatty,
}

/// When a scripted defender predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Guesses {
    /// At times while several words fit the clues.
    #[default]
    Early,
    /// When one word fits.
    Sure,
}

/// Attacker styles with their weights.
const ATTACKERS: [(AttackerStyle, f64); 4] = [
    (AttackerStyle::Blunt, 3.0),
    (AttackerStyle::Gradual, 3.0),
    (AttackerStyle::Vague, 2.0),
    (AttackerStyle::Mixed, 3.0),
];
/// Defender styles with their weights.
const DEFENDERS: [(DefenderStyle, f64); 3] =
    [(DefenderStyle::Careful, 2.5), (DefenderStyle::Hasty, 4.0), (DefenderStyle::Chatty, 5.0)];
/// The probability that an attacker's utterance is small talk.
const SMALL_TALK: f64 = 0.05;
/// The probability that a defender hesitates to predict a word that it is sure of.
const TIMID: f64 = 0.25;

/// The generator for a player's style; each seat has its own stream.
fn style_rng(game_seed: u64, seat: Seat) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(game_seed);
    rng.set_stream(match seat {
        taboo::ATTACKER => 1,
        _ => 2,
    });
    rng
}

/// Gives true clues of its word, in one of four styles.
#[derive(Clone, Debug)]
pub struct ScriptedAttacker<'a> {
    lexicon: &'a Lexicon,
    thoughts: Thoughts,
    ready: Vec<Reply>,
}

impl<'a> ScriptedAttacker<'a> {
    /// An attacker for the words of a lexicon.
    pub fn new(lexicon: &'a Lexicon) -> Self {
        Self { lexicon, thoughts: Thoughts::Silent, ready: Vec::new() }
    }

    /// The same attacker, which says what it thinks or does not.
    pub fn with_thoughts(self, thoughts: Thoughts) -> Self {
        Self { thoughts, ..self }
    }

    fn said(&self, entry: &Entry, request: &TurnRequest<'_>) -> Said {
        let mut style_rng = style_rng(request.game_seed, taboo::ATTACKER);
        let style = ATTACKERS.choose_weighted(&mut style_rng, |style| style.1).map_or(AttackerStyle::Mixed, |s| s.0);
        let mut clues: Vec<&str> = entry.clues.iter().map(String::as_str).collect();
        clues.shuffle(&mut style_rng);
        // Clues are given in this order, and repeated from the first.
        let given = self.given(request.episode);
        let said = Said::from(self.utterance(entry, request, (style, &clues, given)));
        let first = given % clues.len().max(1);
        clues.rotate_left(first);
        let reasoning = (self.thoughts == Thoughts::Told).then(|| thoughts::of_attacker(entry, &clues));
        Said { reasoning, ..said }
    }

    fn utterance(
        &self,
        entry: &Entry,
        request: &TurnRequest<'_>,
        (style, clues, given): (AttackerStyle, &[&str], usize),
    ) -> String {
        let clue = |offset: usize| clues.get((given + offset) % clues.len().max(1)).copied().unwrap_or("");
        let category = entry.category.as_str();
        let voice = Voice::new(self.lexicon);
        let rng = &mut ChaCha8Rng::seed_from_u64(request.seed);
        if rng.random::<f64>() < SMALL_TALK {
            return voice.small_talk(rng);
        }
        match style {
            AttackerStyle::Blunt if rng.random::<f64>() < 0.6 => voice.ask_two(category, clue(0), clue(1), rng),
            AttackerStyle::Blunt => voice.ask_one(category, clue(0), rng),
            AttackerStyle::Gradual if request.episode.history.is_empty() => voice.about_category(category, rng),
            AttackerStyle::Gradual if rng.random::<f64>() < 0.6 => voice.one_clue(clue(0), rng),
            AttackerStyle::Gradual => voice.ask_one(category, clue(0), rng),
            AttackerStyle::Vague => match rng.random::<f64>() {
                f if f < 0.7 => voice.one_clue(clue(0), rng),
                f if f < 0.88 => voice.ask_two_plain(clue(0), clue(1), rng),
                _ => voice.small_talk(rng),
            },
            AttackerStyle::Mixed => match rng.random::<f64>() {
                f if f < 0.2 => voice.about_category(category, rng),
                f if f < 0.45 => voice.one_clue(clue(0), rng),
                f if f < 0.65 => voice.ask_one(category, clue(0), rng),
                f if f < 0.8 => voice.ask_two(category, clue(0), clue(1), rng),
                f if f < 0.9 => voice.ask_two_plain(clue(0), clue(1), rng),
                _ => voice.small_talk(rng),
            },
        }
    }

    /// The number of clues given so far.
    fn given(&self, episode: &Episode) -> usize {
        let own = episode.history.iter().filter(|u| u.seat == taboo::ATTACKER);
        own.map(|u| self.lexicon.clues_in(&u.content).len()).sum()
    }
}

impl Policy for ScriptedAttacker<'_> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        let word = &turn.episode.item;
        let entry = self
            .lexicon
            .get(word)
            .ok_or_else(|| {
                PolicyError::new(format!(
                    "the scripted attacker does not know the word {word:?}; play words of its lexicon, or make a lexicon of \
                     your words with `spag data lexicon`"
                ))
            })?;
        let utterance = Ok(self.said(entry, turn));
        self.ready.push(Reply { number: turn.number, utterance });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        Ok(std::mem::take(&mut self.ready))
    }
}

/// Finds the words that fit the attacker's clues, and predicts, names or hedges, in one of three styles.
#[derive(Clone, Debug)]
pub struct ScriptedDefender<'a> {
    lexicon: &'a Lexicon,
    thoughts: Thoughts,
    guesses: Guesses,
    ready: Vec<Reply>,
}

impl<'a> ScriptedDefender<'a> {
    /// A defender for the words of a lexicon.
    pub fn new(lexicon: &'a Lexicon) -> Self {
        Self { lexicon, thoughts: Thoughts::Silent, guesses: Guesses::Early, ready: Vec::new() }
    }

    /// The same defender, which predicts at other times.
    pub fn with_guesses(self, guesses: Guesses) -> Self {
        Self { guesses, ..self }
    }

    /// The same defender, which says what it thinks or does not.
    pub fn with_thoughts(self, thoughts: Thoughts) -> Self {
        Self { thoughts, ..self }
    }

    fn utterance(&self, request: &TurnRequest<'_>) -> String {
        let mut style_rng = style_rng(request.game_seed, taboo::DEFENDER);
        let style = DEFENDERS.choose_weighted(&mut style_rng, |style| style.1).map_or(DefenderStyle::Chatty, |s| s.0);
        let timid = style_rng.random::<f64>() < TIMID;
        let voice = Voice::new(self.lexicon);
        let rng = &mut ChaCha8Rng::seed_from_u64(request.seed);
        let clues = request.episode.history.iter().filter(|u| u.seat == taboo::ATTACKER);
        let clues = clues.map(|u| u.content.as_str()).collect::<Vec<_>>().join(" ");
        let candidates = self.lexicon.candidates(&clues);
        let last = request.episode.history.last().map_or("", |u| u.content.as_str());
        let asked = last.ends_with('?') && !last.starts_with("Do you") && !last.starts_with("How");
        let Some(pick) = candidates.choose(rng).copied() else { return voice.hedge(rng) };
        let n = candidates.len();
        let sure = self.guesses == Guesses::Sure;
        let mut chance = |p: f64| rng.random::<f64>() < p;
        let guess = match style {
            _ if n > 1 && sure => false,
            DefenderStyle::Careful => n == 1 && chance(if timid { 0.5 } else { 0.95 }),
            _ if sure => chance(0.95),
            DefenderStyle::Hasty => n <= 2 || (n <= 4 && chance(0.5)) || (n <= 15 && chance(0.12)),
            DefenderStyle::Chatty => false,
        };
        if guess {
            return texts::guess(pick);
        }
        let named = match style {
            DefenderStyle::Careful => false,
            _ if sure && n == 1 => false,
            DefenderStyle::Hasty => asked && n <= 15 && chance(0.3),
            DefenderStyle::Chatty => (asked && n <= 30 && chance(0.75)) || (n <= 15 && chance(0.2)),
        };
        if named {
            return voice.name(pick, rng);
        }
        if style == DefenderStyle::Chatty && !sure && n <= 2 && chance(0.6) {
            texts::guess(pick)
        } else {
            voice.hedge(rng)
        }
    }
}

impl Policy for ScriptedDefender<'_> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        let told = self.thoughts == Thoughts::Told;
        let reasoning = told.then(|| thoughts::of_defender(self.lexicon, turn.episode));
        let utterance = Ok(Said { reasoning, ..Said::from(self.utterance(turn)) });
        self.ready.push(Reply { number: turn.number, utterance });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        Ok(std::mem::take(&mut self.ready))
    }
}
