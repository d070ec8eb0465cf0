//! Throughput of one process, and the work of its players.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use spag_model::generate::GenerationStats;

use crate::endpoint::EndpointStats;

/// The games that a process has played.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Played {
    /// Finished games.
    pub finished: u64,
    /// Failed games.
    pub failed: u64,
    /// Whether the observer stopped it before all games were played.
    pub stopped: bool,
    /// Duration.
    pub seconds: f64,
}

/// The work of a player.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlayerWork {
    /// Of the engine of a model.
    Engine(GenerationStats),
    /// Of an endpoint.
    Endpoint(EndpointStats),
}

impl PlayerWork {
    /// Generated tokens.
    pub fn new_tokens(&self) -> u64 {
        match self {
            Self::Engine(stats) => stats.new_tokens,
            Self::Endpoint(stats) => stats.completion_tokens,
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Engine(stats) => json!({
                "kind": "model",
                "prompt_tokens": stats.prompt_tokens,
                "new_tokens": stats.new_tokens,
                "cached_tokens": stats.cached_tokens,
                "hit_rate": stats.hit_rate(),
                "computed_tokens": stats.computed_tokens,
                "recomputed_tokens": stats.recomputed_tokens,
                "preemptions": stats.preemptions,
                "cut_prompts": stats.truncated_prompts,
            }),
            Self::Endpoint(stats) => json!({
                "kind": "endpoint",
                "requests": stats.requests,
                "retries": stats.retries,
                "failures": stats.failures,
                "prompt_tokens": stats.prompt_tokens,
                "completion_tokens": stats.completion_tokens,
            }),
        }
    }
}

impl fmt::Display for PlayerWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(stats) => write!(
                f,
                "{:.1}% of {} prompt tokens were cached; {} tokens computed for {} requested; {} prompts cut",
                100.0 * stats.hit_rate(),
                stats.prompt_tokens,
                stats.computed_tokens,
                stats.prompt_tokens + stats.new_tokens,
                stats.truncated_prompts
            ),
            Self::Endpoint(stats) => write!(
                f,
                "{} requests, {} of them retries, {} turns without an answer; {} prompt tokens, {} completion tokens",
                stats.requests, stats.retries, stats.failures, stats.prompt_tokens, stats.completion_tokens
            ),
        }
    }
}

/// The work of one process since it was started: as JSON a part of the summary file, as text a few lines.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStats {
    /// The rank of the process.
    pub rank: usize,
    /// The number of processes.
    pub world_size: usize,
    /// Its games.
    pub played: Played,
    /// Its players, each with its seat: `both`, or the name of a seat.
    pub players: Vec<(&'static str, PlayerWork)>,
}

impl RunStats {
    fn per_second(&self, count: u64) -> f64 {
        if self.played.seconds > 0.0 { count as f64 / self.played.seconds } else { 0.0 }
    }

    fn games_per_second(&self) -> f64 {
        self.per_second(self.played.finished)
    }

    fn tokens_per_second(&self) -> f64 {
        self.per_second(self.players.iter().map(|(_, work)| work.new_tokens()).sum())
    }
}

impl Serialize for RunStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let players: Map<String, Value> =
            self.players.iter().map(|(seat, work)| ((*seat).to_owned(), work.json())).collect();
        json!({
            "rank": self.rank,
            "world_size": self.world_size,
            "games": self.played.finished,
            "failed_games": self.played.failed,
            "seconds": self.played.seconds,
            "games_per_s": self.games_per_second(),
            "tokens_per_s": self.tokens_per_second(),
            "players": players,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for RunStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Played { finished, failed, seconds, .. } = self.played;
        match self.world_size {
            1 => write!(f, "this run: ")?,
            size => write!(f, "rank {} of {size}: ", self.rank)?,
        }
        let (games, tokens) = (self.games_per_second(), self.tokens_per_second());
        write!(f, "{finished} games in {seconds:.1} s, {games:.2} games/s, {tokens:.0} tokens/s")?;
        if failed > 0 {
            write!(f, "; {failed} games failed")?;
        }
        self.players.iter().try_for_each(|(seat, work)| write!(f, "\n  {seat}: {work}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_text_have_rates_of_this_process() {
        let engine = GenerationStats { new_tokens: 30, prompt_tokens: 100, cached_tokens: 75, ..Default::default() };
        let endpoint = EndpointStats { requests: 9, retries: 2, completion_tokens: 10, ..Default::default() };
        let stats = RunStats {
            rank: 1,
            world_size: 2,
            played: Played { finished: 8, failed: 1, stopped: false, seconds: 4.0 },
            players: vec![("attacker", PlayerWork::Endpoint(endpoint)), ("defender", PlayerWork::Engine(engine))],
        };
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!((json["games_per_s"].as_f64(), json["tokens_per_s"].as_f64()), (Some(2.0), Some(10.0)));
        assert_eq!((json["rank"].as_u64(), json["failed_games"].as_u64()), (Some(1), Some(1)));
        assert_eq!(json["players"]["defender"]["hit_rate"].as_f64(), Some(0.75));
        assert_eq!(json["players"]["attacker"]["retries"], 2);
        let text = stats.to_string();
        for part in
            ["rank 1 of 2: 8 games in 4.0 s, 2.00 games/s, 10 tokens/s; 1 games failed", "75.0% of 100", "9 requests"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let nothing = RunStats { rank: 0, world_size: 1, played: Played::default(), players: Vec::new() };
        assert_eq!(nothing.to_string(), "this run: 0 games in 0.0 s, 0.00 games/s, 0 tokens/s");
    }
}
