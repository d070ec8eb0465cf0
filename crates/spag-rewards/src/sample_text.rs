//! Samples of games as text, put together from parts that are in JSON's form already.

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use spag_game::{EpisodeView, JsonPrompts, JsonText, Role, Verdict, game_seed};

use crate::{CreditConfig, RoleWeights, discounted_rewards, sample_file::Layout, strip::strip};

/// Games with more utterances of the winner than this have their rewards worked out anew each time.
const KEPT: usize = 64;

/// What stands between the values of a sample.
struct Frame {
    query: &'static str,
    target: &'static str,
    reward: &'static str,
    role: &'static str,
    weight: &'static str,
    end: &'static str,
}

const LINE: Frame = Frame {
    query: r#"{"query":""#,
    target: r#"","target":""#,
    reward: r#"","reward":"#,
    role: r#","role":""#,
    weight: r#"","weight":"#,
    end: "}\n",
};

const ELEMENT: Frame = Frame {
    query: ",\n  {\n    \"query\": \"",
    target: "\",\n    \"target\": \"",
    reward: "\",\n    \"reward\": ",
    role: ",\n    \"role\": \"",
    weight: "\",\n    \"weight\": ",
    end: "\n  }",
};

/// Writes the samples of games as [`RowWriter`](crate::sample_file::RowWriter) would.
pub(crate) struct SampleText<'a> {
    prompts: &'a JsonPrompts,
    config: &'a CreditConfig,
    frame: &'static Frame,
    attacker_weight: String,
    defender_weight: String,
    /// Rewards of a game by the number of the winner's utterances, as text.
    rewards: Vec<Vec<String>>,
}

impl<'a> SampleText<'a> {
    pub(crate) fn new(
        prompts: &'a JsonPrompts,
        config: &'a CreditConfig,
        weights: RoleWeights,
        layout: Layout,
    ) -> Self {
        Self {
            prompts,
            config,
            frame: match layout {
                Layout::Lines => &LINE,
                Layout::List => &ELEMENT,
            },
            attacker_weight: number(weights.attacker),
            defender_weight: number(weights.defender),
            rewards: Vec::new(),
        }
    }

    /// Appends the samples of one decided game, as [`credit_game`](crate::credit) makes them, and says how many.
    pub(crate) fn append(
        &mut self,
        to: &mut String,
        index: usize,
        episode: &EpisodeView<'_>,
        verdict: &Verdict,
        winner: Role,
    ) -> usize {
        let said = || {
            let lines = episode.history.iter().take(verdict.history_length).enumerate();
            lines.filter(|(_, line)| line.role == winner)
        };
        let samples = said().count();
        self.keep_rewards(samples);
        let fresh;
        let rewards = match self.rewards.get(samples) {
            Some(rewards) => rewards,
            None => {
                fresh = rewards_as_text(samples, self.config);
                &fresh
            }
        };
        let (frame, game) = (self.frame, game_seed(self.config.seed, index));
        let weight = match winner {
            Role::Attacker => &self.attacker_weight,
            Role::Defender => &self.defender_weight,
        };
        for ((at, line), reward) in said().zip(rewards) {
            let mut rng = ChaCha8Rng::seed_from_u64(game_seed(game, at));
            to.push_str(frame.query);
            self.prompts.append_training_query(to, episode, at, &mut rng);
            to.push_str(frame.target);
            append_stripped(to, &line.content);
            to.extend([frame.reward, reward, frame.role, winner.name(), frame.weight, weight, frame.end]);
        }
        samples
    }

    fn keep_rewards(&mut self, samples: usize) {
        while self.rewards.len() <= samples.min(KEPT) {
            self.rewards.push(rewards_as_text(self.rewards.len(), self.config));
        }
    }
}

fn rewards_as_text(samples: usize, config: &CreditConfig) -> Vec<String> {
    discounted_rewards(samples, config.decay_weight, config.norm).into_iter().map(number).collect()
}

/// A number as `serde_json` writes it.
fn number(value: f64) -> String {
    serde_json::Value::from(value).to_string()
}

/// Appends a text without the white space around it.
fn append_stripped(to: &mut String, content: &JsonText<'_>) {
    let text = content.text();
    match strip(&text) {
        stripped if stripped.len() == text.len() => to.push_str(content.json()),
        stripped => to.push_str(JsonText::of(stripped).json()),
    }
}
