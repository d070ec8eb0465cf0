//! How likely a model is to say each of some actions.

use std::sync::Arc;

use spag_io::TurnPrompt;
use spag_model::generate::{LogProbs, Prompt, PromptRange};
use spag_model::{Generate, GenerationConfig, Request};

use crate::error::{Error, Result};
use crate::model_player::ModelPlayer;

impl ModelPlayer {
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
                let scored = PromptRange::Positions(context.len()..tokens.len());
                let log_probs = LogProbs { prompt: Some(scored), ..LogProbs::default() };
                let config = GenerationConfig { max_new_tokens: 0, log_probs, ..GenerationConfig::default() };
                requests.push(Request { prompt: Prompt::Tokens(tokens), seed: 0, config: Arc::new(config) });
            }
        }
        let (engine, _) = self.engine_and_encoder();
        let mut sums = engine.generate(requests)?.into_iter().map(|completion| {
            let tokens = completion.prompt_log_probs.into_iter().flatten().flatten();
            tokens.map(|token| f64::from(token.log_prob)).sum::<f64>()
        });
        Ok(turns.iter().map(|(_, actions)| sums.by_ref().take(actions.len()).collect()).collect())
    }
}
