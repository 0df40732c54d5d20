//! Snapshot tokens: the name of one immutable state of one table.

use lakeserve_common::hash::StableHasher;
use lakeserve_common::id::SnapshotToken;

use crate::snapshot::DataFile;

/// The token of a state: a hash of the table's UUID, the version, the schema's id and of the list
/// of (path, size, generation, ETag, identity of deletes). `files` must be in canonical order.
///
/// A table that is recreated at the same path has another UUID and so another token, even when
/// the version number is the same.
pub(crate) fn snapshot_token(table_uuid: &str, version: &str, schema_id: &str, files: &[DataFile]) -> SnapshotToken {
    let mut hasher = StableHasher::new();
    hasher.piece(table_uuid).piece(version).piece(schema_id);
    for file in files {
        hasher
            .piece(&file.path)
            .piece(file.size.to_le_bytes())
            .piece(file.generation.to_le_bytes())
            .piece(file.etag.as_deref().unwrap_or_default())
            .piece(file.deletes.identity());
    }
    SnapshotToken::new(hasher.hex128())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::deletes::{DeleteSet, DeltaVector};

    fn file(path: &str) -> DataFile {
        DataFile {
            url: url::Url::parse("file:///t/").unwrap().join(path).unwrap(),
            path: path.into(),
            size: 10,
            generation: 1,
            etag: None,
            row_count: Some(3),
            constants: Vec::new(),
            constants_override: true,
            deletes: DeleteSet::None,
        }
    }

    #[test]
    fn every_part_of_the_state_changes_the_token() {
        let base = snapshot_token("u", "1", "0", &[file("a"), file("b")]);
        let mut deleted = file("b");
        deleted.deletes = DeleteSet::DeltaVector(Arc::new(DeltaVector {
            id: "u1".into(),
            storage_type: "u".into(),
            path_or_inline: "x".into(),
            offset: Some(1),
            size_in_bytes: 3,
            cardinality: 1,
        }));
        let others = [
            snapshot_token("v", "1", "0", &[file("a"), file("b")]),
            snapshot_token("u", "2", "0", &[file("a"), file("b")]),
            snapshot_token("u", "1", "1", &[file("a"), file("b")]),
            snapshot_token("u", "1", "0", &[file("a")]),
            snapshot_token("u", "1", "0", &[file("a"), deleted]),
        ];
        for (index, other) in others.iter().enumerate() {
            assert_ne!(&base, other, "case {index}");
        }
        assert_eq!(base, snapshot_token("u", "1", "0", &[file("a"), file("b")]));
    }
}
