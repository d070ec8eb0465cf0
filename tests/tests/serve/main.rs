//! `spag serve`: its routes, its limits and its clients.

mod adapters;
mod clients;
mod endings;
mod hostile_bodies;
mod limits;
mod routes;
mod sites;
mod structured;
mod unread;
