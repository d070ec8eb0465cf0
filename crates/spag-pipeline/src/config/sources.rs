//! Where words, imitation samples and general texts come from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use spag_selfplay::{EndpointSpec, LengthSettings, PlayerSpec, SamplingSettings, limits};
use spag_train::{TrainConfig, TrainMethod};
use spag_world::Guesses;

use super::train::TrainSettings;
use crate::error::Error;

spag_io::settings! {
    /// `[words]`: the target words.
    pub table WordSettings ("a table: [words] with file = \"FILE\", holdout = SHARE") {
        /// Target words or phrases, one a line; all words of the lexicon if absent.
        pub file: Option<PathBuf>;
        /// Share of the words that are never played before the evaluation, 0 to below 1: some must be left. They are drawn
        /// with the run's seed.
        pub holdout: f64 [0.0..=0.99];
    }

    /// `[imitation]`: training on games of strong players.
    pub table ImitationSettings {
        /// Where the samples come from. The other settings apply to each source that has them.
        pub source: ImitationSources;
        /// The episodes or samples of the sources `games` and `samples`: a JSON list or JSONL.
        pub file: Option<PathBuf>;
        /// Who plays both seats for the source `endpoint`, as on command lines: `openai:URL#MODEL`.
        pub player: Option<String>;
        /// Games that are played; words are cycled. One on each word if absent.
        pub games: Option<usize> [limits::GAMES];
        /// When the defender of the source `scripted` predicts: `early`, at times while several words fit the clues, or `sure`, when
        /// one fits.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub guesses: Guesses;
        /// Maximum tokens of an utterance of the sources `endpoint` and `self`.
        #[serde(skip_serializing_if = "is_default_length")]
        pub max_new_tokens: usize [limits::NEW_TOKENS] = LengthSettings::default().max_new_tokens;
        /// Training of the base model, which is also the reference model. The seed is derived from the run's.
        pub train: TrainSettings = TrainSettings::new(TrainConfig {
            method: TrainMethod::SftWithKl, lm_kl_coeff: 0.1, ..TrainConfig::default()
        });
    } + {
        /// How the sources `endpoint` and `self` draw tokens. Without `top_k`, from 50 as in the reference, at an endpoint if it is
        /// known to accept `top_k`, which OpenAI's servers refuse.
        pub sampling: SamplingSettings = SamplingSettings { temperature: 1.0, ..SamplingSettings::default() };
    }

    /// `[sft]`: general questions and answers among the samples, against forgetting.
    pub table SftSettings {
        /// Rows with `prompt` and `target`, or Alpaca rows (`instruction`, `input`, `output`): a JSON list or JSONL. Texts of
        /// the small world if absent.
        pub file: Option<PathBuf>;
        /// How many of them there are among the samples.
        pub share: SftShare = SftShare::PerSample(0.25);
        /// Rows of each round, in place of games and of `share`: what training on general text alone does, a control.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub alone: Vec<usize>;
    }
}

fn is_default_length(value: &usize) -> bool {
    *value == LengthSettings::default().max_new_tokens
}

/// Where the samples of the imitation stage come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImitationSource {
    /// Games of the scripted players of the small world, played now.
    #[default]
    Scripted,
    /// A file of episodes, such as the paper's games of GPT-4.
    Games,
    /// A file of samples, such as the reference's `train_imitation_gpt4.json`.
    Samples,
    /// Games that a model behind an endpoint plays now against itself.
    Endpoint,
    /// Games that the base model plays now against itself.
    #[serde(rename = "self")]
    SelfPlay,
    /// Games whose players choose any of the legal actions, in games that have a list of them.
    Random,
    /// None: the base model is an imitation model already.
    None,
}

impl ImitationSource {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scripted => "scripted",
            Self::Games => "games",
            Self::Samples => "samples",
            Self::Endpoint => "endpoint",
            Self::SelfPlay => "self",
            Self::Random => "random",
            Self::None => "none",
        }
    }

    /// Whether its samples are made from games.
    pub fn has_games(self) -> bool {
        !matches!(self, Self::Samples | Self::None)
    }

    /// Whether the stage plays games.
    pub fn plays(self) -> bool {
        matches!(self, Self::Scripted | Self::Endpoint | Self::SelfPlay | Self::Random)
    }

    /// Whether a model plays its games.
    pub fn plays_a_model(self) -> bool {
        matches!(self, Self::Endpoint | Self::SelfPlay)
    }
}

