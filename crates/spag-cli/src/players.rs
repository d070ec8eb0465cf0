//! Players from flags: a checkpoint or an endpoint.

use std::ffi::OsStr;
use std::path::Path;

use clap::{
    Arg, Args, Command,
    builder::TypedValueParser,
    error::{Error as FlagError, ErrorKind},
};
use spag_chat::{ReasoningSettings, TemplateSettings};
use spag_io::{CommandFiles, Contents, PromptFormat, ReasoningFormat};
use spag_model::Checkpoint;
use spag_model::dtype::WeightDtype;
use spag_model::generate::EngineSettings;
use spag_selfplay::{
    AnyPlayer, EndpointConfig, EndpointKeys, EndpointPlayer, EndpointSettings, ModelPlayer, PlayerPair, PlayerSpec,
    checkpoint_fingerprint,
};

use crate::{Error, Result, adapter_args, device_args::LoadArgs, exit, flags, sampling::SamplingArgs};

/// The flags of programs that play.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct PlayerArgs {
    /// How tokens are chosen.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// The limits of the engine.
    #[command(flatten)]
    pub engine: EngineSettings,
    #[command(flatten)]
    template: TemplateSettings,
    #[command(flatten)]
    reasoning: ReasoningSettings,
    #[command(flatten)]
    loading: LoadArgs,
    #[command(flatten)]
    endpoint: EndpointSettings,
    /// Hold models to the actions that a game lists: an utterance is one of them. Without a list, as in Adversarial Taboo, nothing
    /// changes. Endpoints that are spag serve, vLLM, SGLang or llama.cpp are held too. True or False.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value = "False", default_missing_value = "True",
        value_parser = flags::truth, action = clap::ArgAction::Set, help_heading = "Tokens")]
    constrain_actions: bool,
    /// The number of engines that share the memory of this machine. Not a flag.
    #[arg(skip = 1usize)]
    engines: usize,
}

/// The parser of a flag that is a player. Clap's own message would repeat the value, in which a key may stand.
#[derive(Clone, Copy, Debug)]
pub struct PlayerParser;

impl TypedValueParser for PlayerParser {
    type Value = PlayerSpec;

    fn parse_ref(
        &self,
        command: &Command,
        flag: Option<&Arg>,
        value: &OsStr,
    ) -> std::result::Result<PlayerSpec, FlagError> {
        let refuse = |problem: String| {
            let flag = flag.map(|flag| format!("--{}: ", flag.get_id())).unwrap_or_default();
            FlagError::raw(ErrorKind::ValueValidation, format!("{flag}{problem}\n")).with_cmd(command)
        };
        let text = value.to_str().ok_or_else(|| refuse("the player is not valid UTF-8".into()))?;
        text.parse().map_err(|error: spag_selfplay::Error| refuse(error.to_string()))
    }
}

/// The checkpoints and adapters of players, as files that a program reads by the name `flag`.
pub fn checkpoint_files<'a>(flag: &str, players: impl IntoIterator<Item = &'a PlayerSpec>) -> CommandFiles {
    let checkpoints = players.into_iter().filter_map(PlayerSpec::checkpoint);
    CommandFiles::default()
        .read_all(flag, checkpoints.flat_map(|(model, adapter)| std::iter::once(model).chain(adapter)))
}

/// Checks the folder of `--output_dir` into which games are written: it holds nothing but games and benchmarks, and no input.
///
/// # Errors
/// It holds something else, or is an input.
pub fn write_games(files: &mut CommandFiles, folder: &Path) -> Result<()> {
    let kept = [Contents::Games, Contents::Benchmarks];
    Ok(files.write_folder("--output_dir", folder, &[Contents::Games], &kept)?)
}

impl PlayerArgs {
    /// The same flags for one of `engines` engines that share the memory of this machine.
    pub fn among(&self, engines: usize) -> Self {
        Self { engines, ..self.clone() }
    }

