//! General texts in an update, so that the model keeps what it knew.

use spag_chat::PromptEncoder;
use spag_model::checkpoint::load_tokenizer;
use spag_train::{Trajectory, encode};

use crate::config::{OnlineSettings, SftShare};
use crate::error::{Error, Result};
use crate::run::context::RunContext;
use crate::run::training::GeneralTexts;

/// What the general texts of updates are drawn from, and how they become tokens.
pub(super) struct UpdateTexts {
    /// Rows for each utterance that is learned.
    share: f64,
    source: Option<(GeneralTexts, PromptEncoder)>,
    /// Most tokens of a row.
    max_length: usize,
}

impl UpdateTexts {
    /// Reads the rows, if the loss has a part for them.
    pub(super) fn open(run: RunContext<'_>, settings: &OnlineSettings) -> Result<Self> {
        let config = run.config;
        let share = match config.sft.share {
            SftShare::PerSample(share) if settings.policy_loss.sft_coeff > 0.0 => share,
            SftShare::PerSample(_) | SftShare::All(_) => 0.0,
        };
        let source = (share > 0.0).then(|| {
            let tokenizer = load_tokenizer(&config.base_model)?.with_bos_rule(config.add_bos_token);
            let encoder = PromptEncoder::new(tokenizer)
                .with_settings(&config.template, &config.reasoning, config.prompt_format)
                .map_err(spag_selfplay::Error::from)?;
            Ok::<_, Error>((GeneralTexts::open(run.config)?, encoder))
        });
        Ok(Self { share, source: source.transpose()?, max_length: config.train.config.max_length })
    }

    /// The rows beside so many utterances.
    pub(super) fn rows(&self, utterances: usize) -> usize {
        (self.share * utterances as f64).round() as usize
    }

    /// This rank's part of the rows of an update, drawn with its seed.
    pub(super) fn of_rank(&self, run: RunContext<'_>, rows: usize, seed: u64) -> Result<Vec<Trajectory>> {
        let Some((texts, encoder)) = &self.source else { return Ok(Vec::new()) };
        let group = &run.ranks.group;
        let all = texts.draw(run, rows, seed)?;
        let own: Vec<_> = all.into_iter().skip(group.rank()).step_by(group.size()).collect();
        Ok(encode(&own, 0, encoder, self.max_length)?)
    }
}
