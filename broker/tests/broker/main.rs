//! The broker from outside: a server on a port of its own over small tables that each test writes.

mod catalog;
mod errors;
mod lifecycle;
mod limits;
mod native;
mod pinot;
mod sessions;
mod support;
mod tables;