    /// Loads the checkpoint, or starts the threads that send requests to the endpoint with its key of `keys`.
    ///
    /// # Errors
    /// The checkpoint cannot be loaded or does not fit into memory, or a setting of the endpoint is invalid.
    pub fn open(&self, spec: &PlayerSpec, keys: &EndpointKeys, prompts: PromptFormat) -> Result<AnyPlayer> {
        self.reasoning.check(prompts).map_err(spag_selfplay::Error::from)?;
        if self.constrain_actions && self.reasoning.format(prompts) == ReasoningFormat::Boxed {
            let problem =
                "a list of actions has no boxes; use --reasoning think, or play without --constrain_actions".into();
            return Err(Error::BadValue { flag: "--reasoning boxed".into(), problem });
        }
        let player = match spec {
            PlayerSpec::Model(_) | PlayerSpec::Adapted { .. } => {
                let (folder, checkpoint) = self.load(spec)?;
                let model = checkpoint.model.config();
                let limits = self.sampling.game_config(model, folder)?.with_reasoning(&self.reasoning, prompts);
                let engine = self.engine.for_model(&checkpoint.model, limits.max_length(), self.engines)?;
                let player = ModelPlayer::load(checkpoint, limits.generation, engine)?;
                let player = Box::new(player.with_reasoning(&self.template, &self.reasoning, prompts)?);
                AnyPlayer::Model { player, games: engine.max_running, folder: folder.to_owned() }
            }
            PlayerSpec::Endpoint(endpoint) => {
                let config = EndpointConfig { key: keys.of(endpoint), ..self.endpoint_config() };
                let config = config.with_reasoning(&self.template, &self.reasoning, prompts);
                AnyPlayer::Endpoint(Box::new(EndpointPlayer::new(endpoint.clone(), config)?))
            }
        };
        Ok(if self.constrain_actions { player.with_held_actions()? } else { player })
    }

    /// Opens the players of both seats; for self-play one player is opened once. `processes` on this machine share its
    /// memory.
    ///
    /// # Errors
    /// As [`PlayerArgs::open`].
    pub fn open_pair(
        &self,
        [first, second]: [&PlayerSpec; 2],
        keys: &EndpointKeys,
        (processes, prompts): (usize, PromptFormat),
    ) -> Result<PlayerPair> {
        if first == second {
            return Ok(PlayerPair::self_play(self.among(processes).open(first, keys, prompts)?));
        }
        let engines = [first, second].iter().filter(|spec| spec.checkpoint().is_some()).count();
        let args = self.among(engines * processes);
        Ok(PlayerPair::versus(args.open(first, keys, prompts)?, args.open(second, keys, prompts)?))
    }

    /// Loads the checkpoint of a player that is one.
    fn load<'a>(&self, spec: &'a PlayerSpec) -> Result<(&'a Path, Checkpoint)> {
        let Some((folder, adapter)) = spec.checkpoint() else {
            return Err(Error::BadValue { flag: spec.to_string(), problem: "an endpoint is no checkpoint".to_owned() });
        };
        Ok((folder, self.loading.load_adapted(folder, adapter)?))
    }

    /// Describes the player in records of games: everything that can change an utterance.
    ///
    /// # Errors
    /// The device is unusable or the checkpoint cannot be read.
    pub fn describe(&self, spec: &PlayerSpec) -> Result<String> {
        match spec {
            PlayerSpec::Model(folder) | PlayerSpec::Adapted { model: folder, .. } => {
                // Before the checkpoint's files are hashed.
                self.loading.open()?;
                let mut fingerprint = checkpoint_fingerprint(folder)?;
                let adapter = spec.checkpoint().and_then(|(_, adapter)| adapter);
                fingerprint.push_str(&adapter_args::recorded(adapter, folder)?);
                let f32 = WeightDtype::F32.to_string();
                let mut player = match self.loading.number_format(folder, adapter)? {
                    plain if plain == f32 => fingerprint,
                    rounded => format!("{fingerprint} in {rounded}"),
                };
                if let Some(bos) = self.loading.bos_rule().flag() {
                    player.push_str(if bos { " with BOS" } else { " without BOS" });
                }
                Ok(player + self.held())
            }
            PlayerSpec::Endpoint(endpoint) => {
                Ok(endpoint.address() + &self.endpoint_config().describe_top_k() + self.held())
            }
        }
    }

    /// What records of games say of reasoning and templates.
    pub fn describe_reasoning(&self) -> String {
        self.reasoning.describe() + &self.template.describe()
    }

    /// What records say of players that are held to actions.
    fn held(&self) -> &'static str {
        if self.constrain_actions { " held to actions" } else { "" }
    }

    fn endpoint_config(&self) -> EndpointConfig {
        EndpointConfig {
            report: |line| exit::note(format_args!("note: {line}")),
            ..EndpointConfig::new(&self.sampling.settings(), self.sampling.max_new_tokens(), &self.endpoint)
        }
    }
}
