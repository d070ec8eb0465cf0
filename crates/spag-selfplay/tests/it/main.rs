//! Players that are endpoints or models.

mod chat;
mod endpoint;
mod endpoint_pool;
mod special_tokens;
