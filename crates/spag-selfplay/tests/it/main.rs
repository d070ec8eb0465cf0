//! Players that are endpoints or models.

mod endpoint;
mod endpoint_pool;
mod special_tokens;
