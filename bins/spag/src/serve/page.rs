//! The flags of the page.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value};
use spag_cli::{Error, PromptArgs, Result, exit, flags};
use spag_game::{JudgeKind, PromptSet, WordList, parse_options, taboo};
use spag_page::{Page, PageConfig, PageEndpoint};
use spag_selfplay::arena::NamedPlayer;
use spag_selfplay::{
    EndpointAsker, EndpointConfig, EndpointKeys, EndpointSettings, LengthSettings, PlayerSpec, RetryConfig,
    SamplingSettings, limits,
};
use spag_world::Lexicon;

/// Tries of a turn of an endpoint, after which the person who waits may try again.
const TRIES: u32 = 2;

/// The flags of the games at `/`. They do not change the API.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct PageArgs {
    /// The game that the page begins with; the others can be chosen on the page. docs/GAMES.md lists them.
    #[arg(long, value_name = "NAME", default_value = taboo::LABELS.name, help_heading = "Page")]
    game: String,
    /// Options of this game, NAME=VALUE, separated by blanks; not for taboo.
    #[arg(long, value_name = "OPTIONS", help_heading = "Page")]
    game_options: Option<String>,
    /// The file of words or facts of this game, if it needs one; taboo has --words.
    #[arg(long, value_name = "FILE", help_heading = "Page")]
    game_data: Option<PathBuf>,
    /// Target words of the page, one per line [default: the words of the small world].
    #[arg(long, value_name = "FILE", help_heading = "Page")]
    words: Option<PathBuf>,
    /// Folder of `spag run` whose games and report the page shows.
    #[arg(long, value_name = "DIR", help_heading = "Page")]
    run: Option<PathBuf>,
    /// A model behind an OpenAI-compatible server that plays on the page beside the served ones, written as in `spag arena`:
    /// NAME=openai:URL#MODEL, with the key in OPENAI_API_KEY. May be given several times.
    #[arg(long, value_name = "NAME=ENDPOINT", help_heading = "Page")]
    player: Vec<String>,
    #[command(flatten)]
    requests: EndpointSettings,
    #[command(flatten)]
    prompts: PromptArgs,
    /// Judge of taboo: paper (matches the target word anywhere in a word) or whole-word.
    #[arg(long, value_name = "JUDGE", default_value = "paper", help_heading = "Page")]
    judge: JudgeKind,
    /// Maximum number of turns in a game of taboo, at most 1000. A turn is one utterance of each player.
    #[arg(long, alias = "taboo_max_turns", value_name = "N", default_value_t = 5, value_parser = flags::within(limits::TURNS), help_heading = "Page")]
    max_turns: usize,
    #[command(flatten, next_help_heading = "Page")]
    sampling: SamplingSettings,
    #[command(flatten, next_help_heading = "Page")]
    length: LengthSettings,
}

impl PageArgs {
    /// The prompts of the games: those of the flags, or else those that the models were trained with.
    ///
    /// # Errors
    /// The file of prompts or the record of a model cannot be read.
    pub(super) fn prompts(&self, models: &[&Path]) -> Result<PromptSet> {
        self.prompts.load_for(models)
    }

    /// The game and its options; none for Adversarial Taboo, whose rules have flags of their own.
    fn game(&self) -> Result<Option<(String, Map<String, Value>)>> {
        if self.game != taboo::LABELS.name {
            let options = parse_options(self.game_options.as_deref().unwrap_or_default());
            return Ok(Some((self.game.clone(), options)));
        }
        let flag = match (&self.game_options, &self.game_data) {
            (Some(_), _) => "--game_options",
            (None, Some(_)) => "--game_data",
            (None, None) => return Ok(None),
        };
        let problem = "taboo has none; its flags are --words, --judge and --max_turns".to_owned();
        Err(Error::BadValue { flag: flag.to_owned(), problem })
    }

    /// The endpoints that play beside the models of these names.
    fn endpoints(&self, models: &[String]) -> Result<Vec<PageEndpoint>> {
        let players: Vec<NamedPlayer> = self.player.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        let keys = EndpointKeys::from_env(players.iter().map(|named| &named.player))?;
        for note in keys.notes() {
            exit::note(format_args!("note: {note}"));
        }
        let mut endpoints: Vec<PageEndpoint> = Vec::new();
        for NamedPlayer { name, player } in players {
            let bad = |problem| Error::BadValue { flag: format!("--player {name}"), problem };
            let PlayerSpec::Endpoint(spec) = player else {
                return Err(bad(
                    "it is no endpoint; a checkpoint is served with --model NAME=DIR and plays too".to_owned()
                ));
            };
            if models.contains(&name) || endpoints.iter().any(|other| other.name == name) {
                return Err(bad("another player of the page has this name".to_owned()));
            }
            // A game may have a temperature of its own, at which the others apply.
            let drawn = SamplingSettings { temperature: self.sampling.temperature.max(1.0), ..self.sampling };
            let config = EndpointConfig {
                temperature: self.sampling.temperature,
                key: keys.of(&spec),
                retry: RetryConfig { tries: TRIES, ..RetryConfig::default() },
                report: |line| exit::note(format_args!("note: {line}")),
                ..EndpointConfig::new(&drawn, self.length.max_new_tokens, &self.requests)
            };
            endpoints.push(PageEndpoint { name, asker: Arc::new(EndpointAsker::new(spec, config)?) });
        }
        Ok(endpoints)
    }

    /// The page of these flags, with games in these prompts; `models` are the names of those that the server has.
    ///
    /// # Errors
    /// A file cannot be read, a player is no endpoint or has the name of another, or the run folder has no games.
    pub(super) fn page(&self, prompts: PromptSet, models: &[String]) -> Result<Page> {
        let words = match &self.words {
            Some(path) => {
                let list = WordList::read(path).map_err(Error::of_flag("--words"))?;
                if !list.is_plain() {
                    exit::note(format_args!("note: {}: {list}", path.display()));
                }
                list.words
            }
            None => Lexicon::embedded()?.words().map(str::to_owned).collect(),
        };
        Ok(Page::new(PageConfig {
            game: self.game()?,
            game_data: self.game_data.clone(),
            judge: self.judge,
            prompts,
            max_turns: self.max_turns,
            sampling: self.sampling,
            length: self.length,
            run: self.run.clone(),
            endpoints: self.endpoints(models)?,
            ..PageConfig::new(words)
        })?)
    }
}
