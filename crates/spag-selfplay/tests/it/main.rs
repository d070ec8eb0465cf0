//! Players that are endpoints or models, and games that processes play.

mod chat;
mod endpoint;
mod endpoint_failures;
mod endpoint_limits;
mod endpoint_pool;
mod endpoint_reasoning;
mod generations;
mod reasoning;
mod shared_engine;
mod special_tokens;
mod textarena;
mod verbatim;
