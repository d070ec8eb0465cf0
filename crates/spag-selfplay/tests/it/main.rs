//! Players that are endpoints or models.

mod chat;
mod endpoint;
mod endpoint_pool;
mod generations;
mod special_tokens;
mod verbatim;
