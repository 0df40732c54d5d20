//! loadtest
fn main() {}
