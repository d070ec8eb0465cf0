//! Scripted players of mixed skill. They are stateless: a game's personality is drawn from the game's seed and the
//! rest is read off the history.

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_game::{Episode, Player, PlayerError, PollMode, Reply, Role, TurnRequest};

use crate::lexicon::{Entry, Lexicon};
use crate::texts;

/// How often each kind of attacker and defender sits at the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skills {
    /// Weights of the attackers: blunt, gradual, vague, mixed.
    pub attackers: [f64; 4],
    /// Weights of the defenders: careful, hasty, chatty.
    pub defenders: [f64; 3],
    /// Share of attackers' utterances that are small talk.
    pub small_talk: f64,
    /// Share of defenders that hesitate to guess a word that they are sure of.
    pub timid: f64,
}

impl Default for Skills {
    fn default() -> Self {
        Self { attackers: [3.0, 3.0, 2.0, 3.0], defenders: [2.5, 4.0, 5.0], small_talk: 0.05, timid: 0.25 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum AttackerKind {
    Blunt,
    Gradual,
    Vague,
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum DefenderKind {
    Careful,
    Hasty,
    Chatty,
}

/// Draws one of `kinds` with the given weights.
fn weighted<T: Copy>(kinds: &[T], weights: &[f64], rng: &mut impl Rng) -> Option<T> {
    let pairs: Vec<(T, f64)> = kinds.iter().copied().zip(weights.iter().copied()).collect();
    pairs.choose_weighted(rng, |pair| pair.1).ok().map(|pair| pair.0)
}

/// The random numbers of a game's personality; one stream a role.
fn personality(game_seed: u64, role: Role) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(game_seed);
    rng.set_stream(match role {
        Role::Attacker => 1,
        Role::Defender => 2,
    });
    rng
}

/// Gives true clues of its word, in one of four manners.
#[derive(Clone, Debug)]
pub struct ScriptedAttacker<'a> {
    lexicon: &'a Lexicon,
    skills: Skills,
    ready: Vec<Reply>,
}

impl<'a> ScriptedAttacker<'a> {
    /// Attackers of the usual mix.
    pub fn new(lexicon: &'a Lexicon) -> Self {
        Self::with_skills(lexicon, Skills::default())
    }

    /// Attackers of a mix of one's own.
    pub fn with_skills(lexicon: &'a Lexicon, skills: Skills) -> Self {
        Self { lexicon, skills, ready: Vec::new() }
    }

    fn say(&self, entry: &Entry, request: &TurnRequest<'_>) -> String {
        let mut personality = personality(request.game_seed, Role::Attacker);
        let kinds = [AttackerKind::Blunt, AttackerKind::Gradual, AttackerKind::Vague, AttackerKind::Mixed];
        let kind = weighted(&kinds, &self.skills.attackers, &mut personality).unwrap_or(AttackerKind::Mixed);
        let mut clues: Vec<&str> = entry.clues.iter().map(String::as_str).collect();
        clues.shuffle(&mut personality);
        // Clues go out in one order, and begin anew when all are out.
        let given = self.given(request.episode);
        let clue = |offset: usize| clues.get((given + offset) % clues.len().max(1)).copied().unwrap_or("");
        let category = entry.category.as_str();
        let rng = &mut ChaCha8Rng::seed_from_u64(request.seed);
        if rng.random::<f64>() < self.skills.small_talk {
            return texts::small_talk(rng);
        }
        match kind {
            AttackerKind::Blunt if rng.random::<f64>() < 0.6 => texts::ask_two(category, clue(0), clue(1), rng),
            AttackerKind::Blunt => texts::ask_one(category, clue(0), rng),
            AttackerKind::Gradual if request.episode.history.is_empty() => texts::about_category(category, rng),
            AttackerKind::Gradual if rng.random::<f64>() < 0.6 => texts::one_clue(clue(0), rng),
            AttackerKind::Gradual => texts::ask_one(category, clue(0), rng),
            AttackerKind::Vague => match rng.random::<f64>() {
                f if f < 0.7 => texts::one_clue(clue(0), rng),
                f if f < 0.88 => texts::ask_two_plain(clue(0), clue(1), rng),
                _ => texts::small_talk(rng),
            },
            AttackerKind::Mixed => match rng.random::<f64>() {
                f if f < 0.2 => texts::about_category(category, rng),
                f if f < 0.45 => texts::one_clue(clue(0), rng),
                f if f < 0.65 => texts::ask_one(category, clue(0), rng),
                f if f < 0.8 => texts::ask_two(category, clue(0), clue(1), rng),
                f if f < 0.9 => texts::ask_two_plain(clue(0), clue(1), rng),
                _ => texts::small_talk(rng),
            },
        }
    }

    /// Clues that the attacker has given so far.
    fn given(&self, episode: &Episode) -> usize {
        let said = episode.history.iter().filter(|u| u.role == Role::Attacker);
        said.map(|u| self.lexicon.clues_in(&u.content).len()).sum()
    }
}

impl Player for ScriptedAttacker<'_> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        let word = &turn.episode.target_word;
        let entry = self
            .lexicon
            .get(word)
            .ok_or_else(|| PlayerError::new(format!("the scripted attacker does not know the word {word:?}")))?;
        let utterance = Ok(self.say(entry, turn));
        self.ready.push(Reply { game: turn.game, utterance });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PlayerError> {
        Ok(std::mem::take(&mut self.ready))
    }
}

/// Narrows the words down by the attacker's clues, and guesses, names or hedges, in one of three manners.
#[derive(Clone, Debug)]
pub struct ScriptedDefender<'a> {
    lexicon: &'a Lexicon,
    skills: Skills,
    ready: Vec<Reply>,
}

