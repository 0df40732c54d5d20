//! The hashing seam: one stable 64- and 128-bit hash (xxh3) for tokens, placement and file keys.
//! The standard library's hasher is seeded per process and must not name anything that outlives it.

use xxhash_rust::xxh3::Xxh3;

/// A stable hash that is fed piece by piece. Every piece is length-prefixed, so that
/// `("ab","c")` and `("a","bc")` differ.
#[derive(Default)]
pub struct StableHasher(Xxh3);

impl std::fmt::Debug for StableHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StableHasher")
    }
}

impl StableHasher {
    /// An empty hasher.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one piece.
    pub fn piece(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// The 128-bit digest as 32 hexadecimal digits.
    #[must_use]
    pub fn hex128(&self) -> String {
        format!("{:032x}", self.0.digest128())
    }

    /// The 64-bit digest.
    #[must_use]
    pub fn digest64(&self) -> u64 {
        self.0.digest()
    }
}

/// The stable 64-bit hash of one byte string.
#[must_use]
pub fn hash64(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_length_prefixed() {
        let a = StableHasher::new().piece("ab").piece("c").hex128();
        let b = StableHasher::new().piece("a").piece("bc").hex128();
        assert_ne!(a, b);
    }

    #[test]
    fn the_digest_is_the_same_in_every_process() {
        assert_eq!(hash64(b"lakeserve"), xxhash_rust::xxh3::xxh3_64(b"lakeserve"));
        assert_eq!(StableHasher::new().piece("a").hex128(), StableHasher::new().piece("a").hex128());
    }
}
