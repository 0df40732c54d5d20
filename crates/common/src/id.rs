//! Identifiers, each a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::random::Random;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps a text.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// One query, unique over the deployment (a UUID of version 7, so ids sort by time).
    QueryId
);
text_id!(
    /// The name under which a table is served.
    TableName
);
text_id!(
    /// Names one immutable state of one table: table identity, version, schema and the hash of
    /// its live data files with their delete sets. A table recreated at the same path has another.
    SnapshotToken
);

impl QueryId {
    /// A fresh id for a query that arrives at `now_ms` (milliseconds since the Unix epoch).
    #[must_use]
    pub fn generate(now_ms: i64, random: &Random) -> Self {
        let millis = u64::try_from(now_ms).unwrap_or(0);
        let bytes = random.bytes::<10>();
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_ids_sort_by_time_and_differ() {
        let random = Random::seeded(7);
        let first = QueryId::generate(1_000, &random);
        let second = QueryId::generate(1_000, &random);
        let later = QueryId::generate(2_000, &random);
        assert_ne!(first, second);
        assert!(later > first && later > second);
    }
}