impl<'a> ScriptedDefender<'a> {
    /// Defenders of the usual mix.
    pub fn new(lexicon: &'a Lexicon) -> Self {
        Self::with_skills(lexicon, Skills::default())
    }

    /// Defenders of a mix of one's own.
    pub fn with_skills(lexicon: &'a Lexicon, skills: Skills) -> Self {
        Self { lexicon, skills, ready: Vec::new() }
    }

    fn say(&self, request: &TurnRequest<'_>) -> String {
        let mut personality = personality(request.game_seed, Role::Defender);
        let kinds = [DefenderKind::Careful, DefenderKind::Hasty, DefenderKind::Chatty];
        let kind = weighted(&kinds, &self.skills.defenders, &mut personality).unwrap_or(DefenderKind::Chatty);
        let timid = personality.random::<f64>() < self.skills.timid;
        let rng = &mut ChaCha8Rng::seed_from_u64(request.seed);
        let heard = request.episode.history.iter().filter(|u| u.role == Role::Attacker);
        let heard = heard.map(|u| u.content.as_str()).collect::<Vec<_>>().join(" ");
        let candidates = self.lexicon.candidates(&heard);
        let last = request.episode.history.last().map_or("", |u| u.content.as_str());
        let asked = last.ends_with('?') && !last.starts_with("Do you") && !last.starts_with("How");
        let Some(pick) = candidates.choose(rng).copied() else { return texts::hedge(rng) };
        let n = candidates.len();
        let mut chance = |p: f64| rng.random::<f64>() < p;
        let guess = match kind {
            DefenderKind::Careful => n == 1 && chance(if timid { 0.5 } else { 0.95 }),
            DefenderKind::Hasty => n <= 2 || (n <= 4 && chance(0.5)) || (n <= 15 && chance(0.12)),
            DefenderKind::Chatty => false,
        };
        if guess {
            return texts::guess(pick);
        }
        let named = match kind {
            DefenderKind::Careful => false,
            DefenderKind::Hasty => asked && n <= 15 && chance(0.3),
            DefenderKind::Chatty => (asked && n <= 30 && chance(0.75)) || (n <= 15 && chance(0.2)),
        };
        if named {
            return texts::name(pick, rng);
        }
        match kind == DefenderKind::Chatty && n <= 2 && chance(0.6) {
            true => texts::guess(pick),
            false => texts::hedge(rng),
        }
    }
}

impl Player for ScriptedDefender<'_> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        let utterance = Ok(self.say(turn));
        self.ready.push(Reply { game: turn.game, utterance });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PlayerError> {
        Ok(std::mem::take(&mut self.ready))
    }
}
