//! Servers in the process of the test, asked over HTTP.

mod reasoning;
