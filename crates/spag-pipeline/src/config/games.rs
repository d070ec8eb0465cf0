//! The games of a run: one, or several with shares.

use std::collections::HashSet;
use std::path::PathBuf;

use spag_selfplay::{GameSettings, GameShare};

use super::online_choices::WordOrder;
use super::run::RunConfig;
use super::sources::ImitationSource;

/// A game of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunGame {
    /// Its folder in the folder of each stage; none if it is the only game.
    pub folder: Option<String>,
    /// The game and its rules.
    pub rules: GameSettings,
    /// The file of words or facts.
    pub data: Option<PathBuf>,
}

/// A setting and what is wrong with it.
type Wrong = (&'static str, String);

impl RunConfig {
    /// The games in the order of the configuration.
    pub fn run_games(&self) -> Vec<RunGame> {
        if self.games.is_empty() {
            let data = self.words.file.clone();
            return vec![RunGame { folder: None, rules: self.rules.clone(), data }];
        }
        let is_alone = self.games.len() == 1;
        let game = |(game, folder): (&GameShare, String)| {
            let rules = game.rules(&self.rules);
            let data = if rules.has_items() { self.words.file.clone() } else { game.data.clone() };
            RunGame { folder: (!is_alone).then_some(folder), rules, data }
        };
        self.games.iter().zip(GameShare::folders(&self.games)).map(game).collect()
    }

    /// How many of `total` games each game has, as [`GameShare::split`].
    pub fn split_games(&self, total: usize) -> Vec<usize> {
        if self.games.is_empty() { vec![total] } else { GameShare::split(&self.games, total) }
    }

    /// Checks that the settings fit the games.
    ///
    /// # Errors
    /// The setting and what is wrong with it.
    pub(super) fn check_games(&self) -> Result<(), Wrong> {
        self.check_mix()?;
        let games = self.run_games();
        let has_items = games.iter().any(|game| game.rules.has_items());
        for RunGame { rules, .. } in &games {
            self.check_sources_of(rules)?;
        }
        let named = || games.iter().map(|game| game.rules.game.as_str()).collect::<Vec<_>>().join(", ");
        if !has_items && self.words.holdout > 0.0 {
            return Err(("words.holdout", format!("{} has no words to hold out", named())));
        }
        if let (false, Some(WordOrder::Balanced)) = (has_items, self.online.as_ref().map(|online| online.words)) {
            return Err(("online.words", format!("{} has no words to draw", named())));
        }
        if has_items && games.len() == 1 {
            return Ok(());
        }
        let played = [
            ("self_play.games", self.self_play.games, self.epochs > 0 && self.online.is_none()),
            ("imitation.games", self.imitation.games, self.imitation.source.any(ImitationSource::plays)),
        ];
        match played.into_iter().find(|(_, games, is_played)| *is_played && games.is_none()) {
            Some((setting, ..)) if games.len() > 1 => {
                Err((setting, format!("the games {} share them, so their number must be set", named())))
            }
            Some((setting, ..)) => Err((setting, format!("{} has no words, so their number must be set", named()))),
            None => self.check_parts(),
        }
    }

    /// Checks that the players of the imitation know a game.
    fn check_sources_of(&self, rules: &GameSettings) -> Result<(), Wrong> {
        let (game, source) = (&rules.game, |source| self.imitation.source.has(source));
        if rules.has_items() && source(ImitationSource::Random) {
            return Err(("imitation.source", format!("\"random\" needs a game with a list of actions, not {game}")));
        }
        if !rules.has_items() && source(ImitationSource::Scripted) {
            let message = format!("the scripted players cannot play {game}; set it to \"random\", \"self\" or another");
            return Err(("imitation.source", message));
        }
        Ok(())
    }

    /// Checks the list of games.
    fn check_mix(&self) -> Result<(), Wrong> {
        let wrong = |message: String| Err(("games", message));
        let mut seen = HashSet::new();
        for GameShare { game, game_options, data, share } in &self.games {
            if game.is_empty() {
                return wrong("each of [[games]] needs a name: game = \"kuhn-poker\"".to_owned());
            }
            if !(share.is_finite() && *share > 0.0) {
                return wrong(format!("the share of {game} is {share}; expected a number above 0"));
            }
            if !seen.insert((game, game_options)) {
                return wrong(format!("{game} is named twice with the same options; add the shares up"));
            }
            let rules = GameSettings { game: game.clone(), ..GameSettings::default() };
            if rules.has_items() && (data.is_some() || game_options.is_some()) {
                let setting = if data.is_some() { "data" } else { "game_options" };
                return wrong(format!(
                    "{game} has no {setting} here: [words] has its words, max_turns and judge its rules"
                ));
            }
        }
        let has_items = self.run_games().iter().any(|game| game.rules.has_items());
        if !self.games.is_empty() && !has_items && self.words.file.is_some() {
            return Err(("words.file", "none of [[games]] is taboo; give each game its file as `data`".to_owned()));
        }
        if self.games.len() > 1 && self.imitation.source.has(ImitationSource::Samples) {
            let message =
                "samples do not belong to one of [[games]]; use \"games\", whose rows name their game".to_owned();
            return Err(("imitation.source", message));
        }
        Ok(())
    }

    /// Checks that each of several games has some of all numbers of games.
    fn check_parts(&self) -> Result<(), Wrong> {
        let evaluation = &self.evaluation;
        let arena = Some(evaluation.arena_games).filter(|games| *games > 0);
        let own = Some(evaluation.self_play_games).filter(|games| *games > 0);
        // The games of a group are of one kind.
        let groups = self.online.as_ref().map(|online| online.games_per_update / online.group_size);
        for (setting, games) in [
            ("self_play.games", self.self_play.games.filter(|_| self.epochs > 0 && self.online.is_none())),
            ("online.games_per_update", groups),
            ("imitation.games", self.imitation.games.filter(|_| self.imitation.source.any(ImitationSource::plays))),
            ("evaluation.games", Some(evaluation.games)),
            ("evaluation.held_out_games", evaluation.held_out_games.filter(|_| self.words.holdout > 0.0)),
            ("evaluation.self_play_games", own),
            ("evaluation.arena_games", arena),
        ] {
            let Some(games) = games else { continue };
            if let Some(at) = self.split_games(games).iter().position(|count| *count == 0) {
                let game = &self.games[at].game;
                return Err((
                    setting,
                    format!("{games} games leave none for {game}; play more, or give it a larger share"),
                ));
            }
        }
        Ok(())
    }
}
