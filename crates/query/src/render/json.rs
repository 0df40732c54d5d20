//! JSON strings.

/// Writes `text` as a JSON string with its quotes. Only what JSON demands is escaped; the rest stays UTF-8.
pub fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0x00..=0x1f => b'u',
            _ => continue,
        };
        out.extend_from_slice(&bytes[written..at]);
        written = at + 1;
        out.extend_from_slice(&[b'\\', short]);
        if short == b'u' {
            out.extend_from_slice(b"00");
            hex(&[byte], out);
        }
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}

/// Writes `bytes` as lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * 2);
    for &byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// The order of map keys: that of their JSON text with all beyond ASCII escaped as `\uXXXX`, so that it can be
/// reproduced with any JSON library.
pub(super) fn ascii_order_key(json: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(json) else { return json.to_vec() };
    if text.is_ascii() {
        return json.to_vec();
    }
    let mut key = Vec::with_capacity(json.len() * 2);
    for character in text.chars() {
        if character.is_ascii() {
            key.extend(character.to_string().into_bytes());
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                key.extend_from_slice(b"\\u");
                hex(&unit.to_be_bytes(), &mut key);
            }
        }
    }
    key
}
