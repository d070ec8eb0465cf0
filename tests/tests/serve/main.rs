//! `spag serve`: its routes, its limits and its clients.

mod adapters;
mod clients;
mod limits;
mod routes;
mod structured;
mod unread;
