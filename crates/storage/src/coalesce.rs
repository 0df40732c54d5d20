//! Which requests fetch a set of byte ranges: neighbours are merged while the gap between them is
//! small and the request stays below its limit; a range above the limit is cut into pieces.

use std::ops::Range;

/// One fetch: contiguous bytes of the file, and which of the wanted ranges lie in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// The bytes to have.
    pub bytes: Range<u64>,
    /// Indices of the wanted ranges that `bytes` covers.
    pub members: Vec<usize>,
}

/// Groups non-empty `wanted` ranges into fetches. Every range lies in exactly one fetch. A fetch is
/// longer than `limit` only when it holds one single range that is.
pub(crate) fn plan(wanted: &[Range<u64>], gap: u64, limit: u64) -> Vec<Fetch> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|index| (wanted[*index].start, wanted[*index].end));
    let mut fetches: Vec<Fetch> = Vec::new();
    for index in order {
        let range = &wanted[index];
        if let Some(last) = fetches.last_mut() {
            let end = last.bytes.end.max(range.end);
            let near = range.start <= last.bytes.end.saturating_add(gap);
            let inside = range.end <= last.bytes.end;
            if inside || (near && end - last.bytes.start <= limit) {
                last.bytes.end = end;
                last.members.push(index);
                continue;
            }
        }
        fetches.push(Fetch { bytes: range.clone(), members: vec![index] });
    }
    fetches
}

/// Cuts `bytes` into pieces of at most `limit`.
pub(crate) fn pieces(bytes: &Range<u64>, limit: u64) -> Vec<Range<u64>> {
    let limit = limit.max(1);
    let mut pieces = Vec::new();
    let mut start = bytes.start;
    while start < bytes.end {
        let end = start.saturating_add(limit).min(bytes.end);
        pieces.push(start..end);
        start = end;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_merge_up_to_gap_and_limit() {
        let fetches = plan(&[0..10, 12..20, 40..50, 15..18], 5, 100);
        assert_eq!(fetches.len(), 2);
        assert_eq!(fetches[0], Fetch { bytes: 0..20, members: vec![0, 1, 3] });
        assert_eq!(plan(&[0..60, 60..120], 5, 100).len(), 2);
        assert_eq!(pieces(&(0..250), 100), vec![0..100, 100..200, 200..250]);
    }

    proptest! {
        /// What the fetches return, cut back into ranges, is what reading each range alone gives.
        #[test]
        fn coalesced_reads_are_naive_reads(
            starts in prop::collection::vec((0_u64..5_000, 1_u64..700), 0..40),
            gap in 0_u64..400,
            limit in 1_u64..2_000,
        ) {
            let file: Vec<u8> = (0..6_000_u32).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
            let read = |range: &Range<u64>| {
                file[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
            };
            let wanted: Vec<Range<u64>> = starts.iter().map(|(start, length)| *start..start + length).collect();
            let mut answer = vec![None; wanted.len()];
            for fetch in plan(&wanted, gap, limit) {
                prop_assert!(fetch.bytes.end - fetch.bytes.start <= limit || fetch.members.iter().any(|m| wanted[*m] == fetch.bytes));
                let mut bytes = Vec::new();
                for piece in pieces(&fetch.bytes, limit) {
                    prop_assert!(piece.end - piece.start <= limit);
                    bytes.extend(read(&piece));
                }
                for member in fetch.members {
                    let range = &wanted[member];
                    let from = usize::try_from(range.start - fetch.bytes.start).unwrap();
                    let to = usize::try_from(range.end - fetch.bytes.start).unwrap();
                    prop_assert!(answer[member].replace(bytes[from..to].to_vec()).is_none());
                }
            }
            for (range, got) in wanted.iter().zip(answer) {
                prop_assert_eq!(got, Some(read(range)));
            }
        }
    }
}
