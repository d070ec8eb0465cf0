//! The flags of the page.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use spag_cli::{Error, PromptArgs, ReasoningSettings, Result, TemplateSettings, exit, flags};
use spag_game::{JudgeKind, PromptSet, WordList, games, parse_options, taboo};
use spag_io::PromptFormat;
use spag_page::{Page, PageConfig, PageEndpoint, PageGame, RunGame, RunSettings};
use spag_run::RunFolder;
use spag_selfplay::arena::NamedPlayer;
use spag_selfplay::{
    EndpointAsker, EndpointConfig, EndpointKeys, EndpointSettings, LengthSettings, PlayerSpec, RetryConfig,
    SamplingSettings, limits,
};
use spag_world::Lexicon;

/// Turns of a game of taboo.
const MAX_TURNS: usize = 5;
/// Tries of a turn of an endpoint, after which the person who waits may try again.
const TRIES: u32 = 2;

/// The flags of the games at `/`. They do not change the API.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct PageArgs {
    /// The game that the page begins with; the others can be chosen on the page. docs/GAMES.md lists them [default: the games of
    /// --run, or taboo].
    #[arg(long, value_name = "NAME", help_heading = "Page")]
    game: Option<String>,
    /// Options of this game, NAME=VALUE, separated by blanks; not for taboo.
    #[arg(long, value_name = "OPTIONS", help_heading = "Page")]
    game_options: Option<String>,
    /// The file of words or facts of this game, if it needs one; taboo has --words.
    #[arg(long, value_name = "FILE", help_heading = "Page")]
    game_data: Option<PathBuf>,
    /// Target words of the page, one per line [default: those of --run, or the words of the small world].
    #[arg(long, value_name = "FILE", help_heading = "Page")]
    words: Option<PathBuf>,
    /// Folder of `spag run` whose games and report the page shows, and whose games, words and rules it plays.
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
    /// Judge of taboo: paper (matches the target word anywhere in a word) or whole-word [default: that of --run, or paper].
    #[arg(long, value_name = "JUDGE", help_heading = "Page")]
    judge: Option<JudgeKind>,
    /// Maximum number of turns in a game of taboo, at most 1000. A turn is one utterance of each player [default: that of --run,
    /// or 5].
    #[arg(long, alias = "taboo_max_turns", value_name = "N", value_parser = flags::within(limits::TURNS), help_heading = "Page")]
    max_turns: Option<usize>,
    #[command(flatten, next_help_heading = "Page")]
    sampling: SamplingSettings,
    #[command(flatten, next_help_heading = "Page")]
    length: LengthSettings,
}

/// How the players of the page think: as the models of the server.
#[derive(Clone, Copy)]
pub(super) struct Thinks<'a> {
    pub(super) template: &'a TemplateSettings,
    pub(super) reasoning: &'a ReasoningSettings,
    pub(super) prompts: PromptFormat,
}

impl PageArgs {
    /// The prompts of the games: those of the flags, or else those that the models were trained with.
    ///
    /// # Errors
    /// The file of prompts or the record of a model cannot be read.
    pub(super) fn prompts(&self, models: &[&Path]) -> Result<PromptSet> {
        self.prompts.load_for(models)
    }

    /// The games that come first: the one that is named, or those of the run.
    fn games(&self, run: Option<&RunSettings>) -> Result<Vec<PageGame>> {
        let given = [("--game_options", self.game_options.is_some()), ("--game_data", self.game_data.is_some())];
        let is_taboo = self.game.as_deref().is_none_or(|name| name == taboo::LABELS.name);
        if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| is_taboo && *is_given) {
            let problem = "taboo has none; its flags are --words, --judge and --max_turns".to_owned();
            return Err(Error::BadValue { flag: flag.to_owned(), problem });
        }
        let options = |options: &Option<String>| parse_options(options.as_deref().unwrap_or_default());
        match (&self.game, run) {
            (None, Some(run)) => {
                // Of a game that other programs play there are records only.
                let is_played = |name: &str| games::labels().any(|labels| labels.name == name);
                let played = run.games.iter().filter(|game| is_played(&game.rules.game));
                let game = |game: &RunGame| PageGame {
                    name: game.rules.game.clone(),
                    options: options(&game.rules.game_options),
                    data: game.data.clone(),
                };
                Ok(played.map(game).collect())
            }
            (None, None) => Ok(Vec::new()),
            (Some(name), _) => {
                let (name, data) = (name.clone(), self.game_data.clone());
                Ok(vec![PageGame { name, options: options(&self.game_options), data }])
            }
        }
    }

    /// The target words: those of the flag, or those that the run plays, or those of the small world.
    fn target_words(&self, run: Option<&RunSettings>) -> Result<Vec<String>> {
        // A pipe that a run's settings name would be waited for.
        let of_run = run.and_then(|run| run.games.iter().find(|game| game.rules.has_items())?.data.clone());
        let of_run = of_run.filter(|path| path.is_file());
        let (flag, path) = match &self.words {
            Some(path) => ("--words", Some(path.clone())),
            None => ("--run", of_run),
        };
        if let Some(path) = path {
            let list = WordList::read(&path).map_err(Error::of_flag(flag))?;
            if !list.is_plain() {
                exit::note(format_args!("note: {}: {list}", path.display()));
            }
            return Ok(list.words);
        }
        let lexicon = match run.and_then(|run| run.lexicon.as_ref().filter(|path| path.is_file())) {
            Some(path) => Lexicon::load(path)?,
            None => Lexicon::embedded()?,
        };
        Ok(lexicon.words().map(str::to_owned).collect())
    }

    /// The endpoints that play beside the models of these names.
    fn endpoints(&self, models: &[String], thinks: Thinks<'_>) -> Result<Vec<PageEndpoint>> {
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
            let config = EndpointConfig {
                key: keys.of(&spec),
                retry: RetryConfig { tries: TRIES, ..RetryConfig::default() },
                report: |line| exit::note(format_args!("note: {line}")),
                ..EndpointConfig::new(&self.sampling, self.length.max_new_tokens, &self.requests)
            };
            let config = config.with_reasoning(thinks.template, thinks.reasoning, thinks.prompts);
            endpoints.push(PageEndpoint { name, asker: Arc::new(EndpointAsker::new(spec, config)?) });
        }
        Ok(endpoints)
    }

    /// The page of these flags, with games in these prompts; `models` are the names of those that the server has.
    ///
    /// # Errors
    /// A file cannot be read, a player is no endpoint or has the name of another, or the run folder has no games.
    pub(super) fn page(&self, prompts: PromptSet, models: &[String], thinks: Thinks<'_>) -> Result<Page> {
        let run = self.run.as_deref().and_then(|run| RunSettings::read(&RunFolder::new(run)));
        let run = run.as_ref();
        let words = self.target_words(run)?;
        Ok(Page::new(PageConfig {
            games: self.games(run)?,
            judge: self.judge.or(run.map(|run| run.judge)).unwrap_or_default(),
            prompts,
            max_turns: self.max_turns.or(run.and_then(|run| run.max_turns)).unwrap_or(MAX_TURNS),
            sampling: self.sampling,
            length: self.length,
            run: self.run.clone(),
            endpoints: self.endpoints(models, thinks)?,
            reasoning: thinks.reasoning.clone(),
            ..PageConfig::new(words)
        })?)
    }
}
