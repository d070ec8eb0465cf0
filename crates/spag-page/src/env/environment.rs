//! One session: games one after another, with answers in the form of OpenEnv's.

use serde_json::{Map, Value, json};
use spag_game::SEATS;
use spag_game::session::{Observation, Problem, Session, drawn_seed, parse_seed};

/// A session and what OpenEnv's answers say of its episode.
pub(super) struct Environment {
    session: Session,
    /// The rules as each player was told them, once it was.
    prompts: [Option<String>; SEATS],
    /// Who moves next.
    player: Option<usize>,
    episode_id: Option<String>,
    steps: u64,
    /// The public state of the game, once there is one.
    game: Option<Map<String, Value>>,
}

impl Environment {
    pub(super) fn new(session: Session) -> Self {
        Self { session, prompts: Default::default(), player: None, episode_id: None, steps: 0, game: None }
    }

    /// Starts an episode. `data` has `seed` and `episode_id`, both optional, and options of the game.
    ///
    /// # Errors
    /// The seed or an option is invalid. A game in progress goes on.
    pub(super) fn reset(&mut self, mut data: Map<String, Value>) -> Result<Value, Problem> {
        let seed = parse_seed(data.shift_remove("seed").as_ref())?.unwrap_or_else(drawn_seed);
        let id = data.shift_remove("episode_id").and_then(|id| id.as_str().map(str::to_owned));
        let observation = self.session.reset(seed, &data)?;
        self.prompts = Default::default();
        (self.player, self.steps, self.game) = (observation.player, 0, Some(observation.state.clone()));
        self.episode_id = Some(id.filter(|id| !id.is_empty()).unwrap_or_else(drawn_id));
        Ok(answer(&mut self.prompts, &observation, Value::Null))
    }

    /// Plays the text of the player to move. The reward is that of this player: 0 before the end.
    ///
    /// # Errors
    /// No game is in progress.
    pub(super) fn step(&mut self, text: &str) -> Result<Value, Problem> {
        let observation = self.session.step(text)?;
        let reward = match (&observation.end, self.player) {
            (Some((rewards, _)), Some(player)) => rewards[player.min(SEATS - 1)],
            _ => 0,
        };
        self.steps += 1;
        (self.player, self.game) = (observation.player, Some(observation.state.clone()));
        Ok(answer(&mut self.prompts, &observation, reward.into()))
    }

    /// The episode's id, its number of steps, and what both players may know of the game.
    pub(super) fn state(&self) -> Value {
        let mut state = json!({"episode_id": self.episode_id, "step_count": self.steps});
        if let (Some(game), Some(state)) = (&self.game, state.as_object_mut()) {
            state.insert("game".to_owned(), game.clone().into());
        }
        state
    }

    /// Ends the game in progress, if any, without a result.
    pub(super) fn abandon(&mut self) {
        self.session.abandon();
    }
}

/// `{"observation", "reward", "done"}`.
fn answer(prompts: &mut [Option<String>; SEATS], shown: &Observation<'_>, reward: Value) -> Value {
    let message = |message: &&spag_game::Message| {
        let kind = json!(message.kind).as_str().unwrap_or_default().to_uppercase();
        json!({"sender_id": message.from, "content": message.text, "category": kind})
    };
    let prompt = shown.player.and_then(|player| prompts.get_mut(player)).map_or("", |prompt| {
        let is_prompt = |message: &&&spag_game::Message| message.kind == spag_game::MessageKind::Prompt;
        let told = || shown.observations.iter().find(is_prompt).map(|message| message.text.clone());
        prompt.get_or_insert_with(|| told().unwrap_or_default())
    });
    let mut info = Map::new();
    info.insert("state".into(), shown.state.clone().into());
    if let Some(private) = &shown.private {
        info.insert("private".into(), private.clone().into());
    }
    info.insert("invalid".into(), shown.refusal.is_some().into());
    if let Some(refusal) = shown.refusal {
        info.insert("refusal".into(), refusal.name().into());
    }
    if let Some(([first, second], reason)) = shown.end {
        info.insert("rewards".into(), json!({"0": first, "1": second}));
        info.insert("reason".into(), reason.into());
    }
    if let Some(seed) = shown.seed {
        info.insert("seed".into(), seed.into());
    }
    json!({
        "observation": {
            "prompt": prompt,
            "messages": shown.observations.iter().map(message).collect::<Vec<_>>(),
            "current_player_id": shown.player,
            "legal_players": Vec::from_iter(shown.player),
            "info": info,
        },
        "reward": reward,
        "done": shown.end.is_some(),
    })
}

/// A random UUID of version 4.
fn drawn_id() -> String {
    let bits: u128 = (rand::random::<u128>() & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
    let digits = format!("{bits:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_of_version_4() {
        let id = drawn_id();
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(id.as_bytes()[14] == b'4' && b"89ab".contains(&id.as_bytes()[19]), "{id}");
        assert_ne!(id, drawn_id());
    }
}
