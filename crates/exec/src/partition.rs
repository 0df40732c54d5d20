//! How the work of a scan is dealt out to partitions: contiguous runs of the table's canonical
//! order, of about equal bytes.

/// A piece of a scan that is read by one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    /// Index of the data file in the snapshot.
    pub(crate) file: usize,
    /// Row groups to read, ascending and already pruned; `None` means those of the whole file that
    /// its footer does not exclude.
    pub(crate) row_groups: Option<Vec<usize>>,
}

/// A data file, or one row group of it, and its weight in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) file: usize,
    pub(crate) row_group: Option<usize>,
    pub(crate) bytes: u64,
}

/// Deals pieces (in canonical order) out to at most `target` partitions. No partition is empty,
/// unless there is nothing at all: then there is one empty partition.
pub(crate) fn deal(pieces: &[Piece], target: usize) -> Vec<Vec<Task>> {
    let target = target.clamp(1, pieces.len().max(1));
    // Every piece weighs something, so that a run of empty files is spread too.
    let weight = |piece: &Piece| u128::from(piece.bytes) + 1;
    let total: u128 = pieces.iter().map(weight).sum();
    let mut partitions: Vec<Vec<Task>> = Vec::with_capacity(target);
    let mut current: Vec<Task> = Vec::new();
    let mut before = 0_u128;
    let mut slot = 0;
    for piece in pieces {
        // The partition in which the middle of the piece falls.
        let middle = before * 2 + weight(piece);
        let here = middle * target as u128 / (total * 2);
        if here > slot && !current.is_empty() {
            partitions.push(std::mem::take(&mut current));
        }
        slot = here;
        before += weight(piece);
        push(&mut current, piece);
    }
    if !current.is_empty() || partitions.is_empty() {
        partitions.push(current);
    }
    partitions
}

fn push(tasks: &mut Vec<Task>, piece: &Piece) {
    if let (Some(last), Some(row_group)) = (tasks.last_mut(), piece.row_group)
        && last.file == piece.file
        && let Some(row_groups) = &mut last.row_groups
    {
        row_groups.push(row_group);
        return;
    }
    tasks.push(Task { file: piece.file, row_groups: piece.row_group.map(|row_group| vec![row_group]) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_piece_is_dealt_once_and_in_order(sizes in prop::collection::vec(0_u64..1000, 0..40), target in 1_usize..9) {
            let pieces: Vec<Piece> =
                sizes.iter().enumerate().map(|(i, bytes)| Piece { file: i / 3, row_group: Some(i % 3), bytes: *bytes }).collect();
            let partitions = deal(&pieces, target);
            prop_assert!(partitions.len() <= target && !partitions.is_empty());
            if !pieces.is_empty() {
                prop_assert!(partitions.iter().all(|tasks| !tasks.is_empty()));
            }
            let dealt: Vec<(usize, usize)> = partitions.iter().flatten()
                .flat_map(|task| task.row_groups.iter().flatten().map(move |group| (task.file, *group))).collect();
            let expected: Vec<(usize, usize)> = pieces.iter().map(|piece| (piece.file, piece.row_group.unwrap())).collect();
            prop_assert_eq!(dealt, expected);
        }
    }

    #[test]
    fn equal_files_are_spread_evenly() {
        let pieces: Vec<Piece> = (0..8).map(|file| Piece { file, row_group: None, bytes: 100 }).collect();
        let sizes: Vec<usize> = deal(&pieces, 4).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 2, 2]);
    }
}
