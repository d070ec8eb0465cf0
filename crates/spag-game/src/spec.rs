//! A game to be played, and the seeds of its draws.

/// A game to be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GameSpec {
    /// Its number, unique among the games played at the same time.
    pub number: usize,
    /// What it is about: in Adversarial Taboo, the target word. Empty for games whose seed decides everything.
    pub item: String,
    /// Turns after which an undecided game is tied, if the game has a limit. A turn is one utterance of each seat.
    pub max_turns: usize,
    /// Seed of the game: of its deal, and of the draws of its utterances unless they have another.
    pub seed: u64,
    /// Seed of the draws of the utterances, if several games have one deal.
    pub sampling_seed: Option<u64>,
}

impl GameSpec {
    /// The seed of the utterance after so many others.
    pub fn utterance_seed(&self, utterances: usize) -> u64 {
        game_seed(self.sampling_seed.unwrap_or(self.seed), utterances)
    }
}

/// The seed of a game, mixed so that the seeds of consecutive games are unrelated.
pub fn game_seed(base_seed: u64, number: usize) -> u64 {
    mix(mix(base_seed) ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
