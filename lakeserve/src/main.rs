//! lakeserve
fn main() {}
