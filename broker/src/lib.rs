//! The broker: the engine that plans and runs queries over served tables, and its front ends.
//!
//! [`engine`] knows no protocol; [`http`] is the native and the Pinot-compatible interface over it.

pub mod engine;
pub mod http;

pub use engine::{Engine, EngineOptions, EngineParts, QueryAnswer, QueryRequest, Rights, Session};
pub use http::HttpOptions;
