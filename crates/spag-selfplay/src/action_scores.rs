//! How likely a model is to say each of some actions.

use std::sync::Arc;

use spag_io::TurnPrompt;
use spag_model::generate::{LogProbs, Prompt, PromptRange};
use spag_model::{Completion, Generate, GenerationConfig, Request};

use crate::error::{Error, Result};
use crate::model_player::ModelPlayer;

impl ModelPlayer {
    /// The log-probability of some tokens after others, for each pair, at temperature 1 over all tokens.
    ///
    /// # Errors
    /// Sequences longer than the engine's, or open turns.
    pub fn token_log_probs<'a>(&mut self, pairs: impl Iterator<Item = (&'a [u32], &'a [u32])>) -> Result<Vec<f64>> {
        let requests = pairs.map(|(context, said)| scored([context, said].concat(), context.len())).collect();
        self.sums(requests)
    }

    /// The log-probability of each action as the whole answer to its prompt, the token that ends it included, at temperature 1
    /// over all tokens. `turns` are prompts with their actions.
    ///
    /// # Errors
    /// A text that the tokenizer cannot encode, a chat without a template, an action longer than an utterance, or open turns.
    pub fn action_log_probs(&mut self, turns: &[(TurnPrompt, Vec<String>)]) -> Result<Vec<Vec<f64>>> {
        let mut requests = Vec::new();
        for (prompt, actions) in turns {
            let budget = self.context_budget(prompt)?;
            let (_, encoder) = self.engine_and_encoder();
            // In play a prompt that is too long loses its beginning.
            let context = encoder.encode(prompt)?.split_off(budget.cut());
            let end = match prompt {
                TurnPrompt::Chat(_) => encoder.end_of_turn()?,
                TurnPrompt::Plain(_) => encoder.tokenizer().eos(),
            };
            for action in actions {
                let mut tokens = context.clone();
                tokens.extend(encoder.tokenizer().encode_text(action)?);
                tokens.push(end);
                if tokens.len() > budget.length {
                    return Err(Error::LongAction { action: action.clone(), utterance: budget.utterance });
                }
                requests.push(scored(tokens, context.len()));
            }
        }
        let mut sums = self.sums(requests)?.into_iter();
        Ok(turns.iter().map(|(_, actions)| sums.by_ref().take(actions.len()).collect()).collect())
    }

    /// The sums of the log-probabilities of requests.
    fn sums(&mut self, requests: Vec<Request>) -> Result<Vec<f64>> {
        let (engine, _) = self.engine_and_encoder();
        let sum = |completion: Completion| {
            let tokens = completion.prompt_log_probs.into_iter().flatten().flatten();
            tokens.map(|token| f64::from(token.log_prob)).sum::<f64>()
        };
        Ok(engine.generate(requests)?.into_iter().map(sum).collect())
    }
}

/// A request for the log-probabilities of tokens from a position on.
fn scored(tokens: Vec<u32>, from: usize) -> Request {
    let log_probs = LogProbs { prompt: Some(PromptRange::Positions(from..tokens.len())), ..LogProbs::default() };
    let config = GenerationConfig { max_new_tokens: 0, log_probs, ..GenerationConfig::default() };
    Request { prompt: Prompt::Tokens(tokens), seed: 0, config: Arc::new(config) }
}