/// `imitation.source`: a name, or a table of names with shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a source (\"self\", \"scripted\", \"endpoint\", \"games\", \"samples\", \"random\", \"none\") or a table of sources with \
                 their shares of the samples, such as { self = 0.5, scripted = 0.5 }"
)]
pub enum ImitationSources {
    /// All samples are from one source.
    One(ImitationSource),
    /// Each source with its share of the samples; the shares sum to 1.
    Mix(BTreeMap<ImitationSource, f64>),
}

impl Default for ImitationSources {
    fn default() -> Self {
        Self::One(ImitationSource::default())
    }
}

impl ImitationSources {
    /// The sources with their shares, in the order of [`ImitationSource`].
    pub fn parts(&self) -> Vec<(ImitationSource, f64)> {
        match self {
            Self::One(source) => vec![(*source, 1.0)],
            Self::Mix(shares) => shares.iter().map(|(source, share)| (*source, *share)).collect(),
        }
    }

    /// Whether a source is among them.
    pub fn has(&self, source: ImitationSource) -> bool {
        self.any(|own| own == source)
    }

    /// Whether the base model is an imitation model already.
    pub fn is_none(&self) -> bool {
        self.has(ImitationSource::None)
    }

    /// Whether one of the sources is as asked.
    pub fn any(&self, is: impl Fn(ImitationSource) -> bool) -> bool {
        self.parts().into_iter().any(|(source, _)| is(source))
    }

    /// The names, with shares if there are several.
    pub fn describe(&self) -> String {
        match self {
            Self::One(source) => source.name().to_owned(),
            Self::Mix(shares) => {
                let named: Vec<String> =
                    shares.iter().map(|(source, share)| format!("{} {share}", source.name())).collect();
                named.join(", ")
            }
        }
    }

    /// Checks a mix of sources.
    fn check(&self) -> Result<(), String> {
        let Self::Mix(shares) = self else { return Ok(()) };
        if let Some((source, share)) = shares.iter().find(|(_, share)| !(**share > 0.0 && **share <= 1.0)) {
            return Err(format!("the share of {} is {share}; expected a number above 0 and at most 1", source.name()));
        }
        let sum: f64 = shares.values().sum();
        if (sum - 1.0).abs() > SHARE_ERROR {
            return Err(format!("the shares sum to {sum}; they must sum to 1"));
        }
        if shares.contains_key(&ImitationSource::None) {
            return Err("\"none\" has no samples to mix".to_owned());
        }
        if [ImitationSource::Games, ImitationSource::Samples].iter().all(|source| shares.contains_key(source)) {
            return Err("\"games\" and \"samples\" both read imitation.file; name one of them".to_owned());
        }
        Ok(())
    }
}

/// How far a sum of shares may be from 1, since 0.1 has no exact binary form.
const SHARE_ERROR: f64 = 1e-6;

impl ImitationSettings {
    /// Checks that the source has what it reads.
    ///
    /// # Errors
    /// The setting and what is wrong with it.
    pub(super) fn check_source(&self) -> Result<(), (&'static str, String)> {
        self.source.check().map_err(|message| ("imitation.source", message))?;
        let reads = |source: &ImitationSource| matches!(source, ImitationSource::Games | ImitationSource::Samples);
        let reader = self.source.parts().into_iter().map(|(source, _)| source).find(reads);
        match (reader, &self.file) {
            (Some(source), None) => {
                return Err(("imitation.file", format!("the source \"{}\" needs a file", source.name())));
            }
            (None, Some(_)) => {
                return Err(("imitation.file", format!("the source \"{}\" reads no file", self.source.describe())));
            }
            _ => {}
        }
        if self.player.is_none() && self.source.has(ImitationSource::Endpoint) {
            return Err(("imitation.player", "the source \"endpoint\" needs a player, openai:URL#MODEL".to_owned()));
        }
        Ok(())
    }
}

/// The endpoint of a setting, as on command lines.
///
/// # Errors
/// [`Error::BadSetting`] if the player is no endpoint.
pub(crate) fn endpoint(setting: &'static str, player: &str) -> crate::Result<EndpointSpec> {
    let message = match player.parse() {
        Ok(PlayerSpec::Endpoint(endpoint)) => return Ok(endpoint),
        Ok(PlayerSpec::Model(_) | PlayerSpec::Adapted { .. }) => {
            "expected an endpoint, openai:URL#MODEL, not a folder".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(Error::BadSetting { setting, message })
}

/// How many SFT samples are added to the samples of games.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of SFT samples per game sample, or \"whole\"")]
pub enum SftShare {
    /// SFT samples per game sample; 0.25 makes a fifth of all samples SFT.
    PerSample(f64),
    /// The whole file, as in the reference.
    All(Whole),
}

/// The text `whole`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whole {
    /// All rows of a file.
    #[serde(rename = "whole")]
    File,
}
