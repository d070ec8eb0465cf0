//! `spag serve`: its routes, its limits and its clients.

mod clients;
mod limits;
mod routes;
mod unread;
