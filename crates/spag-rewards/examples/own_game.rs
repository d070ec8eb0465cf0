//! A game and a rule of credit that these crates do not know: players guess a number, and the last guess is rewarded.

use spag_game::{
    CollectedGames, Ending, EndingLabel, Episode, EpisodeView, Game, GameSpec, Labels, Match, Play, PlayConfig,
    Refusal, Ruling, ScriptedPolicy, Seat, Seats, TurnRequest, UtteranceKind, UtteranceRule, Verdict, play_games,
};
use spag_io::{PromptText, TurnPrompt};
use spag_rewards::{Credit, SampleReasoning, credit_games};

const FOUND: Ending = Ending::new(&EndingLabel {
    name: "found",
    title: "found",
    description: "a player names the number and wins",
    outcome: "found",
    // Either seat can win so.
    winner: None,
    play: Play::ByTheRules,
});

static LABELS: Labels = Labels {
    name: "higher-or-lower",
    title: "Higher or Lower",
    seats: [Seat::FIRST, Seat::SECOND],
    verbs: ["begins", "follows"],
    endings: &[FOUND],
    outcomes: &["found"],
    broken_rule: "no rule can be broken",
    item: "number",
    item_key: "number",
    utterances: UtteranceKind::Moves,
    guesses: &[],
};

/// Both players guess in turn a number below 100, which the seed draws, and are told whether it is higher or lower.
#[derive(Debug)]
struct HigherOrLower;

impl Game for HigherOrLower {
    fn labels(&self) -> &'static Labels {
        &LABELS
    }

    fn start(&self, spec: &GameSpec) -> spag_game::Result<Box<dyn Match + '_>> {
        Ok(Box::new(Guessing { number: spec.seed % 100, utterances: 0, accepted: 0 }))
    }
}

#[derive(Debug)]
struct Guessing {
    number: u64,
    utterances: usize,
    accepted: usize,
}

impl Match for Guessing {
    fn to_move(&self) -> Seat {
        LABELS.seat_at(self.accepted)
    }

    fn prompt(&self, _: Seat, episode: &Episode) -> TurnPrompt {
        let mut prompt = PromptText::own("Guess a number below 100.");
        for said in &episode.history {
            prompt.push("\n");
            prompt.push_said(&said.content);
        }
        TurnPrompt::Plain(prompt)
    }

    fn utterance_rule(&self) -> UtteranceRule {
        UtteranceRule::Trimmed
    }

    fn apply(&mut self, text: &str) -> Ruling {
        self.utterances += 1;
        let Ok(guess) = text.parse::<u64>() else { return Ruling::refused(Refusal::Format) };
        if guess == self.number {
            return Ruling::ended(Verdict::won_by(self.to_move(), FOUND, self.utterances));
        }
        self.accepted += 1;
        Ruling::ACCEPTED
    }
}

/// Only the last guess has a reward.
struct LastGuess;

impl Credit for LastGuess {
    fn has_samples(&self, verdict: &Verdict) -> bool {
        verdict.winner().is_some()
    }

    fn rewards(&self, _: &EpisodeView<'_>, verdict: &Verdict) -> Vec<(usize, f64)> {
        verdict.history_length.checked_sub(1).map(|last| (last, 1.0)).into_iter().collect()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Counts up from 0.
    let mut player = ScriptedPolicy::new(|turn: &TurnRequest<'_>| turn.episode.history.len().to_string());
    let specs = [7, 40].map(|seed| GameSpec {
        number: seed as usize,
        item: String::new(),
        max_turns: 0,
        seed,
        sampling_seed: None,
    });
    let mut games = CollectedGames::default();
    play_games(&HigherOrLower, specs, Seats::SelfPlay(&mut player), &PlayConfig::default(), &mut games)?;
    let judged: Vec<_> = games.finished.iter().map(|game| (&game.episode, game.verdict)).collect();
    let credited = credit_games(&HigherOrLower, &judged, &LastGuess, (0, &SampleReasoning::default()))?;
    for sample in &credited.samples {
        println!("{}", serde_json::to_string(sample)?);
    }
    print!("{}", credited.summary);
    assert_eq!(credited.samples.iter().map(|sample| sample.target.as_str()).collect::<Vec<_>>(), ["7", "40"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn game_is_played_and_credited() {
        super::main().unwrap();
    }
}
