//! Chat templates, and encoding of prompts.
//!
//! A [`ChatTemplate`] renders a model's own template as `transformers` does. A [`PromptEncoder`] encodes prompts and tracks
//! which parts players said; play, training and serving share it.
//!
//! ```
//! use serde_json::{Map, json};
//! use spag_chat::ChatTemplate;
//!
//! let source = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}".to_owned();
//! let template = ChatTemplate::new(source, Map::new()).unwrap();
//! let text = template.render(&[json!({"role": "user", "content": "Hello"})], &Map::new());
//! assert_eq!(text.as_deref(), Ok("[user] Hello\n"));
//! ```

mod error;
mod history;
pub mod jinja;
mod prompt_encoder;
mod reasoning;
mod rendered;
mod settings;
mod special;
mod template;
mod template_kwargs;
mod traits;

pub use error::{Error, Result};
pub use history::PromptHistory;
pub use prompt_encoder::PromptEncoder;
pub use reasoning::ReasoningForm;
pub use rendered::{render_continued, render_messages};
pub use settings::{ReasoningSettings, TemplateSettings};
pub use template::{ChatTemplate, RenderError, object, special_tokens};
pub use template_kwargs::TemplateKwargs;
